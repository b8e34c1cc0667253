#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"
#include "cli/configuration.h"
#include "cli/messages.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "tracker/defaults.h"

namespace lathe::cli {
namespace {

/// Seconds of "90", "90s", "10m", "1h"; returns what is wrong, or "".
std::string check_duration(const std::string& text, double* seconds) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (end == text.c_str() || scale == 0 || !std::isfinite(value) || value <= 0)
    return fmt::format("`{}` is not a duration; write 90s, 10m or 1h", text);
  if (value * scale > defaults::kMostSeconds)
    return fmt::format("`{}` is more than {:.0f} s", text, defaults::kMostSeconds);
  *seconds = value * scale;
  return "";
}

/// Whether the text is a number, and nothing else, between the two.
bool is_between(const std::string& text, double low, double high) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  // NaN is on no side of either.
  return end != text.c_str() && *end == '\0' && value > low && value < high;
}

/// As lathe.toml has it. Only people read it, so bytes that are no UTF-8 need not survive.
std::string literal(const nlohmann::json& value) { return json_line(value); }

Flag flag_of(const std::string& spelling, Flag::Kind kind, const char* value_name, const char* help) {
  const size_t blank = spelling.find(' ');
  Flag flag{.name = spelling.substr(0, blank), .kind = kind, .value_name = value_name, .help = help};
  flag.configurable = !flag.is_positional();
  if (flag.is_positional()) flag.value_name = flag.name;
  if (blank != std::string::npos) flag.value_name = spelling.substr(blank + 1);
  return flag;
}

/// The flag that one which there is not may stand for.
std::string hint_of_flag(const std::string& flag, const std::vector<std::string>& names) {
  if (std::string hint = did_you_mean(flag, names); !hint.empty()) return hint;
  // Other programs spell out what we abbreviate: --output is no mistyped --out.
  std::string meant;
  for (const std::string& name : names)
    if (flag.starts_with(name) && name.size() > meant.size()) meant = name;
  return meant.empty() ? "" : did_you_mean(meant, names);
}

}  // namespace

struct Flags::Parser {
  struct Declared {
    Flag flag;
    CLI::Option* option;
    std::function<std::string()> value;  // what the variable holds, as Flag::value
  };
  struct Configured {
    Declared* declared;
    Setting setting;
  };
  CLI::App app;
  std::vector<Declared> all;
  bool help = false, no_config = false, quiet = false;

  std::vector<Configured> without_excluded(const std::vector<Configured>& all);

  Declared& find(std::string_view name) {
    auto found = std::find_if(all.begin(), all.end(), [&](const Declared& d) { return d.flag.name == name; });
    CHECK(found != all.end(), "no flag {}", name);
    return *found;
  }
  bool has(std::string_view name) const {
    return std::any_of(all.begin(), all.end(), [&](const Declared& d) { return d.flag.name == name; });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Declared& declared : all)
      if (!declared.flag.is_positional()) names.push_back(declared.flag.name);
    return names;
  }

  /// The flags of every command, where the command has not taken the name.
  void add_common_flags() {
    const auto add = [&](const char* name, const char* spelling, bool& value, const char* help) {
      if (has(name)) return;
      Flag flag{.name = name, .kind = Flag::Kind::kSwitch, .help = help};
      flag.configurable = &value == &quiet;
      all.push_back({flag, app.add_flag(spelling, value), [&value] { return literal(value); }});
    };
    add("--quiet", "--quiet", quiet, "no messages on stderr but errors");
    add("--no-config", "--no-config", no_config, "take nothing from LATHE_ variables and lathe.toml");
    add("--help", "--help,-h", help, "print this and exit");
  }

  /// Also where other arguments are wrong.
  bool asks_for_help() { return find("--help").option->count() > 0; }

  std::string help_text() {
    for (Declared& declared : all) {
      Flag& flag = declared.flag;
      flag.value = declared.value();
      const bool shows_value = flag.value_name != flag.name;
      declared.option->option_text(shows_value ? flag.value_name
                                               : " ");  // "" stands for what CLI11 would say
      declared.option->description(flag.description());
      if (flag.is_positional()) declared.option->required(flag.required);  // as the line of usage shows it
    }
    return app.help();
  }
};

