// Tokens of the text form of tensor programs. Internal to core/tir.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/dtype.h"
#include "core/support/error.h"

namespace lathe::tir {

enum class TokenKind : uint8_t { kName, kQuoted, kInt, kFloat, kSymbol, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // as written; of a quoted name what is between the quotes, escapes included
  size_t offset = 0;
  std::string_view suffix;  // of a number: its type, as in 3i32
};

/// A text and where to report its errors.
struct Source {
  std::string_view text;
  std::string name;
  /// Throws Error with the place of `token` and a caret.
  [[noreturn]] void fail_at(const Token& token, const std::string& message) const;
};

/// The last token is kEnd. Throws Error on a character that begins no token.
std::vector<Token> tokenize(const Source& source);

bool is_reserved(std::string_view name);
/// A name that can be written without quotes.
bool is_plain_name(std::string_view name);

/// The suffix of a number of type `type`, "" for int64 and float32; and back, nothing for an unknown suffix.
std::string number_suffix(DataType type);
std::optional<DataType> parse_number_suffix(std::string_view suffix);

}  // namespace lathe::tir
