#include "core/tir/lexer.h"

#include <algorithm>
#include <cctype>

namespace lathe::tir {
namespace {
// Longer symbols before their prefixes.
constexpr std::string_view kSymbols[] = {"->", "..", "//", "%%", "<<", ">>", "<=", "==", "!=", "&&", "||",
                                         "(",  ")",  "[",  "]",  "{",  "}",  ",",  ":",  "=",  "@",  "<",
                                         "+",  "-",  "*",  "/",  "%",  "&",  "|",  "^",  "!",  "?"};
// Also words that only values begin with: a buffer named `inf` could not be read back.
constexpr std::string_view kReserved[] = {"func", "for", "in",   "block", "where", "reads", "writes", "alloc",
                                          "init", "if",  "else", "true",  "false", "inf",   "nan"};

struct SuffixSpelling {
  std::string_view text, type;
};
constexpr SuffixSpelling kSuffixes[] = {{"i", "int"}, {"u", "uint"}, {"f", "float"}, {"bf", "bfloat"}};

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool continues_name(char c) { return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}

  Token next() {
    skip_blanks();
    size_t begin = at_;
    if (at_ == text_.size()) return {TokenKind::kEnd, "", begin, ""};
    if (begins_name(text_[at_])) return {TokenKind::kName, take_name(), begin, ""};
    if (is_digit(text_[at_])) return number();
    if (text_[at_] == '"') return quoted();
    for (std::string_view symbol : kSymbols) {
      if (!text_.substr(at_).starts_with(symbol)) continue;
      at_ += symbol.size();
      return {TokenKind::kSymbol, symbol, begin, ""};
    }
    source_.fail_at({TokenKind::kSymbol, text_.substr(at_, 1), begin, ""}, "unexpected character");
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  /// Blanks, line ends and comments.
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::isspace(static_cast<unsigned char>(text_[at_])))
        ++at_;
      else
        return;
    }
  }

  /// Dots join names (block.x), but do not end one: `n..` is a range.
  std::string_view take_name() {
    size_t begin = at_++;
    while (continues_name(peek()) || (peek() == '.' && continues_name(peek(1)))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  void take_digits() {
    while (is_digit(peek())) ++at_;
  }

  Token number() {
    Token token{TokenKind::kInt, "", at_, ""};
    take_digits();
    // One dot with a digit behind it: in `0..8` there is none.
    if (peek() == '.' && is_digit(peek(1))) {
      token.kind = TokenKind::kFloat;
      ++at_;
      take_digits();
    }
    // Where the exponent's digits begin; an `e` without any begins a suffix.
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 2 : 1;
    if (peek() == 'e' && is_digit(peek(sign))) {
      token.kind = TokenKind::kFloat;
      at_ += sign;
      take_digits();
    }
    token.text = text_.substr(token.offset, at_ - token.offset);
    // Whatever letters follow directly are a type, which the parser knows or rejects.
    size_t suffix = at_;
    while (continues_name(peek())) ++at_;
    token.suffix = text_.substr(suffix, at_ - suffix);
    return token;
  }

  Token quoted() {
    size_t begin = at_++, end = text_.find_first_of("\"\\\n", at_);
    // Whatever character of the line follows a backslash, the quote goes on behind it.
    // find_first_of stops at each backslash, so this jumps over what it escapes.
    while (end < text_.size() && text_[end] == '\\' && text_.substr(end + 1, 1) != "\n")
      end = text_.find_first_of("\"\\\n", end + 2);
    Token token{TokenKind::kQuoted, text_.substr(at_, end - at_), begin, ""};
    if (end == std::string_view::npos || text_[end] != '"')
      source_.fail_at(token, "a quote that is not closed");
    at_ = end + 1;
    return token;
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
};
}  // namespace

void Source::fail_at(const Token& token, const std::string& message) const {
  // Lines are counted only when there is an error to place.
  size_t begin = text.rfind('\n', token.offset == 0 ? 0 : token.offset - 1);
  begin = token.offset == 0 || begin == std::string_view::npos ? 0 : begin + 1;
  Span span{name, 1, static_cast<int>(token.offset - begin) + 1, 0};
  span.line +=
      static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(token.offset), '\n'));
  span.end_column = span.column + static_cast<int>(std::min<size_t>(token.text.size(), 80));
  throw Error(caret_message(span, text, message));
}

std::vector<Token> tokenize(const Source& source) {
  Lexer lexer(source);
  std::vector<Token> tokens;
  do tokens.push_back(lexer.next());
  while (tokens.back().kind != TokenKind::kEnd);
  return tokens;
}

bool is_reserved(std::string_view name) {
  return std::find(std::begin(kReserved), std::end(kReserved), name) != std::end(kReserved);
}

bool is_plain_name(std::string_view name) {
  if (name.empty() || !begins_name(name[0]) || is_reserved(name)) return false;
  for (size_t i = 1; i < name.size(); ++i)
    if (!continues_name(name[i]) && !(name[i] == '.' && i + 1 < name.size() && continues_name(name[i + 1])))
      return false;
  return true;
}

std::string number_suffix(DataType type) {
  if (type == kInt64 || type == kFloat32) return "";
  std::string lanes = type.lanes > 1 ? fmt::format("x{}", type.lanes) : "";
  if (type.is_bool()) return "b" + lanes;
  std::string text = to_string(type);
  for (const SuffixSpelling& s : kSuffixes)
    if (text.starts_with(s.type)) return std::string(s.text) + text.substr(s.type.size());
  return text;
}

std::optional<DataType> parse_number_suffix(std::string_view suffix) {
  if (suffix == "b" || suffix.starts_with("bx")) return parse_dtype("bool" + std::string(suffix.substr(1)));
  for (const SuffixSpelling& s : kSuffixes) {
    if (!suffix.starts_with(s.text)) continue;
    if (auto type = parse_dtype(std::string(s.type) + std::string(suffix.substr(s.text.size())))) return type;
  }
  return std::nullopt;
}

}  // namespace lathe::tir
