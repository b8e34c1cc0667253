// Texts of strangers on a terminal, which obeys control characters (ECMA-48): they could forge what else is
// there.
#pragma once

#include <string>
#include <string_view>

namespace lathe {

/// The text with control characters as \xNN. Ends of lines and tabs stay.
std::string printable(std::string_view text);

/// Whether there is a control character in it, ends of lines and tabs included: no name has any.
bool has_control_characters(std::string_view text);

/// The text with U+FFFD for each byte that is no part of UTF-8 (RFC 3629).
std::string as_utf8(std::string_view text);

}  // namespace lathe
