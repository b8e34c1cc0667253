// `tune config show`: the values that flags have, and where from.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/configuration.h"
#include "core/support/bounded_json.h"

namespace lathe::cli {
namespace {

struct Resolved {
  std::string section;
  std::vector<Flag> flags;  // that can be configured, and what the command line set
};

Resolved resolve(const Command& command, const std::vector<std::string>& arguments) {
  Flags flags(command, arguments, Flags::Purpose::kResolve);
  command.run(flags);
  Resolved resolved{section_of(command), flags.table()};
  std::erase_if(resolved.flags, [](const Flag& flag) { return !flag.configurable; });
  return resolved;
}

std::string origin_of(const Flag& flag) { return flag.origin.empty() ? "default" : flag.origin; }

/// As a file that can be read again: what has no value is a comment.
void print_text(const std::vector<Resolved>& all, bool with_origin) {
  for (const Resolved& one : all) {
    fmt::print("{}[{}]\n", &one == all.data() ? "" : "\n", one.section);
    size_t width = 0;
    std::vector<std::string> lines;
    for (const Flag& flag : one.flags) {
      lines.push_back(flag.value.empty() ? fmt::format("# {} is not set", flag.key())
                                         : fmt::format("{} = {}", flag.key(), flag.value));
      if (!flag.value.empty()) width = std::max(width, std::min<size_t>(lines.back().size(), 40));
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      if (with_origin && !one.flags[i].value.empty())
        fmt::print("{:<{}}  # {}\n", lines[i], width, origin_of(one.flags[i]));
      else
        fmt::print("{}\n", lines[i]);
    }
  }
}

void print_json(const std::vector<Resolved>& all) {
  nlohmann::ordered_json sections = nlohmann::ordered_json::object();
  for (const Resolved& one : all)
    for (const Flag& flag : one.flags) {
      nlohmann::ordered_json value;  // null
      if (!flag.value.empty()) value = nlohmann::ordered_json::parse(flag.value);
      sections[one.section][flag.key()] = {{"value", value}, {"origin", origin_of(flag)}};
    }
  fmt::print("{}\n", json_line(sections));
}

}  // namespace

int config_command(Flags& flags) {
  std::string action, name;
  std::vector<std::string> arguments;
  bool with_origin = false, as_json = false;
  flags.add("ACTION show", action, "show: print the values as a lathe.toml would have them",
            Flags::Need::kRequired);
  flags.add("COMMAND COMMAND", name, "only of this command, `tune` for the main job");
  flags.add("FLAGS", arguments, "after --: as if the command were given these");
  flags.add("--origin", with_origin,
            "say where each value comes from: --FLAG, LATHE_VARIABLE, FILE:LINE, default");
  flags.add("--json", as_json, "print one JSON object: value and origin by section and key");
  if (!flags.parse()) return kSuccess;

  std::vector<Resolved> all;
  for (const Command& command : commands())
    if (name.empty() || section_of(command) == name) all.push_back(resolve(command, arguments));
  if (all.empty()) find_command(name);  // refuses it
  std::erase_if(all, [&](const Resolved& one) { return one.flags.empty(); });
  if (as_json)
    print_json(all);
  else
    print_text(all, with_origin);
  return kSuccess;
}

}  // namespace lathe::cli