Flags::Flags(const Command& command, std::vector<std::string> arguments, Purpose purpose)
    : command_(command),
      arguments_(std::move(arguments)),
      purpose_(purpose),
      parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  app.name(full_name(command));
  app.description(std::string(command.summary));
  app.footer(fmt::format("\nExamples:\n  {}\n  {}", command.examples[0], command.examples[1]));
  // Unknown flags are ours to tell of, with the nearest name.
  app.allow_extras();
  app.get_formatter()->column_width(28);
  app.set_help_flag();  // ours is a row of the table
}

Flags::~Flags() = default;

void Flags::add(const std::string& spelling, std::string& value, const char* help, Need need) {
  Flag flag = flag_of(spelling, Flag::Kind::kText, "TEXT", help);
  flag.required = need == Need::kRequired;
  CLI::Option* option = parser_->app.add_option(flag.name, value);
  if (auto choices = flag.choices(); !choices.empty())
    option->check([choices](const std::string& text) -> std::string {
      if (std::find(choices.begin(), choices.end(), text) != choices.end()) return "";
      return fmt::format("`{}` is not one of {}{}", text, join_text(choices, ", "),
                         did_you_mean(text, choices));
    });
  parser_->all.push_back({flag, option, [&value] { return value.empty() ? "" : literal(value); }});
}

void Flags::add(const std::string& spelling, std::vector<std::string>& values, const char* help) {
  Flag flag = flag_of(spelling, Flag::Kind::kTexts, "TEXT", help);
  CLI::Option* option = parser_->app.add_option(flag.name, values);
  // One value each time it is given: else `--shape x=1 FILE` would take FILE for another shape, and `--input
  // [a,b]` would be two, without the brackets.
  if (!flag.is_positional()) option->expected(1)->take_all()->allow_extra_args(false);
  parser_->all.push_back({flag, option, [&values] { return values.empty() ? "" : literal(values); }});
}

void Flags::add(const std::string& spelling, int64_t& value, int64_t least, int64_t most, const char* help) {
  // A larger bound keeps nonsense out of arithmetic, and tells whoever reads the help nothing.
  const std::string range =
      most <= std::numeric_limits<int32_t>::max() ? fmt::format("{}..{}", least, most) : "N";
  Flag flag = flag_of(spelling, Flag::Kind::kInteger, range.c_str(), help);
  // Not by CLI11, to which 010 is 8, 0x10 is 16, and what is beyond 64 bits the largest number there is.
  const auto number_of = [](const std::string& text) -> std::optional<int64_t> {
    int64_t number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
  };
  CLI::Option* option = parser_->app.add_option_function<std::string>(
      flag.name, [&value, number_of](const std::string& text) { value = number_of(text).value(); });
  option->check([number_of, least, most](const std::string& text) -> std::string {
    const std::optional<int64_t> number = number_of(text);
    return number && *number >= least && *number <= most
               ? ""
               : fmt::format("Value {} not in range {} to {}", text, least, most);
  });
  parser_->all.push_back({flag, option, [&value] { return literal(value); }});
}

void Flags::add(const std::string& spelling, bool& value, const char* help) {
  Flag flag = flag_of(spelling, Flag::Kind::kSwitch, "", help);
  CLI::Option* option = parser_->app.add_flag(flag.name, value);
  parser_->all.push_back({flag, option, [&value] { return literal(value); }});
}

