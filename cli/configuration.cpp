#include "cli/configuration.h"

#include <algorithm>
#include <string_view>

#include "cli/config_file.h"
#include "cli/variables.h"
#include "core/support/error.h"
#include "core/support/user_folder.h"

extern char** environ;

namespace lathe::cli {
namespace {

/// The flags of all commands that a configuration may set. Made when there is something to check: each
/// command is asked for its own.
class Table {
 public:
  Table() {
    for (const Command& command : commands())
      for (Flag& flag : flags_of(command)) {
        if (!flag.configurable) continue;
        for (const Variable& variable : kVariables)
          CHECK(variable.name != flag.variable(), "{} sets no flag, but {} is one", variable.name, flag.name);
        rows_.push_back({&command, std::move(flag)});
      }
  }

  struct Row {
    const Command* command;
    Flag flag;
  };
  /// Those that `is_asked` holds for, in the order of the commands.
  template <typename Asked>
  std::vector<const Row*> find(const Asked& is_asked) const {
    std::vector<const Row*> found;
    for (const Row& row : rows_)
      if (is_asked(row)) found.push_back(&row);
    return found;
  }

 private:
  std::vector<Row> rows_;
};

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(section_of(command));
  return names;
}

bool is_section(const std::string& name) {
  const std::vector<std::string> names = section_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What a value must be; nullptr when it is.
const char* expected(Flag::Kind kind, ConfigFile::Type type) {
  using Type = ConfigFile::Type;
  switch (kind) {
    case Flag::Kind::kText:
      return type == Type::kText ? nullptr : "a string";
    case Flag::Kind::kTexts:
      return type == Type::kText || type == Type::kTexts ? nullptr : "a string or an array of strings";
    case Flag::Kind::kInteger:
      return type == Type::kInteger ? nullptr : "an integer";
    case Flag::Kind::kNumber:
      return type == Type::kInteger || type == Type::kNumber ? nullptr : "a number";
    case Flag::Kind::kDuration:
      return type == Type::kText || type == Type::kInteger || type == Type::kNumber
                 ? nullptr
                 : "a duration as in \"10m\", or a number of seconds";
    case Flag::Kind::kSwitch:
      return type == Type::kSwitch ? nullptr : "true or false";
  }
  return nullptr;
}

/// A key before all sections is for the commands that share the flag. Where these take different values, one
/// that takes this one.
const Flag& find_shared(const Table& table, const std::string& place, const ConfigFile::Entry& entry) {
  const auto named = table.find([&](const Table::Row& row) { return row.flag.key() == entry.key; });
  if (named.empty()) {
    if (is_section(entry.key)) fail("{}: `{}` is a section: write [{}]", place, entry.key, entry.key);
    std::vector<std::string> keys;
    for (const Table::Row* row : table.find([](const Table::Row&) { return true; }))
      keys.push_back(row->flag.key());
    fail("{}: unknown key `{}`{}", place, entry.key, did_you_mean(entry.key, keys));
  }
  if (named.size() == 1)
    fail("{}: `{}` is of `{}` alone: it belongs into the section [{}]", place, entry.key,
         full_name(*named[0]->command), section_of(*named[0]->command));
  for (const Table::Row* row : named)
    if (!expected(row->flag.kind, entry.type)) return row->flag;
  return named[0]->flag;
}

const Flag& find_in_section(const Table& table, const std::string& place, const ConfigFile::Entry& entry) {
  std::vector<std::string> keys;
  for (const Table::Row* row :
       table.find([&](const Table::Row& row) { return section_of(*row.command) == entry.section; })) {
    if (row->flag.key() == entry.key) return row->flag;
    keys.push_back(row->flag.key());
  }
  fail("{}: unknown key `{}` in [{}]{}", place, entry.key, entry.section, did_you_mean(entry.key, keys));
}

[[noreturn]] void refuse_variable(const std::string& name, const Table& table) {
  constexpr size_t kPrefix = std::string_view("LATHE_").size();  // all begin with it: no reason for likeness
  std::vector<std::string> names;
  for (const Variable& variable : kVariables) names.emplace_back(variable.name + kPrefix);
  for (const Table::Row* row : table.find([](const Table::Row&) { return true; }))
    names.push_back(row->flag.variable().substr(kPrefix));
  const std::string near = nearest(name.substr(kPrefix), names);
  if (near.empty()) fail("environment: unknown variable {}; `tune help environment` lists them", name);
  fail("environment: unknown variable {}; did you mean LATHE_{}?", name, near);
}

/// Spelt as a file would.
std::string switch_value(const std::string& variable, const std::string& text) {
  for (const char* yes : {"1", "true", "yes", "on"})
    if (text == yes) return "true";
  for (const char* no : {"0", "false", "no", "off"})
    if (text == no) return "false";
  fail("{}: must be true or false, not `{}`", variable, text);
}

/// "" when the system knows no home.
std::string user_file() {
  try {
    return config_folder() + "/lathe.toml";
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::string section_of(const Command& command) {
  return command.name.empty() ? "tune" : std::string(command.name);
}

Configuration Configuration::load() {
  Configuration configuration;
  // The last number is how far off a setting is, for flags that exclude each other: 1 is the environment, 2
  // and 3 are sections and shared keys of the working folder's file, 4 and 5 of the user's.
  configuration.read_environment();
  configuration.read_file("lathe.toml", 2);
  if (const std::string path = user_file(); !path.empty()) configuration.read_file(path, 4);
  return configuration;
}

void Configuration::read_environment() {
  // In order, so that of several mistakes it is the same one that is told each time.
  std::map<std::string, std::string> given;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (text.starts_with("LATHE_") && equals != text.npos)
      given[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  // Those set no flag.
  for (const Variable& variable : kVariables) given.erase(variable.name);
  if (given.empty()) return;
  const Table table;
  for (const auto& [name, text] : given) {
    const auto named =
        table.find([&name = name](const Table::Row& row) { return row.flag.variable() == name; });
    if (named.empty()) refuse_variable(name, table);
    if (text.empty()) continue;  // as if it were not set
    const bool is_switch = named[0]->flag.kind == Flag::Kind::kSwitch;
    variables_[name] = {name, {is_switch ? switch_value(name, text) : text}, 1};
  }
}

void Configuration::read_file(const std::string& path, int distance) {
  const ConfigFile file = read_config_file(path);
  for (const ConfigFile::Section& section : file.sections)
    if (!is_section(section.name))
      fail("{}:{}: unknown section [{}]{}", path, section.line, section.name,
           did_you_mean(section.name, section_names()));
  // The table asks every command for its flags, which most runs need not wait for.
  if (file.entries.empty()) return;
  const Table table;
  std::map<Place, Setting>& settings = files_.emplace_back();
  for (const ConfigFile::Entry& entry : file.entries) {
    const bool shared = entry.section.empty();
    const std::string place = fmt::format("{}:{}", path, entry.line);
    const Flag& flag = shared ? find_shared(table, place, entry) : find_in_section(table, place, entry);
    if (const char* must = expected(flag.kind, entry.type)) fail("{}: {} must be {}", place, entry.key, must);
    settings[{entry.section, entry.key}] = {place, entry.values, distance + (shared ? 1 : 0)};
  }
}

/// The nearest: the environment, the working folder's file, the user's; of each file the section before what
/// all commands share.
std::optional<Setting> Configuration::find(const Command& command, const Flag& flag) const {
  if (auto found = variables_.find(flag.variable()); found != variables_.end()) return found->second;
  for (const std::map<Place, Setting>& settings : files_)
    for (const std::string& section : {section_of(command), std::string()})
      if (auto found = settings.find({section, flag.key()}); found != settings.end()) return found->second;
  return std::nullopt;
}

}  // namespace lathe::cli
