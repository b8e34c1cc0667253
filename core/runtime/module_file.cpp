#include "core/runtime/module_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "core/runtime/linked_library.h"
#include "core/runtime/pages.h"
#include "core/support/cpu.h"
#include "core/support/digest.h"
#include "core/support/file.h"
#include "core/support/text.h"
#include "core/support/unfit.h"

namespace lathe::runtime {
namespace {

/// As PNG's (RFC 2083, 12.11): a byte that no text has, and an end of line that a transfer as text would
/// change.
constexpr std::string_view kMagic = "\x89LATHE\r\n";
constexpr uint32_t kVersion = 6;
constexpr uint64_t kPage = 4096;

/// The first bytes of the file, little-endian. The plan follows at once, then the program; library and
/// constants start at pages.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint64_t plan_bytes;
  uint64_t library_at, library_bytes;
  uint64_t constants_at, constants_bytes;
  uint64_t program_bytes;       // 0: there is none
  char constants_checksum[64];  // SHA-256 of the SHA-256s of the constants, in the order of their offsets
  char checksum[64];            // SHA-256 of the fields above, the plan and the library
};
static_assert(sizeof(Header) == 192);

constexpr uint64_t page_up(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

/// Covers all that decides what runs; it is also the digest by which modules are told apart.
std::string checksum(const Header& header, std::string_view plan_and_program, std::string_view library) {
  std::string covered(reinterpret_cast<const char*>(&header), offsetof(Header, checksum));
  return sha256(covered.append(plan_and_program).append(library));
}

/// Apart from the checksum of the rest: weights are most of the file, and reading all of them would cost what
/// mapping them saves. verify_module() does it.
std::string constants_checksum(std::span<const std::string_view> constants) {
  std::string digests;
  for (std::string_view constant : constants)
    if (!constant.empty()) digests += sha256(constant);
  return sha256(digests);
}

/// The header, when it describes a file of this size with the right checksum.
Header checked_header(const ModuleBytes& file) {
  const std::string& path = file.name;
  const uint64_t size = file.bytes.size();
  Header header;
  if (size < sizeof header) fail("{} is not a module file: it is too short", path);
  std::memcpy(&header, file.bytes.data(), sizeof header);
  // Magic, version, sizes, checksum, in this order: the message names the first thing that is wrong, and the
  // checksum reads no further than sizes that fit.
  if (std::string_view(header.magic, sizeof header.magic) != kMagic) fail("{} is not a module file", path);
  if (header.version > kVersion)
    fail(
        "{} is a module of format {}, this program reads up to {}; use a newer program, or compile the model "
        "again",
        path, header.version, kVersion);
  if (header.version >= 1 && header.version < kVersion)
    fail("{} is a module of format {}, this program reads {}; compile the model again", path, header.version,
         kVersion);
  // Differences, not sums, on the side of the file: numbers from the file may be as large as they like.
  bool fits = header.version == kVersion && header.header_bytes == sizeof header &&
              header.plan_bytes <= size && header.program_bytes <= size &&
              header.library_at == page_up(sizeof header + header.plan_bytes + header.program_bytes) &&
              header.library_at <= size && header.library_bytes <= size - header.library_at &&
              header.constants_at == page_up(header.library_at + header.library_bytes) &&
              header.constants_at <= size && header.constants_bytes == size - header.constants_at;
  if (!fits) fail("{} is damaged or cut short: its {} bytes do not match its header", path, size);
  if (checksum(header, file.bytes.substr(sizeof header, header.plan_bytes + header.program_bytes),
               file.bytes.substr(header.library_at, header.library_bytes)) !=
      std::string_view(header.checksum, sizeof header.checksum))
    fail("{} is damaged: its checksum does not match", path);
  return header;
}

/// Those of the plan, of the program's plans and its constants.
void for_each_value(const Plan& plan, const std::optional<Program>& program,
                    FunctionRef<void(const Value&)> f) {
  for (const Value& value : plan.values) f(value);
  if (!program) return;
  for (const Plan& each : program->plans)
    for (const Value& value : each.values) f(value);
  for (const Value& value : program->constants) f(value);
}

/// A file whose header, plan, program and library are as they were written.
struct ModuleFile {
  Header header;
  Plan plan;
  std::optional<Program> program;

  explicit ModuleFile(const ModuleBytes& file) : header(checked_header(file)) {
    try {
      plan = parse_plan(file.bytes.substr(sizeof header, header.plan_bytes));
      if (header.program_bytes > 0) {
        program = parse_program(file.bytes.substr(sizeof header + header.plan_bytes, header.program_bytes));
        check_program(*program, plan);
      }
      if (plan.constant_bytes != static_cast<int64_t>(header.constants_bytes))
        fail("module: {} bytes of constants, the header says {}", plan.constant_bytes,
             header.constants_bytes);
    } catch (const Error& error) {
      fail("{}: {}", file.name, error.what());
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
  const size_t plan_bytes = plan.size();
  if (image.program) plan += program_json(*image.program);
  Header header{};
  std::memcpy(header.magic, kMagic.data(), sizeof header.magic);
  header.version = kVersion;
  header.header_bytes = sizeof header;
  header.plan_bytes = plan_bytes;
  header.program_bytes = plan.size() - plan_bytes;
  header.library_at = page_up(sizeof header + plan.size());
  header.library_bytes = image.library.size();
  header.constants_at = page_up(header.library_at + image.library.size());
  header.constants_bytes = static_cast<uint64_t>(image.plan.constant_bytes);
  std::memcpy(header.constants_checksum, constants_checksum(constants).data(), 64);
  std::memcpy(header.checksum, checksum(header, plan, image.library).data(), sizeof header.checksum);

  // The file in pieces, so that weights are not copied to be written.
  const std::string zeros(kPage, '\0');
  std::vector<std::string_view> pieces{{reinterpret_cast<const char*>(&header), sizeof header}, plan};
  auto pad = [&](uint64_t bytes) { pieces.push_back(std::string_view(zeros).substr(0, bytes)); };
  pad(header.library_at - sizeof header - plan.size());
  pieces.push_back(image.library);
  pad(header.constants_at - header.library_at - image.library.size());
  int64_t written = 0;
  for (size_t i = 0; i < constants.size(); ++i) {
    const ModuleImage::Constant& constant = image.constants[i];
    // The plan has put constants one after another, aligned.
    CHECK(constant.at >= written && constant.at - written < kAlignment, "constant at {}, {} written",
          constant.at, written);
    pad(static_cast<uint64_t>(constant.at - written));
    pieces.push_back(constants[i]);
    written = constant.at + constant.data.bytes();
  }
  pad(static_cast<uint64_t>(image.plan.constant_bytes - written));
  write_file(path, pieces);
}

ModuleBytes map_module(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is refused, not awaited
  if (fd < 0) fail("cannot read {}: {}", path, std::strerror(errno));
  ModuleBytes file{.name = path};
  try {
    struct stat status {};
    if (fstat(fd, &status) != 0) fail("{}", std::strerror(errno));
    if (!S_ISREG(status.st_mode)) fail("it is not a regular file");
    const auto size = static_cast<uint64_t>(status.st_size);
    if (size > 0) file.owner = map_file(fd, size);
    file.bytes = {static_cast<const char*>(file.owner.get()), size};
  } catch (const Error& error) {
    close(fd);
    fail("cannot read {}: {}", path, error.what());
  }
  // The mapping stays.
  close(fd);
  return file;
}

void verify_module(const ModuleBytes& file) {
  ModuleFile module(file);
  // Values that share a constant are one here.
  std::map<int64_t, std::string_view> at;
  for_each_value(module.plan, module.program, [&](const Value& value) {
    if (value.place == Place::kConstant && value.bytes() > 0)
      at[value.at] = file.bytes.substr(module.header.constants_at + static_cast<uint64_t>(value.at),
                                       static_cast<uint64_t>(value.bytes()));
  });
  std::vector<std::string_view> constants;
  for (const auto& [offset, bytes] : at) constants.push_back(bytes);
  if (constants_checksum(constants) != std::string_view(module.header.constants_checksum, 64))
    fail("{} is damaged: the checksum of its constants does not match", file.name);
}

ModuleHead read_module_head(const std::string& path) {
  const ModuleBytes file = map_module(path);
  ModuleFile module(file);
  const Header& header = module.header;
  return {.plan = std::move(module.plan),
          .digest = std::string(header.checksum, sizeof header.checksum),
          .code_bytes = executable_bytes(file.bytes.substr(header.library_at, header.library_bytes))};
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

/// Looks up all kernels at once: a run finds pointers.
Module::Module(Plan plan, std::optional<Program> program, Find find)
    : plan_(std::move(plan)), kernels_(find_kernels(plan_, find)) {
  if (!program) return;
  program_.emplace().program = std::move(*program);
  for (const Plan& each : program_->program.plans)
    program_->plans.push_back({&each, find_kernels(each, find), {}});
  program_->native = static_cast<const LatheNativeProgram*>(find(kNativeSymbol));
}

std::vector<LatheKernel> Module::find_kernels(const Plan& plan, Find find) {
  std::vector<LatheKernel> kernels;
  for (const Step& step : plan.steps) {
    kernels.push_back(reinterpret_cast<LatheKernel>(find(step.kernel.c_str())));
    if (!kernels.back()) fail("the module has no kernel {}", step.kernel);
  }
  return kernels;
}

/// Of all values that are constants, by `place`.
void Module::place_constants(FunctionRef<void*(const Value& value)> place) {
  auto places = [&](const std::vector<Value>& values) {
    std::vector<void*> found;
    for (const Value& value : values)
      found.push_back(value.place == Place::kConstant ? place(value) : nullptr);
    return found;
  };
  constants_ = places(plan_.values);
  if (!program_) return;
  for (LoadedPlan& each : program_->plans) each.constants = places(each.plan->values);
  program_->constants = places(program_->program.constants);
}

/// Kernels are copied into a library of their own; constants stay where the file's bytes are, which the
/// module keeps alive.
std::shared_ptr<const Module> Module::load_with(const ModuleBytes& file,
                                                FunctionRef<SharedObject(std::string_view)> load_library) {
  ModuleFile parsed(file);
  const Header& header = parsed.header;
  require_cpu(parsed.plan, file.name);
  try {
    SharedObject library = load_library(file.bytes.substr(header.library_at, header.library_bytes));
    std::shared_ptr<Module> module(new Module(std::move(parsed.plan), std::move(parsed.program),
                                              [&](const char* symbol) { return library.find(symbol); }));
    module->library_ = std::move(library);
    // Kernels take every buffer as void*; check_plan() has seen that none writes to a constant.
    char* constants = const_cast<char*>(file.bytes.data()) + header.constants_at;
    module->place_constants([&](const Value& value) { return constants + value.at; });
    module->owners_.push_back(file.owner);
    return module;
  } catch (const Error& error) {
    fail("{}: {}", file.name, error.what());
  }
}

std::shared_ptr<const Module> Module::load(const ModuleBytes& file) {
  return load_with(file, [](std::string_view library) { return SharedObject(library); });
}

std::shared_ptr<const Module> Module::load(const ModuleBytes& file, int object) {
  return load_with(file, [&](std::string_view library) { return SharedObject::in_file(library, object); });
}

std::shared_ptr<const Module> Module::link(const lathe_library& library) {
  if (library.version != kLibraryVersion)
    fail("the model's library is of format {}, this runtime reads {}; compile the model again",
         library.version, kLibraryVersion);
  Plan plan = parse_plan({library.plan, static_cast<size_t>(library.plan_bytes)});
  if (plan.constant_bytes != library.constant_bytes)
    fail("module: {} bytes of constants, the library has {}", plan.constant_bytes, library.constant_bytes);
  std::optional<Program> program;
  if (library.program_bytes > 0) {
    program = parse_program({library.program, static_cast<size_t>(library.program_bytes)});
    check_program(*program, plan);
  }
  require_cpu(plan, plan.model.empty() ? "the model" : plan.model);
  const std::span symbols(library.symbols, static_cast<size_t>(library.symbol_count));
  std::shared_ptr<Module> module(
      new Module(std::move(plan), std::move(program), [&](const char* symbol) -> void* {
        for (const LatheSymbol& each : symbols)
          if (std::strcmp(each.name, symbol) == 0) return const_cast<void*>(each.address);
        return nullptr;
      }));
  // Kernels take every buffer as void*; check_plan() has seen that none writes to a constant.
  module->place_constants(
      [&](const Value& value) { return const_cast<char*>(library.constants) + value.at; });
  return module;
}

/// As `load`, of what was never a file: constants are the image's tensors.
std::shared_ptr<const Module> Module::from_image(ModuleImage image) {
  require_cpu(image.plan, image.plan.model.empty() ? "the module" : image.plan.model);
  if (image.program) check_program(*image.program, image.plan);
  SharedObject library(image.library);
  std::shared_ptr<Module> module(new Module(std::move(image.plan), std::move(image.program),
                                            [&](const char* symbol) { return library.find(symbol); }));
  module->library_ = std::move(library);
  auto constants = std::make_shared<std::vector<ModuleImage::Constant>>(std::move(image.constants));
  for (const ModuleImage::Constant& constant : *constants)
    collapse_to_huge_pages(constant.data.data(), static_cast<uint64_t>(constant.data.bytes()));
  alignas(kAlignment) static char nothing[kAlignment];
  module->place_constants([&](const Value& value) -> void* {
    // An empty constant takes no room: the next one begins where it does.
    if (value.bytes() == 0) return nothing;
    auto holder = std::find_if(constants->begin(), constants->end(), [&](const ModuleImage::Constant& held) {
      return held.at == value.at && held.data.bytes() == value.bytes();
    });
    CHECK(holder != constants->end(), "no constant of {} bytes at {}", value.bytes(), value.at);
    return holder->data.data();
  });
  module->owners_.push_back(constants);
  return module;
}

}  // namespace lathe::runtime
