#include "cli/overview.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"

namespace lathe::cli {

void print_overview() {
  const Program& program = cli::program();
  fmt::print("{}: {}\n\nUsage:\n", program.name, program.summary);
  size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, command.name.size());
  for (const Command& command : commands())
    if (command.name.empty())
      fmt::print("  {} {}\n      {}\n", program.name, command.arguments, command.summary);
  fmt::print("\nCommands:\n");
  for (const Command& command : commands())
    if (!command.name.empty()) fmt::print("  {:{}}  {}\n", command.name, width, command.summary);
  fmt::print("\nExamples:\n");
  for (const Command& command : commands()) fmt::print("  {}\n", command.examples[0]);
  fmt::print("\n`{} COMMAND --help` explains a command.\n", program.name);
  if (!program.hint.empty()) fmt::print("{}\n", program.hint);
}

}  // namespace lathe::cli
