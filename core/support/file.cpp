#include "core/support/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/unfinished.h"

namespace lathe {

std::string read_file(const std::string& path) {
  // A folder can be opened like a file; reading it fails.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) fail("cannot read {}: {}", path, std::strerror(errno));
  const std::shared_ptr<void> closed_at_the_end(nullptr, [fd](void*) { close(fd); });
  // All that is read as a whole is a message of protobuf, or text. Of a device or a pipe nobody knows the
  // end.
  const bool is_file = S_ISREG(status.st_mode);
  const uint64_t most = is_file ? uint64_t{1} << 31 : uint64_t{1} << 28;
  const auto require_bounded = [&](uint64_t size) {
    if (size > most) fail("cannot read {}: it has more than {} bytes", path, most);
  };
  // A file in /proc has a size of 0.
  const auto expected = is_file ? static_cast<uint64_t>(status.st_size) : 0;
  require_bounded(expected);
  std::string bytes;
  bytes.reserve(expected + 1);
  std::vector<char> piece(1 << 16);
  while (true) {
    const ssize_t n = read(fd, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read {}: {}", path, std::strerror(errno));
    if (n == 0) return bytes;
    bytes.append(piece.data(), static_cast<size_t>(n));
    require_bounded(bytes.size());
  }
}

namespace {
/// In place, without a file beside it.
void write_special(const std::string& path, std::span<const std::string_view> pieces) {
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) fail_to_write(path, errno);
  int error = 0;
  for (size_t i = 0; i < pieces.size() && !error; ++i) error = write_all(fd, pieces[i]) ? 0 : errno;
  if (close(fd) != 0 && !error) error = errno;
  if (error) fail_to_write(path, error);
}
}  // namespace

bool write_all(int descriptor, std::string_view bytes) {
  // A write may take less than all: on a pipe, at a signal, or where a disk is nearly full.
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

void write_file(const std::string& path, std::string_view bytes) { write_file(path, {&bytes, 1}); }

void write_file(const std::string& path, std::span<const std::string_view> pieces) {
  // A device or a pipe is written to; a file renamed over it would take its place.
  struct stat status {};
  if (stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    write_special(path, pieces);
    return;
  }
  // Whoever reads the path finds the old file or the whole new one; fsync before the rename, so that this
  // holds after a crash of the system too.
  static std::atomic<uint64_t> files_written = 0;  // threads may write one path at once
  int fd = -1;
  // Beside the file: a rename is one step only within a file system.
  Unfinished temporary([&] {
    std::string name = fmt::format("{}.{}.{}.tmp", path, getpid(), ++files_written);
    fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) fail_to_write(path, errno);
    return name;
  });
  int error = 0;
  for (size_t i = 0; i < pieces.size() && !error; ++i) error = write_all(fd, pieces[i]) ? 0 : errno;
  if (!error && fsync(fd) != 0) error = errno;
  // NFS and quotas may tell a failed write only here (close(2)).
  if (close(fd) != 0 && !error) error = errno;
  if (error) fail_to_write(path, error);
  temporary.finish([&] {
    if (rename(temporary.path().c_str(), path.c_str()) != 0) fail_to_write(path, errno);
  });
}

}  // namespace lathe
