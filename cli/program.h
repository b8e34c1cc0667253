// A program of several commands: finds the one that is asked for, and ends with its exit code.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace lathe::cli {

struct Program {
  std::string_view name, summary;
  std::span<const Command> commands;
};

/// Runs the command that `arguments` (without the program's name) ask for. Throws Error for an unknown one.
int run_program(const Program& program, const std::vector<std::string>& arguments);

/// What `body` returns; what it throws is said on stderr, and has its ExitCode.
int exit_code_of(const std::function<int()>& body);

}  // namespace lathe::cli
