// A configuration file as it stands there, before anybody asks what its keys mean. toml++ stays behind it.
#pragma once

#include <string>
#include <vector>

namespace lathe::cli {

struct ConfigFile {
  enum class Type : uint8_t { kText, kTexts, kInteger, kNumber, kSwitch, kOther };
  struct Section {
    std::string name;
    int line;
  };
  struct Entry {
    std::string section;  // "" before all sections
    std::string key;
    Type type;
    std::vector<std::string> values;  // as text; none of kOther
    int line;
  };
  std::vector<Section> sections;
  std::vector<Entry> entries;  // in the order of lines
};

/// Nothing when there is no such file. Throws Error, with the line where there is one, when it cannot be
/// read, is larger than 1 MiB or is no TOML.
ConfigFile read_config_file(const std::string& path);

}  // namespace lathe::cli
