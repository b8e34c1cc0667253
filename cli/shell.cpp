#include "cli/shell.h"

#include <cctype>
#include <string_view>

namespace lathe::cli {

std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return "'" + text + "'";
}

std::string in_shell(const std::string& text) {
  for (const unsigned char c : text)
    if (!std::isalnum(c) && std::string_view("-._/:@%+=,").find(static_cast<char>(c)) == std::string::npos)
      return quoted(text);
  return text.empty() ? "''" : text;
}

}  // namespace lathe::cli
