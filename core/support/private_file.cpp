#include "core/support/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/unfit.h"

namespace lathe {
namespace {

/// Why it is not this user's alone; "" when it is.
std::string objection_to(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) return std::strerror(errno);
  if (!S_ISREG(status.st_mode)) return "it is no regular file";
  if (status.st_uid != geteuid()) return fmt::format("it is of the user {}", status.st_uid);
  if ((status.st_mode & 077) != 0)
    return fmt::format("others may use it, by its mode {:o}", status.st_mode & 0777);
  return "";
}

}  // namespace

int open_private_file(const std::string& path) {
  // A link could lead to any file of this user, and a pipe would be waited for.
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  const std::string objection = file < 0 ? std::strerror(errno) : objection_to(file);
  if (objection.empty()) return file;
  if (file >= 0) close(file);
  throw Unfit(fmt::format("cannot use {}: {}", path, objection));
}

}  // namespace lathe
