// What the environment and the configuration files say about flags: LATHE_* over ./lathe.toml over
// $XDG_CONFIG_HOME/lathe/lathe.toml; within a file the command's section over the keys before all sections.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/flag.h"

namespace lathe::cli {

/// A value of a flag that is not from the command line.
struct Setting {
  std::string origin;               // "LATHE_DB", "lathe.toml:3"
  std::vector<std::string> values;  // as the command line would have them; one, unless it is a list
  int distance = 0;                 // of the source from the command line; the nearest counts

  bool is_off() const { return values.size() == 1 && values[0] == "false"; }  // a switch, switched off
};

class Configuration {
 public:
  /// Throws Error, with file and line, for a file that cannot be read or is no TOML, unknown sections, keys
  /// and LATHE_ variables, and values of the wrong type.
  static Configuration load();

  std::optional<Setting> find(const Command& command, const Flag& flag) const;

 private:
  using Place = std::pair<std::string, std::string>;  // section, "" before all; key
  void read_environment();
  void read_file(const std::string& path, int distance);

  std::map<std::string, Setting> variables_;
  std::vector<std::map<Place, Setting>> files_;  // the nearest first
};

/// "tune", "bench": of a command in a file.
std::string section_of(const Command& command);

}  // namespace lathe::cli
