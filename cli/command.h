// A program of several commands. Those of `tune` are rows of command.cpp, those of `lathe-runner` of runner/;
// help, manual pages, completions and suggestions come from the rows and from the flags that the commands
// declare.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/flag.h"
#include "cli/flags.h"

namespace lathe::cli {

struct Command {
  std::string_view name;       // "" is what `tune` does without a command's name
  std::string_view arguments;  // as in "FILE.relay --passes=a,b"
  std::string_view summary;
  std::array<std::string_view, 2> examples;  // both start with "tune"; the build fails without them
  int (&run)(Flags& flags);                  // returns an ExitCode
  bool takes_config = true;                  // false: works whatever environment and files say
};

struct Program {
  std::string_view name, summary;
  std::span<const Command> commands;
  std::string_view hint = "";  // what help ends with
};

/// The one that runs: each binary defines its own.
const Program& program();

std::span<const Command> commands();

/// "" is the main job. Throws Error with the nearest name for an unknown one.
const Command& find_command(std::string_view name);

/// "tune bench"
std::string full_name(const Command& command);

/// Whether there is a command that explains the others, and the main job. One without has its flags in the
/// program's own help.
bool has_help_command();

/// What explains the command: "tune bench --help", of the main job "tune help tune".
std::string help_command_of(const Command& command);

/// What the command declares, with defaults as values.
std::vector<Flag> flags_of(const Command& command);

/// Runs the command that `arguments` (without the program's name) ask for. Throws Error for an unknown
/// command.
int run_command(const std::vector<std::string>& arguments);

/// What `body` returns, once all that it printed has left; what it throws is said on stderr, and has its
/// ExitCode.
int exit_code_of(const std::function<int()>& body);

}  // namespace lathe::cli
