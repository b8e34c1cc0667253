// Texts of strangers on a terminal, which obeys control characters (ECMA-48): they could forge what else is
// there.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// The text with control characters as \xNN. Ends of lines and tabs stay.
std::string printable(std::string_view text);

/// A message that may hold names as long as whoever chose them liked: of what stands between `backticks` and
/// is longer than 200 bytes the beginning, and of all `most` bytes, with how many there were. Up to kBrief
/// bytes are left as they are.
inline constexpr size_t kBrief = 4096;
std::string shortened(std::string_view message, size_t most);

/// Whether there is a control character in it, ends of lines and tabs included: no name has any.
bool has_control_characters(std::string_view text);

/// The text with U+FFFD for each byte that is no part of UTF-8 (RFC 3629).
std::string as_utf8(std::string_view text);

}  // namespace lathe
