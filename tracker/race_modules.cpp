#include "tracker/race_modules.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "tracker/defaults.h"

namespace lathe::tracker {

ModuleFile::ModuleFile(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename();
  // A searcher wrote it: no link out of its folder is followed, and a pipe put there does not make the
  // tracker wait (open(2), O_NOFOLLOW, O_NONBLOCK). Held open, so that what was hashed is what is sent,
  // whatever becomes of the name.
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor_ < 0) fail("cannot read {}: {}", name, strerror(errno));
  try {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) fail("{} is no regular file", name);
    blob_.size = static_cast<uint64_t>(status.st_size);
    if (blob_.size < 1 || blob_.size > defaults::kModuleLimit)
      fail("{} has {} bytes, must be 1..{}", name, blob_.size, defaults::kModuleLimit);
    // On the thread of the search, not on the tracker's; a gigabyte takes seconds.
    Sha256 sum;
    for (uint64_t at = 0; at < blob_.size;) {
      const std::string bytes = read(at, defaults::kChunkBytes);
      if (bytes.empty()) fail("cannot read {}", name);
      sum.add(bytes);
      at += bytes.size();
    }
    blob_.digest = sum.digest();
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

ModuleFile::~ModuleFile() { close(descriptor_); }

std::string ModuleFile::read(uint64_t offset, size_t length) const {
  if (offset >= blob_.size) return "";
  std::string bytes(std::min<uint64_t>(length, blob_.size - offset), '\0');
  // pread: the tracker's thread reads pieces for several workers from one descriptor.
  const ssize_t got = pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

}  // namespace lathe::tracker
