#include "core/runtime/module_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "core/runtime/cpu.h"
#include "core/runtime/pages.h"
#include "core/support/text.h"
#include "core/support/unfit.h"

namespace lathe::runtime {
namespace {

constexpr std::string_view kMagic = "\x89LATHE\r\n";  // text-mode transfers damage it visibly
constexpr uint32_t kVersion = 2;
constexpr uint64_t kPage = 4096;

/// The first bytes of the file, little-endian. The plan follows at once; library and constants start at
/// pages.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t plan_bytes;
  uint64_t library_at, library_bytes;
  uint64_t constants_at, constants_bytes;
  uint64_t reserved;
  char constants_checksum[64];  // SHA-256 of the SHA-256s of the constants, in the order of their offsets
  char checksum[64];            // SHA-256 of the fields above, the plan and the library
};
static_assert(sizeof(Header) == 192);

constexpr uint64_t page_up(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::string checksum(const Header& header, std::string_view plan, std::string_view library) {
  std::string covered(reinterpret_cast<const char*>(&header), offsetof(Header, checksum));
  return sha256(covered.append(plan).append(library));
}

std::string constants_checksum(std::span<const std::string_view> constants) {
  std::string digests;
  for (std::string_view constant : constants)
    if (!constant.empty()) digests += sha256(constant);
  return sha256(digests);
}

/// A file mapped read-only. The mapping lives as long as a copy of `bytes` does.
struct MappedFile {
  std::shared_ptr<void> bytes;
  uint64_t size = 0;

  explicit MappedFile(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (fd < 0 || fstat(fd, &status) != 0) {
      int error = errno;
      if (fd >= 0) close(fd);
      fail("cannot read {}: {}", path, std::strerror(error));
    }
    if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(sizeof(Header))) {
      close(fd);
      fail("{} is not a module file: it is {}", path,
           S_ISREG(status.st_mode) ? "too short" : "not a regular file");
    }
    size = static_cast<uint64_t>(status.st_size);
    try {
      bytes = map_file(fd, size);
    } catch (const Error& error) {
      close(fd);
      fail("{}: {}", path, error.what());
    }
    close(fd);
  }
  std::string_view piece(uint64_t at, uint64_t length) const {
    return {static_cast<const char*>(bytes.get()) + at, length};
  }
};

/// The header, when it describes a file of this size with the right checksum.
Header checked_header(const std::string& path, const MappedFile& file) {
  Header header;
  std::memcpy(&header, file.bytes.get(), sizeof header);
  if (std::string_view(header.magic, sizeof header.magic) != kMagic) fail("{} is not a module file", path);
  if (header.version > kVersion)
    fail(
        "{} is a module of format {}, this program reads up to {}; use a newer program, or compile the model "
        "again",
        path, header.version, kVersion);
  if (header.version >= 1 && header.version < kVersion)
    fail("{} is a module of format {}, this program reads {}; compile the model again", path, header.version,
         kVersion);
  bool fits = header.version == kVersion && header.header_bytes == sizeof header &&
              header.plan_bytes <= file.size &&
              header.library_at == page_up(sizeof header + header.plan_bytes) &&
              header.library_at <= file.size && header.library_bytes <= file.size - header.library_at &&
              header.constants_at == page_up(header.library_at + header.library_bytes) &&
              header.constants_at <= file.size && header.constants_bytes == file.size - header.constants_at;
  if (!fits) fail("{} is damaged or cut short: its {} bytes do not match its header", path, file.size);
  if (checksum(header, file.piece(sizeof header, header.plan_bytes),
               file.piece(header.library_at, header.library_bytes)) !=
      std::string_view(header.checksum, sizeof header.checksum))
    fail("{} is damaged: its checksum does not match", path);
  return header;
}

/// A file whose header, plan and library are as they were written.
struct ModuleFile {
  MappedFile file;
  Header header;
  Plan plan;

  explicit ModuleFile(const std::string& path) : file(path), header(checked_header(path, file)) {
    try {
      plan = parse_plan(file.piece(sizeof header, header.plan_bytes));
      if (plan.constant_bytes != static_cast<int64_t>(header.constants_bytes))
        fail("module: {} bytes of constants, the header says {}", plan.constant_bytes,
             header.constants_bytes);
    } catch (const Error& error) {
      fail("{}: {}", path, error.what());
    }
  }
};

}  // namespace

