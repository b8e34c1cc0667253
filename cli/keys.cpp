#include "cli/keys.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/text.h"

namespace lathe::cli {

void require_private(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    fail("{} can be read by others; make it yours alone with chmod 600 {}", path, path);
}

void save_secret(const std::string& path, const std::string& text) {
  // Never over another secret, and never readable by others, not even for a moment.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) fail_to_write(path, errno);
  const ssize_t written = write(file, text.data(), text.size());
  int error = written < 0 ? errno : written < static_cast<ssize_t>(text.size()) ? ENOSPC : 0;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0) return;
  // A part of a secret is none, and would keep the next try from making the file.
  unlink(path.c_str());
  fail_to_write(path, error);
}

void save_keys(const std::string& path, const wire::KeyPair& keys) {
  save_secret(path, keys.public_key + "\n" + keys.secret_key + "\n");
}

void print_other_half(const std::string& path, const std::string& line) {
  try {
    fmt::print("{}\n", line);
    // Most of it is still in the buffer: a full disk shows here.
    if (fflush(stdout) != 0)
      throw std::system_error(errno, std::generic_category(), "cannot write to stdout");
  } catch (const std::system_error&) {
    unlink(path.c_str());
    throw;
  }
}

wire::KeyPair load_keys(const std::string& path) {
  require_private(path);
  const std::vector<std::string> lines = split_text(read_file(path), '\n');
  if (lines.size() < 2) fail("{} is no key file; `tune keygen` makes one", path);
  wire::check_key(lines[0], fmt::format("{}:1", path));
  wire::check_key(lines[1], fmt::format("{}:2", path));
  return {.public_key = lines[0], .secret_key = lines[1]};
}

}  // namespace lathe::cli