void Flags::add_positive(const std::string& spelling, double& value, const char* help) {
  Flag flag = flag_of(spelling, Flag::Kind::kNumber, "NUMBER", help);
  CLI::Option* option =
      parser_->app.add_option(flag.name, value)->check([](const std::string& text) -> std::string {
        bool good = is_between(text, 0, std::numeric_limits<double>::infinity());
        return good ? "" : fmt::format("`{}` must be a number above 0", text);
      });
  parser_->all.push_back({flag, option, [&value] { return value > 0 ? literal(value) : ""; }});
}

void Flags::add_share(const std::string& spelling, double& share, const char* help) {
  Flag flag = flag_of(spelling, Flag::Kind::kNumber, "0..1", help);
  CLI::Option* option =
      parser_->app.add_option(flag.name, share)->check([](const std::string& text) -> std::string {
        return is_between(text, 0, 1) ? "" : fmt::format("`{}` must be a number above 0 and below 1", text);
      });
  // 0 is what depends: the help says on what.
  parser_->all.push_back({flag, option, [&share] { return share > 0 ? literal(share) : ""; }});
}

void Flags::add_duration(const std::string& spelling, double& seconds, const char* help) {
  Flag flag = flag_of(spelling, Flag::Kind::kDuration, "DURATION", help);
  const auto read = [&seconds, name = flag.name](const std::string& text) {
    if (std::string problem = check_duration(text, &seconds); !problem.empty()) fail("{}: {}", name, problem);
  };
  CLI::Option* option = parser_->app.add_option_function<std::string>(flag.name, read);
  const auto value = [&seconds] { return seconds > 0 ? literal(fmt::format("{:g}s", seconds)) : ""; };
  parser_->all.push_back({flag, option, value});
}

void Flags::exclude(const char* a, const char* b) {
  parser_->find(a).flag.excludes.emplace_back(b);
  parser_->find(b).flag.excludes.emplace_back(a);
}

void Flags::keep_to_command_line(const char* name) { parser_->find(name).flag.configurable = false; }

bool Flags::given(const char* name) const { return !parser_->find(name).flag.origin.empty(); }

std::vector<Flag> Flags::table() const {
  std::vector<Flag> table;
  for (const Parser::Declared& declared : parser_->all) table.push_back(declared.flag);
  return table;
}

void Flags::parse_arguments() {
  CLI::App& app = parser_->app;
  std::vector<std::string> reversed(arguments_.rbegin(), arguments_.rend());  // as CLI11 wants it
  std::string problem;
  try {
    app.parse(reversed);
  } catch (const CLI::ArgumentMismatch& error) {  // "--model: 1 required TEXT missing"
    const std::string said = error.what();
    problem = said.ends_with("missing") ? said.substr(0, said.find(':')) + " needs a value" : said;
  } catch (const CLI::ParseError& error) {
    problem = error.what();
  }
  // Who asks for help is told no mistakes.
  if (parser_->asks_for_help()) return;
  const std::string name = full_name(command_), help = help_command_of(command_);
  // As a script's variable that is not set gives it: CLI11 takes what stands next for the value.
  for (const std::string& argument : arguments_) {
    if (argument == "--") break;
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag.size() + 1 == argument.size() && flag.starts_with("--") && parser_->has(flag))
      fail("{}: {} is empty; see {}", name, flag, help);
  }
  // CLI11 gives a flag whatever stands next: of `--db --untuned` the second would be the name of a file.
  for (const Parser::Declared& declared : parser_->all)
    if (!declared.flag.is_positional())
      for (const std::string& value : declared.option->results())
        if (value.starts_with('-') && parser_->has(value))
          fail("{}: {} needs a value, and {} is a flag; see {}", name, declared.flag.name, value, help);
  // A misspelt flag explains a missing one: it comes first.
  for (const std::string& extra : app.remaining()) {
    std::string flag = extra.substr(0, extra.find('='));
    if (extra == "--") continue;  // CLI11 has taken it for what it is
    bool is_flag = extra.size() > 1 && extra[0] == '-';
    std::string hint = is_flag ? hint_of_flag(flag, parser_->names()) : "";
    fail("{}: {} `{}`{}", name, is_flag ? "unknown flag" : "unexpected argument", flag,
         hint.empty() ? "; see " + help : hint);
  }
  // A hint of ours (check() above) ends with a question: the help would not say more.
  if (problem.ends_with('?')) fail("{}: {}", name, problem);
  if (!problem.empty()) fail("{}: {}; see {}", name, problem, help);
  for (Parser::Declared& declared : parser_->all) {
    if (declared.option->count() == 0) continue;
    // Not left to CLI11, which says it of switches in the help too.
    for (const std::string& other : declared.flag.excludes)
      if (parser_->find(other).option->count() > 0)
        fail("{}: {} excludes {}; see {}", name, declared.flag.name, other, help);
    declared.flag.origin = declared.flag.name;
    // As a script's variable that is not set gives it: no default is meant.
    const std::vector<std::string> given = declared.option->results();
    if (std::find(given.begin(), given.end(), "") != given.end())
      fail("{}: {} is empty; see {}", name, declared.flag.name, help);
  }
}

