#include "cli/terminal.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdlib>

namespace lathe::cli {

bool can_redraw(int file) {
  const char* kind = std::getenv("TERM");
  return isatty(file) != 0 && kind && *kind && std::string_view(kind) != "dumb";
}

std::string colored(std::string_view text, Color color, int file) {
  const char* refused = std::getenv("NO_COLOR");  // as no-color.org has it: set, and not to nothing
  if (!can_redraw(file) || (refused && *refused)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", static_cast<int>(color), text);
}

}  // namespace lathe::cli
