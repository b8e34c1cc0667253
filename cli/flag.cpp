#include "cli/flag.h"

#include <fmt/core.h>

#include <cctype>

#include "core/support/text.h"

namespace lathe::cli {

std::string Flag::variable() const {
  std::string name = "LATHE_";
  for (char c : key())
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

std::string Flag::description() const {
  std::string text = help;
  if (required) text += " (required)";
  if (!value.empty() && kind != Kind::kSwitch) {
    const bool is_text = value.starts_with('"');
    text += fmt::format(" (default {})", is_text ? value.substr(1, value.size() - 2) : value);
  }
  for (const std::string& other : excludes) text += fmt::format("; not with {}", other);
  return text;
}

std::vector<std::string> Flag::choices() const {
  // What is typed as it stands is in lower case; FILE and the like stand for something.
  if (value_name.empty() || !std::islower(static_cast<unsigned char>(value_name[0]))) return {};
  return split_text(value_name, '|');
}

}  // namespace lathe::cli
