#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"

namespace lathe::cli {

std::string_view version() { return LATHE_VERSION; }
std::string_view revision() { return LATHE_REVISION; }
std::string_view revision_date() { return LATHE_REVISION_DATE; }

int version_command(Flags& flags) {
  bool as_json = false;
  flags.add("--json", as_json, "print one JSON object");
  if (!flags.parse()) return kSuccess;
  if (as_json)
    fmt::print("{}\n", nlohmann::json{{"version", version()}, {"revision", revision()}}.dump());
  else
    fmt::print("lathe {} ({})\n", version(), revision());
  return kSuccess;
}

}  // namespace lathe::cli
