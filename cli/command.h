// The commands of `tune`: one row each in command.cpp; help and suggestions come from the rows.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "cli/exit_codes.h"
#include "cli/flags.h"

namespace lathe::cli {

struct Command {
  std::string_view name;       // "" is what `tune` does without a command's name
  std::string_view arguments;  // as in "FILE.relay --passes=a,b"
  std::string_view summary;
  std::array<std::string_view, 2> examples;
  int (*run)(Flags& flags);  // returns an ExitCode
};

std::span<const Command> commands();

/// Runs the command that `arguments` (without the program's name) ask for. Throws Error for an unknown
/// command.
int run_command(const std::vector<std::string>& arguments);

}  // namespace lathe::cli
