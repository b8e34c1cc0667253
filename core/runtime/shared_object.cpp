#include "core/runtime/shared_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "core/support/error.h"
#include "core/support/file.h"

namespace lathe::runtime {

namespace {

void fill(int descriptor, std::string_view bytes) {
  if (bytes.substr(0, 4) !=
      "\x7f"
      "ELF")
    fail("shared object: the bytes are not an ELF file");
  if (!write_all(descriptor, bytes))
    fail("shared object: cannot fill an in-memory file: {}", std::strerror(errno));
}

}  // namespace

/// The loader takes files only: the bytes go to one in memory, of which
/// nothing is left when the process ends.
SharedObject::SharedObject(std::string_view bytes) {
  // Kept open as long as the object lives: the loader takes two objects of one path,
  // /proc/self/fd/N, for one.
  descriptor_ = memfd_create("lathe-kernels", MFD_CLOEXEC);
  if (descriptor_ < 0) fail("shared object: cannot make an in-memory file: {}", std::strerror(errno));
  try {
    fill(descriptor_, bytes);
    load(descriptor_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

SharedObject SharedObject::from_file(int descriptor) {
  SharedObject object;
  object.load(descriptor);
  return object;
}

SharedObject SharedObject::in_file(std::string_view bytes, int descriptor) {
  fill(descriptor, bytes);
  return from_file(descriptor);
}

void SharedObject::load(int descriptor) {
  // RTLD_NOW: a missing symbol is an error here, not in the midst of a run.
  handle_ = dlopen(fmt::format("/proc/self/fd/{}", descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_) fail("shared object: the system cannot load it: {}", dlerror());
}

SharedObject::~SharedObject() {
  if (handle_) dlclose(handle_);
  if (descriptor_ >= 0) close(descriptor_);
}

SharedObject::SharedObject(SharedObject&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), handle_(std::exchange(other.handle_, nullptr)) {}

SharedObject& SharedObject::operator=(SharedObject&& other) noexcept {
  // What this one held is given back with `other`.
  std::swap(descriptor_, other.descriptor_);
  std::swap(handle_, other.handle_);
  return *this;
}

void* SharedObject::find(const char* symbol) const { return dlsym(handle_, symbol); }

int64_t executable_bytes(std::string_view elf) {
  Elf64_Ehdr header;
  if (elf.size() < sizeof header) return 0;
  std::memcpy(&header, elf.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64) return 0;
  int64_t bytes = 0;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    const uint64_t at = i * sizeof segment;
    // The bytes are from a file that may be damaged: no sum that could overflow.
    if (header.e_phoff > elf.size() || elf.size() - header.e_phoff < at + sizeof segment) break;
    std::memcpy(&segment, elf.data() + header.e_phoff + at, sizeof segment);
    if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && segment.p_filesz <= elf.size())
      bytes += static_cast<int64_t>(segment.p_filesz);
  }
  return bytes;
}

}  // namespace lathe::runtime
