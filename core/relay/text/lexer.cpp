#include "core/relay/text/lexer.h"

#include <algorithm>
#include <cctype>

namespace lathe::relay {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

/// Longer ones first: the first that fits is taken.
constexpr std::string_view kPunctuations[] = {"->", "=>", "==", "!=", "<=", ">=", ":=", "(", ")",
                                              "{",  "}",  "[",  "]",  ",",  ";",  ":",  "=", "?",
                                              "!",  "+",  "-",  "*",  "/",  "<",  ">"};

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& source) : text_(text), source_(source) {}

  std::vector<Token> run() {
    while (skip_blanks(), at_ < text_.size()) {
      if (rest().starts_with("#[version")) {
        skip_version();
      } else if (rest().starts_with("#[metadata]")) {
        // The rest of the text, which is JSON; the token leaves out "#[metadata]".
        add(TokenKind::kMetadata, text_.size() - at_, 11);
      } else {
        next();
      }
    }
    add(TokenKind::kEnd, 0);
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// Keeps count of lines: comments and blanks may go beyond one.
  void advance(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (text_[at_++] == '\n') ++line_, line_start_ = at_;
    }
  }

  int column() const { return static_cast<int>(at_ - line_start_) + 1; }

  [[noreturn]] void error(size_t length, std::string_view message) const {
    throw Error(
        caret_message({source_, line_, column(), column() + static_cast<int>(length)}, text_, message));
  }

  /// A token of `length` characters whose text leaves out `skip` at its begin.
  void add(TokenKind kind, size_t length, size_t skip = 0) {
    tokens_.push_back(
        {kind, text_.substr(at_ + skip, length - skip), line_, column(), static_cast<int>(length)});
    advance(length);
  }

  void skip_blanks() {
    for (;;) {
      while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(peek()))) advance(1);
      if (rest().starts_with("/*")) {
        advance(comment_length());
      } else if (rest().starts_with("//")) {
        advance(std::min(text_.find('\n', at_), text_.size()) - at_);
      } else {
        return;
      }
    }
  }

  /// Of the comment that begins here. Comments nest: what holds some can be put into one.
  size_t comment_length() const {
    size_t length = 0;
    int open = 0;
    do {
      size_t mark = text_.find_first_of("/*", at_ + length);
      if (mark == std::string_view::npos) error(2, "comment without end");
      std::string_view two = text_.substr(mark, 2);
      open += two == "/*" ? 1 : two == "*/" ? -1 : 0;
      length = mark - at_ + (two == "/*" || two == "*/" ? 2 : 1);
    } while (open > 0);
    return length;
  }

  void skip_version() {
    size_t end = text_.find(']', at_);
    if (end == std::string_view::npos) error(9, "expected #[version = \"0.0.5\"]");
    std::string_view line = text_.substr(at_, end - at_);
    if (line.find("\"0.0.5\"") == std::string_view::npos)
      error(end + 1 - at_, "unsupported version of the text format; this reads \"0.0.5\"");
    advance(end + 1 - at_);
  }

  void next() {
    char c = peek();
    // %0 is a graph binding, %x a variable; names of variables may hold dots, slashes and `::`.
    if (c == '%' && is_digit(peek(1))) {
      size_t length = 1;
      while (is_digit(peek(length))) ++length;
      add(TokenKind::kGraph, length, 1);
    } else if (size_t name = c == '%' || c == '@' ? variable_name_length(text_.substr(at_ + 1)) : 0) {
      add(c == '%' ? TokenKind::kLocal : TokenKind::kGlobal, name + 1, 1);
    } else if (is_letter(c)) {
      identifier();
    } else if (is_digit(c)) {
      number();
    } else if (c == '.' && is_digit(peek(1))) {
      size_t length = 1;
      while (is_digit(peek(length))) ++length;
      add(TokenKind::kDotIndex, length, 1);
    } else if (c == '"') {
      string();
    } else {
      punctuation();
    }
  }

  void identifier() {
    size_t length = 0;
    // nn.conv2d is one word; the dot before a digit belongs to a projection.
    while (is_word(peek(length)) || (peek(length) == '.' && is_letter(peek(length + 1)))) ++length;
    add(TokenKind::kIdentifier, length);
  }

  void number() {
    size_t length = 0;
    while (is_digit(peek(length))) ++length;
    if (peek(length) == '.' && is_digit(peek(length + 1))) {
      ++length;
      while (is_digit(peek(length))) ++length;
    }
    size_t exponent = length + (peek(length + 1) == '-' || peek(length + 1) == '+' ? 2 : 1);
    if (peek(length) == 'e' && is_digit(peek(exponent))) {
      length = exponent;
      while (is_digit(peek(length))) ++length;
    }
    while (is_word(peek(length))) ++length;  // the suffix; the parser judges it
    add(TokenKind::kNumber, length);
  }

  void string() {
    size_t length = 1;
    while (peek(length) != '"') {
      if (at_ + length >= text_.size() || peek(length) == '\n') error(length, "string without end");
      // An escaped quote does not end the string. Escapes are read by the parser.
      length += peek(length) == '\\' && at_ + length + 1 < text_.size() ? 2 : 1;
    }
    size_t line = line_;
    Token token{TokenKind::kString, text_.substr(at_ + 1, length - 1), static_cast<int>(line), column(),
                static_cast<int>(length + 1)};
    tokens_.push_back(token);
    advance(length + 1);
  }

  void punctuation() {
    for (std::string_view each : kPunctuations) {
      if (!rest().starts_with(each)) continue;
      return add(TokenKind::kPunctuation, each.size());
    }
    unsigned char c = static_cast<unsigned char>(peek());
    error(1, std::isprint(c) ? fmt::format("unexpected character `{}`", peek())
                             : fmt::format("unexpected byte {:#04x}", c));
  }

  std::string_view text_;
  const std::string& source_;
  size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

size_t variable_name_length(std::string_view text) {
  auto word_at = [&](size_t i) { return i < text.size() && (is_word(text[i]) || text[i] == '.'); };
  size_t length = 0;
  // A separator counts only with a part behind it: `%x.` is `%x` and an error, not a name that ends in a dot.
  while (length < text.size()) {
    if (is_letter(text[length]) || (length > 0 && is_digit(text[length])))
      ++length;
    else if (text[length] == '.' && length > 0 && word_at(length + 1) && text[length + 1] != '.')
      ++length;
    else if (text[length] == '/' && word_at(length + 1))
      ++length;
    else if (text.substr(length).starts_with("::") && word_at(length + 2))
      length += 2;
    else
      break;
  }
  return length;
}

std::vector<Token> tokenize(std::string_view text, const std::string& source) {
  return Lexer(text, source).run();
}

}  // namespace lathe::relay
