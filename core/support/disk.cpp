#include "core/support/disk.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/support/error.h"
#include "core/support/unfit.h"

namespace lathe {

namespace {
[[noreturn]] void fail_for(int error, const std::string& problem) {
  if (says_full(error)) throw Unfit(problem);
  throw Error(problem);
}
}  // namespace

bool says_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

void fail_to_write(const std::string& path, int error) {
  fail_for(error, fmt::format("cannot write {}: {}", path, std::strerror(error)));
}

void fail_to_make_folder(const std::string& path, int error) {
  fail_for(error, fmt::format("cannot make the folder {}: {}", path, std::strerror(error)));
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) fail_to_make_folder(path, error.value());
}

void sync_to_disk(const std::string& path) {
  // fsync(2) is of the file, whichever descriptor it goes by; a folder's is of the names in it.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (!done) fail("cannot write {} to its disk: {}", path, std::strerror(error));
}

bool rename_unless_there(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  // A file system that cannot: somebody may come between the two.
  struct stat taken {};
  if (errno == EINVAL) {
    if (lstat(to.c_str(), &taken) == 0) return false;
    if (rename(from.c_str(), to.c_str()) == 0) return true;
  }
  if (errno == EEXIST) return false;
  fail_to_write(to, errno);
}

}  // namespace lathe
