// One flag of a command as data: help, manual pages, completions and the configuration are made from these.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

struct Flag {
  enum class Kind : uint8_t { kText, kTexts, kInteger, kNumber, kDuration, kSwitch };

  std::string name;  // "--model", or "JOB" of a positional argument
  Kind kind = Kind::kText;
  /// What help shows for the value, and what completion offers: files for FILE, folders for DIR, the zoo's
  /// models and files for MODEL, commands for COMMAND, and one of the words of "a|b|c", which are in small
  /// letters. "" of a switch.
  std::string value_name;
  std::string help;
  bool required = false;
  bool configurable = true;           // by environment and files, too
  std::vector<std::string> excludes;  // names
  std::string value;                  // as TOML and JSON write it; "" for none
  std::string origin;  // "--model" from the command line, "LATHE_MODEL", "lathe.toml:3"; "" of a default

  bool is_positional() const { return name[0] != '-'; }
  std::string key() const { return name.substr(2); }  // "max-relative-error", in a file
  std::string variable() const;                       // "LATHE_MAX_RELATIVE_ERROR", in the environment
  /// The help with what goes for the flag: required, default, not with others.
  std::string description() const;
  std::vector<std::string> choices() const;  // of "a|b|c"; none of another name
};

}  // namespace lathe::cli
