// Words as shells read them.
#pragma once

#include <string>

namespace lathe::cli {

/// In single quotes, for any of the shells. One of its own ends the quotes, stands by itself behind a
/// backslash, and begins them again.
std::string quoted(std::string text);
/// One word of a command that people copy: as it is where a shell leaves it so, else quoted.
std::string in_shell(const std::string& text);

}  // namespace lathe::cli
