#include "cli/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>

#include "core/support/error.h"
#include "core/support/service_error.h"
#include "core/support/unfit.h"

namespace lathe::cli {
namespace {

void print_help(const Program& program) {
  fmt::print("{}: {}\n\nUsage:\n", program.name, program.summary);
  size_t width = 0;
  for (const Command& command : program.commands) width = std::max(width, command.name.size());
  for (const Command& command : program.commands)
    if (command.name.empty())
      fmt::print("  {} {}\n      {}\n", program.name, command.arguments, command.summary);
  fmt::print("\nCommands:\n");
  for (const Command& command : program.commands)
    if (!command.name.empty()) fmt::print("  {:{}}  {}\n", command.name, width, command.summary);
  fmt::print("\nExamples:\n");
  for (const Command& command : program.commands) fmt::print("  {}\n", command.examples[0]);
  fmt::print("\n`{} COMMAND --help` explains a command.\n", program.name);
}

const Command* find_command(const Program& program, std::string_view name) {
  for (const Command& command : program.commands)
    if (command.name == name) return &command;
  return nullptr;
}

}  // namespace

int run_program(const Program& program, const std::vector<std::string>& arguments) {
  std::string first = arguments.empty() ? "--help" : arguments[0];
  if (first == "--help" || first == "-h" || first == "help") {
    print_help(program);
    return kSuccess;
  }
  if (first == "--version") first = "version";
  bool named = first[0] != '-';
  const Command* command = find_command(program, named ? first : "");
  if (!command) {
    std::vector<std::string> names;
    for (const Command& known : program.commands)
      if (!known.name.empty()) names.emplace_back(known.name);
    std::string hint = did_you_mean(first, names);
    fail("unknown {} `{}`{}", named ? "command" : "flag", first,
         hint.empty() ? fmt::format("; see {} --help", program.name) : hint);
  }
  Flags flags(program.name, *command, {arguments.begin() + (named ? 1 : 0), arguments.end()});
  return command->run(flags);
}

int exit_code_of(const std::function<int()>& body) {
  try {
    return body();
  } catch (const Unfit& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kUnfit;
  } catch (const ServiceError& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kService;
  } catch (const Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return kBadInput;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "error: out of memory\n");
    return kUnfit;
  }
}

}  // namespace lathe::cli
