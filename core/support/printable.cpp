#include "core/support/printable.h"

#include <fmt/core.h>

#include <algorithm>

namespace lathe {
namespace {

/// The length of the control character at the beginning: one byte, or U+0080 to U+009F in UTF-8. 0: none.
size_t control_character(std::string_view text) {
  // U+0080 to U+009F are control characters too (C1): 0x9b begins an escape sequence on some terminals.
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  return text.size() > 1 && byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0 ? 2 : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size();) {
    // Texts of errors have lines; a carriage return, which would overwrite what stands there, is shown.
    const size_t length = text[i] == '\n' || text[i] == '\t' ? 0 : control_character(text.substr(i));
    for (size_t k = 0; k < length; ++k)
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    if (length == 0) result += text[i];
    i += std::max<size_t>(length, 1);
  }
  return result;
}

bool has_control_characters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (control_character(text.substr(i)) > 0) return true;
  return false;
}

}  // namespace lathe
