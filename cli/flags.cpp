#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "cli/command.h"
#include "core/support/error.h"

namespace lathe::cli {
namespace {

std::string full_name(std::string_view program, const Command& command) {
  return command.name.empty() ? std::string(program) : fmt::format("{} {}", program, command.name);
}

/// Seconds of "90", "90s", "10m", "1h", or "" when it is none.
std::string check_duration(const std::string& text, double* seconds) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (end == text.c_str() || scale == 0 || !std::isfinite(value) || value <= 0)
    return fmt::format("`{}` is not a duration; write 90s, 10m or 1h", text);
  *seconds = value * scale;
  return "";
}

}  // namespace

struct Flags::Parser {
  CLI::App app;
  std::vector<std::string> names;
};

Flags::Flags(std::string_view program, const Command& command, std::vector<std::string> arguments)
    : name_(full_name(program, command)),
      arguments_(std::move(arguments)),
      parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  app.name(name_);
  app.description(std::string(command.summary));
  app.footer(fmt::format("\nExamples:\n  {}\n  {}", command.examples[0], command.examples[1]));
  app.allow_extras();
  app.get_formatter()->column_width(28);
  app.set_help_flag("--help,-h", "print this and exit");
  parser_->names.emplace_back("--help");
}

Flags::~Flags() = default;

void Flags::add(const char* name, std::string& value, const char* help, Need need) {
  parser_->names.emplace_back(name);
  CLI::Option* option = parser_->app.add_option(name, value, help)->required(need == Need::kRequired);
  if (!value.empty()) option->capture_default_str();
}

void Flags::add(const char* name, std::vector<std::string>& values, const char* help) {
  parser_->names.emplace_back(name);
  CLI::Option* option = parser_->app.add_option(name, values, help);
  if (name[0] == '-') option->expected(1)->take_all();
}

void Flags::add(const char* name, int64_t& value, int64_t least, int64_t most, const char* help) {
  parser_->names.emplace_back(name);
  parser_->app.add_option(name, value, help)->capture_default_str()->check(CLI::Range(least, most));
}

void Flags::add(const char* name, bool& value, const char* help) {
  parser_->names.emplace_back(name);
  parser_->app.add_flag(name, value, help);
}

namespace {
/// Whether the text is a number, and nothing else, between the two.
bool is_between(const std::string& text, double low, double high) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' && value > low && value < high;
}
}  // namespace

void Flags::add_positive(const char* name, double& value, const char* help) {
  parser_->names.emplace_back(name);
  const auto check = [](const std::string& text) -> std::string {
    bool good = is_between(text, 0, std::numeric_limits<double>::infinity());
    return good ? "" : fmt::format("`{}` must be a number above 0", text);
  };
  parser_->app.add_option(name, value, help)->check(check, "NUMBER");
}

void Flags::add_share(const char* name, double& share, const char* help) {
  parser_->names.emplace_back(name);
  const auto check = [](const std::string& text) -> std::string {
    return is_between(text, 0, 1) ? "" : fmt::format("`{}` must be a number above 0 and below 1", text);
  };
  parser_->app.add_option(name, share, help)->default_str(fmt::format("{:g}", share))->check(check, "0..1");
}

void Flags::add_duration(const char* name, double& seconds, const char* help) {
  parser_->names.emplace_back(name);
  parser_->app
      .add_option_function<std::string>(
          name,
          [&seconds, name](const std::string& text) {
            if (std::string problem = check_duration(text, &seconds); !problem.empty())
              fail("{}: {}", name, problem);
          },
          help)
      ->type_name("DURATION");
}

void Flags::exclude(const char* a, const char* b) { parser_->app.get_option(a)->excludes(b); }

bool Flags::given(const char* name) const { return parser_->app.get_option(name)->count() > 0; }

bool Flags::parse() {
  CLI::App& app = parser_->app;
  std::vector<std::string> reversed(arguments_.rbegin(), arguments_.rend());  // as CLI11 wants it
  std::string problem;
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    problem = error.what();
  }
  // A misspelt flag explains a missing one: it comes first.
  for (const std::string& extra : app.remaining()) {
    std::string flag = extra.substr(0, extra.find('='));
    bool is_flag = extra.size() > 1 && extra[0] == '-';
    std::string hint = is_flag ? did_you_mean(flag, parser_->names) : "";
    fail("{}: {} `{}`{}", name_, is_flag ? "unknown flag" : "unexpected argument", flag,
         hint.empty() ? fmt::format("; see {} --help", name_) : hint);
  }
  if (!problem.empty()) fail("{}: {}; see {} --help", name_, problem, name_);
  return true;
}

}  // namespace lathe::cli
