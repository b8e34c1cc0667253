// Tokens of Relay's text form.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace lathe::relay {

enum class TokenKind : uint8_t {
  kEnd,
  kLocal,       // %name; text is the name
  kGraph,       // %12; text is the number
  kGlobal,      // @name
  kIdentifier,  // name or dotted.name, keywords included
  kNumber,      // 1, 1f, 2i64, 1.5e-3f16: digits and suffix
  kString,      // text is between the quotes, escapes not yet undone
  kDotIndex,    // .0: projection
  kPunctuation,
  kMetadata,  // #[metadata]; text is everything after it
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  int line = 1, column = 1;
  int length = 0;  // as written
};

/// All tokens of `text`, the last one kEnd. Comments are dropped, #[version = "..."] too. Throws Error.
std::vector<Token> tokenize(std::string_view text, const std::string& source);

/// The length of the longest name of a local or global variable that `text` starts with: letters, digits, _,
/// and, inside, `.`, `::` and `/` as imported models have them.
size_t variable_name_length(std::string_view text);

}  // namespace lathe::relay
