#include <fmt/core.h>

#include "cli/command.h"
#include "cli/commands/commands.h"

namespace lathe::cli {

std::string_view revision() { return LATHE_REVISION; }
std::string_view version() { return LATHE_VERSION; }

int version_command(Flags& flags) {
  if (!flags.parse()) return kSuccess;
  fmt::print("lathe {} ({})\n", LATHE_VERSION, LATHE_REVISION);
  return kSuccess;
}

}  // namespace lathe::cli