/// Leaves out what something nearer excludes. Throws Error for two of the same distance.
std::vector<Flags::Parser::Configured> Flags::Parser::without_excluded(const std::vector<Configured>& all) {
  std::vector<Configured> left;
  for (const Configured& one : all) {
    const Flag& flag = one.declared->flag;
    bool excluded = false;
    for (const std::string& partner : flag.excludes) {
      // The command line is nearer than any setting.
      excluded |= find(partner).option->count() > 0;
      for (const Configured& other : all) {
        if (other.declared->flag.name != partner || one.setting.is_off() || other.setting.is_off()) continue;
        if (other.setting.distance == one.setting.distance)
          fail("{} and {}: {} excludes {}", one.setting.origin, other.setting.origin, flag.name, partner);
        excluded |= other.setting.distance < one.setting.distance;
      }
    }
    if (!excluded) left.push_back(one);
  }
  return left;
}

/// After the command line: of a flag that it gives, no setting is looked at.
void Flags::configure() {
  const Configuration configuration = Configuration::load();
  std::vector<Parser::Configured> all;
  for (Parser::Declared& declared : parser_->all)
    if (declared.flag.configurable && declared.flag.origin.empty())
      if (auto setting = configuration.find(command_, declared.flag)) all.push_back({&declared, *setting});
  for (const Parser::Configured& one : parser_->without_excluded(all)) {
    try {
      if (!one.setting.values.empty()) {  // an empty list is the default
        one.declared->option->add_result(one.setting.values);
        // With the checks of the command line: a file is held to the same.
        one.declared->option->run_callback();
      }
    } catch (const std::runtime_error& error) {  // of CLI11, or an Error
      fail("{}: {}", one.setting.origin, error.what());
    }
    one.declared->flag.origin = one.setting.origin;
  }
}

bool Flags::parse() {
  parser_->add_common_flags();
  if (!command_.takes_config)
    for (Parser::Declared& declared : parser_->all) declared.flag.configurable = false;
  if (purpose_ != Purpose::kDeclare) {
    parse_arguments();
    if (parser_->asks_for_help()) {
      fmt::print("{}", parser_->help_text());
      return false;
    }
    if (!parser_->no_config && command_.takes_config) configure();
  }
  for (Parser::Declared& declared : parser_->all) declared.flag.value = declared.value();
  // Who only wants the table of flags must not be told that one is missing.
  if (purpose_ != Purpose::kRun) return false;
  for (const Parser::Declared& declared : parser_->all) {
    if (!declared.flag.required) continue;
    const std::string name = full_name(command_), help = help_command_of(command_);
    if (declared.flag.origin.empty()) fail("{}: {} is required; see {}", name, declared.flag.name, help);
    if (declared.value().empty())  // of a file
      fail("{}: {} is empty; see {}", name, declared.flag.name, help);
  }
  set_quiet(parser_->quiet);
  return true;
}

}  // namespace lathe::cli
