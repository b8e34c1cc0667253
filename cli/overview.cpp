#include "cli/overview.h"

#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"

namespace lathe::cli {

void print_overview() {
  fmt::print("tune: compile deep-learning models and tune them on this hardware\n\nUsage:\n");
  size_t width = 0;
  for (const Command& command : commands()) width = std::max(width, command.name.size());
  for (const Command& command : commands())
    if (command.name.empty()) fmt::print("  tune {}\n      {}\n", command.arguments, command.summary);
  fmt::print("\nCommands:\n");
  for (const Command& command : commands())
    if (!command.name.empty()) fmt::print("  {:{}}  {}\n", command.name, width, command.summary);
  fmt::print("\nExamples:\n");
  for (const Command& command : commands()) fmt::print("  {}\n", command.examples[0]);
  fmt::print(
      "\n`tune COMMAND --help` explains a command, `tune help tune` the flags of the main job.\n"
      "`tune help` also knows: exit-codes, environment.\n");
}

}  // namespace lathe::cli
