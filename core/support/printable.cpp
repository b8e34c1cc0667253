#include "core/support/printable.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace lathe {
namespace {

/// The length of the character at the beginning, in UTF-8 (RFC 3629); 0: the first byte is no part of one.
size_t utf8_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? lead : lead & (0x7fU >> length);
  for (size_t k = 1; k < length; ++k) {
    const auto byte = static_cast<unsigned char>(text[k]);
    if ((byte & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3f);
  }
  // Longer than need be, half a pair, beyond the last.
  if (length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) return 0;
  if (length == 4 && (code < 0x10000 || code > 0x10ffff)) return 0;
  return length;
}

/// Whether the first `length` bytes, one character or a byte that is no part of one, are to be shown as
/// bytes.
bool is_control(std::string_view text, size_t length) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  // U+0080 to U+009F are control characters too (C1): 0x9b begins an escape sequence on some terminals, as a
  // byte of its own where they read no UTF-8.
  if (length <= 1) return byte(0) < 0x20 || (byte(0) >= 0x7f && byte(0) < 0xa0);
  if (length == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  // So are those that nobody sees, and those that turn the direction of what stands around them: by them a
  // name looks like another's. U+200B to U+200F, U+202A to U+202E, U+2060 to U+2069, U+FEFF.
  const bool is_unseen =
      length == 3 && ((byte(0) == 0xe2 && byte(1) == 0x80 &&
                       ((byte(2) >= 0x8b && byte(2) <= 0x8f) || (byte(2) >= 0xaa && byte(2) <= 0xae))) ||
                      (byte(0) == 0xe2 && byte(1) == 0x81 && byte(2) >= 0xa0 && byte(2) <= 0xa9) ||
                      (byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf));
  return is_unseen;
}

/// The first `most` bytes, but for a character that is cut there.
std::string_view beginning(std::string_view text, size_t most) {
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    // Texts of errors have lines; a carriage return, which would overwrite what stands there, is shown.
    const bool is_shown = text[0] != '\n' && text[0] != '\t' && is_control(text, length);
    for (const char c : text.substr(0, length))
      result += is_shown ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
    text.remove_prefix(length);
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
  while (!text.empty()) {
    const size_t length = std::max<size_t>(utf8_length(text), 1);
    if (is_control(text, length)) return true;
    text.remove_prefix(length);
  }
  return false;
}

std::string as_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = utf8_length(text);
    out += length > 0 ? text.substr(0, length) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace lathe
