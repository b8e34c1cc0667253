#include "core/support/temporary_folder.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/support/disk.h"
#include "core/support/error.h"

namespace lathe {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder()
    : folder_([] {
        std::error_code none;
        const fs::path parent = fs::temp_directory_path(none);
        std::string path = (none ? fs::path("/tmp") : parent) / "lathe-XXXXXX";
        // Mode 0700, by a name that nobody can guess: in /tmp another user could have put a link there
        // before.
        if (!mkdtemp(path.data())) fail_to_make_folder(path, errno);
        return path;
      }) {}

std::string why_no_room(uint64_t bytes) {
  try {
    const TemporaryFolder folder;
    const std::string path = folder / "room";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) fail_to_write(path, errno);
    // Of what the file system would say to a write, a quota included, without the writing.
    const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
    close(file);
    if (error != 0) fail_to_write(path, error);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace lathe
