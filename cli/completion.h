// Completions of shells, from the table of commands and the flags that they declare. The scripts hold all
// words themselves: completing starts no process.
#pragma once

#include <string>

namespace lathe::cli {

std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

}  // namespace lathe::cli
