// `tune help TOPIC`: a command, or one of kTopics.
#include <fmt/core.h>

#include <algorithm>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/overview.h"
#include "cli/variables.h"
#include "core/support/error.h"

namespace lathe::cli {
namespace {

void print_exit_codes() {
  for (const ExitCodeRow& row : kExitCodes)
    fmt::print("{:>4}  {}\n", static_cast<int>(row.code), row.meaning);
}

void print_environment() {
  fmt::print("LATHE_FLAG sets --flag of every command that has it, as LATHE_THREADS=2 does --threads.\n\n");
  for (const Variable& variable : kVariables)
    fmt::print("  {:<24} {}{}\n", variable.name, variable.for_developers ? "(for developers) " : "",
               variable.help);
}

struct Topic {
  const char* name;
  void (*print)();
};
constexpr Topic kTopics[] = {{"exit-codes", print_exit_codes}, {"environment", print_environment}};

std::vector<std::string> topic_names() {
  std::vector<std::string> names{"tune"};
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  for (const Command& command : commands())
    if (!command.name.empty()) names.emplace_back(command.name);
  return names;
}

}  // namespace

int help_command(Flags& flags) {
  std::string topic;
  flags.add("TOPIC", topic, "a command, `tune` for the main job, exit-codes, or environment");
  if (!flags.parse()) return kSuccess;
  if (topic.empty()) {
    print_overview();
    return kSuccess;
  }
  for (const Topic& known : kTopics)
    if (topic == known.name) {
      known.print();
      return kSuccess;
    }
  const std::vector<std::string> names = topic_names();
  if (std::find(names.begin(), names.end(), topic) == names.end())
    fail("tune help: nothing is known about `{}`{}", topic, did_you_mean(topic, names));
  const Command& command = find_command(topic == "tune" ? "" : topic);
  Flags asked(command, {"--help"});
  return command.run(asked);
}

}  // namespace lathe::cli