void write_module(const std::string& path, const ModuleImage& image) {
  std::vector<std::string_view> constants;
  for (const ModuleImage::Constant& constant : image.constants)
    constants.emplace_back(static_cast<const char*>(constant.data.data()),
                           static_cast<size_t>(constant.data.bytes()));
  std::string plan = plan_text(image.plan);
  Header header{};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.plan_bytes = plan.size();
  header.library_at = page_up(sizeof header + plan.size());
  header.library_bytes = image.library.size();
  header.constants_at = page_up(header.library_at + image.library.size());
  header.constants_bytes = static_cast<uint64_t>(image.plan.constant_bytes);
  std::memcpy(header.constants_checksum, constants_checksum(constants).data(), 64);
  std::memcpy(header.checksum, checksum(header, plan, image.library).data(), sizeof header.checksum);

  const std::string zeros(kPage, '\0');
  std::vector<std::string_view> pieces{{reinterpret_cast<const char*>(&header), sizeof header}, plan};
  auto pad = [&](uint64_t bytes) { pieces.push_back(std::string_view(zeros).substr(0, bytes)); };
  pad(header.library_at - sizeof header - plan.size());
  pieces.push_back(image.library);
  pad(header.constants_at - header.library_at - image.library.size());
  int64_t written = 0;
  for (size_t i = 0; i < constants.size(); ++i) {
    const ModuleImage::Constant& constant = image.constants[i];
    CHECK(constant.at >= written && constant.at - written < kAlignment, "constant at {}, {} written",
          constant.at, written);
    pad(static_cast<uint64_t>(constant.at - written));
    pieces.push_back(constants[i]);
    written = constant.at + constant.data.bytes();
  }
  pad(static_cast<uint64_t>(image.plan.constant_bytes - written));
  write_file(path, pieces);
}

void verify_module(const std::string& path) {
  ModuleFile module(path);
  std::map<int64_t, std::string_view> at;
  for (const Value& value : module.plan.values)
    if (value.place == Place::kConstant && value.bytes() > 0)
      at[value.at] = module.file.piece(module.header.constants_at + static_cast<uint64_t>(value.at),
                                       static_cast<uint64_t>(value.bytes()));
  std::vector<std::string_view> constants;
  for (const auto& [offset, bytes] : at) constants.push_back(bytes);
  if (constants_checksum(constants) != std::string_view(module.header.constants_checksum, 64))
    fail("{} is damaged: the checksum of its constants does not match", path);
}

ModuleHead read_module_head(const std::string& path) {
  ModuleFile module(path);
  const Header& header = module.header;
  return {.plan = std::move(module.plan),
          .digest = std::string(header.checksum, sizeof header.checksum),
          .code_bytes = executable_bytes(module.file.piece(header.library_at, header.library_bytes))};
}

// Code for another CPU would end the process by SIGILL.
void require_cpu(const Plan& plan, const std::string& module) {
  std::vector<std::string> missing = missing_cpu_features(plan.cpu_features);
  if (!missing.empty())
    throw Unfit(fmt::format(
        "{}: built for a CPU with {}, which this one ({}) lacks; compile the model on this machine, or "
        "for it: --target cpu:mcpu=NAME",
        module, join_text(missing, ", "), cpu_name()));
}

Module::Module(Plan plan, std::string_view library)
    : plan_(std::move(plan)), library_(library), constants_(plan_.values.size()) {
  for (const Step& step : plan_.steps) {
    kernels_.push_back(reinterpret_cast<LatheKernel>(library_.find(step.kernel.c_str())));
    if (!kernels_.back()) fail("the module has no kernel {}", step.kernel);
  }
}

std::shared_ptr<const Module> Module::open(const std::string& path) {
  ModuleFile file(path);
  require_cpu(file.plan, path);
  try {
    std::shared_ptr<Module> module(
        new Module(std::move(file.plan), file.file.piece(file.header.library_at, file.header.library_bytes)));
    char* constants = static_cast<char*>(file.file.bytes.get()) + file.header.constants_at;
    for (size_t i = 0; i < module->constants_.size(); ++i)
      if (const Value& value = module->plan_.values[i]; value.place == Place::kConstant)
        module->constants_[i] = constants + value.at;
    module->owners_.push_back(file.file.bytes);
    return module;
  } catch (const Error& error) {
    fail("{}: {}", path, error.what());
  }
}

std::shared_ptr<const Module> Module::from_image(ModuleImage image) {
  require_cpu(image.plan, image.plan.model.empty() ? "the module" : image.plan.model);
  std::shared_ptr<Module> module(new Module(std::move(image.plan), image.library));
  auto constants = std::make_shared<std::vector<ModuleImage::Constant>>(std::move(image.constants));
  for (const ModuleImage::Constant& constant : *constants)
    collapse_to_huge_pages(constant.data.data(), static_cast<uint64_t>(constant.data.bytes()));
  for (size_t i = 0; i < module->constants_.size(); ++i) {
    const Value& value = module->plan_.values[i];
    if (value.place != Place::kConstant) continue;
    auto holder =
        std::find_if(constants->begin(), constants->end(),
                     [&](const ModuleImage::Constant& constant) { return constant.at == value.at; });
    CHECK(holder != constants->end(), "value {}: no constant at {}", i, value.at);
    module->constants_[i] = holder->data.data();
  }
  module->owners_.push_back(constants);
  return module;
}

}  // namespace lathe::runtime
