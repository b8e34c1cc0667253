#include "core/support/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/support/error.h"

namespace lathe {

void sync_to_disk(const std::string& path) {
  // fsync(2) is of the file, whichever descriptor it goes by; a folder's is of the names in it.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool done = file >= 0 && fsync(file) == 0;
  const int error = errno;
  if (file >= 0) close(file);
  if (!done) fail("cannot write {} to its disk: {}", path, std::strerror(error));
}

}  // namespace lathe
