#include "core/support/printable.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace lathe {
namespace {

/// The length of the control character at the beginning, in UTF-8. 0: none.
size_t control_character(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  // U+0080 to U+009F are control characters too (C1): 0x9b begins an escape sequence on some terminals.
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return 2;
  // So are those that nobody sees, and those that turn the direction of what stands around them: by them a
  // name looks like another's. U+200B to U+200F, U+202A to U+202E, U+2060 to U+2069, U+FEFF.
  const bool is_unseen = (byte(0) == 0xe2 && byte(1) == 0x80 &&
                          ((byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xaa && byte(2) <= 0xae))) ||
                         (byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa0 && byte(2) <= 0xa9) ||
                         (byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf);
  return is_unseen ? 3 : 0;
}

/// The first `most` bytes, but for a character that is cut there.
std::string_view beginning(std::string_view text, size_t most) {
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
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

std::string shortened(std::string_view message, size_t most) {
  constexpr size_t kMostQuoted = 200, kShown = 80;
  if (message.size() <= kBrief) return std::string(message);
  std::string result;
  for (size_t at = 0; at < message.size();) {
    const size_t open = message.find('`', at), close = message.find('`', open + 1);
    if (open == std::string_view::npos || close == std::string_view::npos) {
      result += message.substr(at);
      break;
    }
    const std::string_view quoted = message.substr(open + 1, close - open - 1);
    result += message.substr(at, open + 1 - at);
    if (quoted.size() <= kMostQuoted)
      result += quoted;
    else
      result += fmt::format("{}... ({} bytes)", beginning(quoted, kShown), quoted.size());
    result += '`';
    at = close + 1;
  }
  if (result.size() > most) result = fmt::format("{}... ({} bytes)", beginning(result, most), message.size());
  return result;
}

bool has_control_characters(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i)
    if (control_character(text.substr(i)) > 0) return true;
  return false;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xc2 && lead < 0xe0 ? 2
                          : lead >= 0xe0 && lead < 0xf0 ? 3
                          : lead >= 0xf0 && lead < 0xf5 ? 4
                                                        : 0;
    uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
    bool is_good = length > 0 && i + length <= text.size();
    for (size_t k = 1; is_good && k < length; ++k) {
      const auto byte = static_cast<unsigned char>(text[i + k]);
      is_good = (byte & 0xc0) == 0x80;
      code = code << 6 | (byte & 0x3f);
    }
    // Longer than need be, half a pair, beyond the last.
    is_good = is_good && !(length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) &&
              !(length == 4 && (code < 0x10000 || code > 0x10ffff));
    out += is_good ? text.substr(i, length) : std::string_view("\xef\xbf\xbd");
    i += is_good ? length : 1;
  }
  return out;
}

}  // namespace lathe
