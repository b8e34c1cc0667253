#include "core/support/user_folder.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

#include "core/support/error.h"

namespace lathe {
namespace {

/// $VARIABLE/lathe when that is an absolute path, else the folder in the home folder.
std::string folder_of(const char* variable, const char* in_home) {
  const char* folder = std::getenv(variable);
  // Other values are to be ignored (XDG Base Directory Specification).
  if (folder && *folder == '/') return fmt::format("{}/lathe", folder);
  const char* home = std::getenv("HOME");
  if (!home || !*home) {
    const passwd* user = getpwuid(getuid());
    if (!user) fail("cannot tell the home folder: set HOME or {}", variable);
    home = user->pw_dir;
  }
  return fmt::format("{}/{}/lathe", home, in_home);
}

}  // namespace

std::string cache_folder() {
  const char* folder = std::getenv("LATHE_CACHE");
  return folder && *folder ? folder : folder_of("XDG_CACHE_HOME", ".cache");
}

std::string data_folder() { return folder_of("XDG_DATA_HOME", ".local/share"); }

std::string config_folder() { return folder_of("XDG_CONFIG_HOME", ".config"); }

}  // namespace lathe
