#include "core/support/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>

#include "core/support/disk_use.h"
#include "core/support/error.h"
#include "core/support/disk.h"

namespace lathe {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::error_code none;
  const fs::path parent = fs::temp_directory_path(none);
  path_ = (none ? fs::path("/tmp") : parent) / "lathe-XXXXXX";
  // Mode 0700, by a name that nobody can guess: in /tmp another user could have put a link there before.
  if (!mkdtemp(path_.data())) fail_to_make_folder(path_, errno);
}

TemporaryFolder::~TemporaryFolder() {
  try {
    // Strangers' programs may have written there.
    remove_folder(path_);
  } catch (const Error&) {
    // It stays, which harms nobody who is still here.
  }
}

}  // namespace lathe
