// Literals and attributes.
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/relay/op.h"
#include "core/relay/text/attrs_text.h"
#include "core/relay/text/parser.h"

namespace lathe::relay {
namespace {

/// How many bits the digits of an integer take.
enum class Digits : uint8_t { kInt64, kUInt64, kMore };

struct Number {
  bool is_float = false;
  Digits digits = Digits::kInt64;
  double real = 0;
  int64_t integer = 0;
  std::string_view suffix;
};

/// inff, nanf64: the suffix says the type of a number without digits, which would else be a name.
std::optional<Number> read_without_digits(std::string_view text, bool negative) {
  const bool is_inf = text.starts_with("inf");
  if (!is_inf && !text.starts_with("nan")) return std::nullopt;
  const double magnitude =
      is_inf ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return Number{.is_float = true, .real = negative ? -magnitude : magnitude, .suffix = text.substr(3)};
}

/// Nothing when the digits do not fit.
std::optional<Number> read_number(std::string_view text, bool negative) {
  if (auto number = read_without_digits(text, negative)) return number;
  // Digits, an exponent with its sign, and what is left is the suffix.
  size_t end = text.find_first_not_of("0123456789.");
  if (end < text.size() && text[end] == 'e') end = text.find_first_not_of("0123456789", end + 2);
  end = std::min(end, text.size());
  std::string digits = (negative ? "-" : "") + std::string(text.substr(0, end));
  Number number{.is_float = digits.find_first_of(".e") != std::string::npos, .suffix = text.substr(end)};
  auto real = std::from_chars(digits.data(), digits.data() + digits.size(), number.real);
  if (real.ec != std::errc() || real.ptr != digits.data() + digits.size()) return std::nullopt;
  if (number.is_float) return number;
  auto integer = std::from_chars(digits.data(), digits.data() + digits.size(), number.integer);
  if (integer.ec == std::errc()) return number;
  uint64_t large = 0;  // uint64 above the range of int64
  if (std::from_chars(digits.data(), digits.data() + digits.size(), large).ec == std::errc()) {
    number.integer = static_cast<int64_t>(large);
    number.digits = Digits::kUInt64;
    return number;
  }
  number.is_float = true;  // 100000000000000000000f64
  number.digits = Digits::kMore;
  return number;
}

/// int32 without a suffix, float32 for `f` or a fraction, else as named: i64, u8, f16, bf16.
std::optional<DataType> literal_type(const Number& number) {
  std::string suffix(number.suffix);
  if (suffix.empty()) return number.is_float ? kFloat32 : kInt32;
  if (suffix == "f") return kFloat32;
  size_t digits = suffix.find_first_of("0123456789");
  std::string code = suffix.substr(0, digits);
  if (digits == std::string::npos) return std::nullopt;
  const char* name = code == "i"    ? "int"
                     : code == "u"  ? "uint"
                     : code == "f"  ? "float"
                     : code == "bf" ? "bfloat"
                                    : nullptr;
  auto type = name ? parse_dtype(name + suffix.substr(digits)) : std::nullopt;
  return type && type->lanes == 1 && (type->is_float() || !number.is_float) ? type : std::nullopt;
}

/// Whether a type holds the number, as the literal must say what it is.
bool fits(const Number& number, DataType type) {
  if (type.is_float()) return number.digits != Digits::kMore || !number.suffix.empty();
  if (number.digits != Digits::kInt64) return number.digits == Digits::kUInt64 && type == kUInt64;
  const int64_t value = number.integer;
  if (type.bits >= 64) return type.code == TypeCode::kInt || value >= 0;
  if (type.code == TypeCode::kUInt) return value >= 0 && value < int64_t{1} << type.bits;
  return value >= -(int64_t{1} << (type.bits - 1)) && value < int64_t{1} << (type.bits - 1);
}

}  // namespace

bool Parser::is_number(size_t ahead) const {
  const Token& token = peek(ahead);
  if (token.kind != TokenKind::kIdentifier) return token.kind == TokenKind::kNumber;
  const auto number = read_without_digits(token.text, false);
  return number && !number->suffix.empty() && literal_type(*number);
}

/// 1f, -2i64, -inff, True, [[1, 2], [3, 4]]
Expr Parser::literal() {
  const Token& start = peek();
  std::vector<Token> numbers;
  std::vector<bool> negative;
  std::vector<int64_t> shape;
  literal_items(numbers, negative, shape, 0);
  std::optional<DataType> dtype;
  Tensor tensor;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const Token& token = numbers[i];
    bool is_bool = token.text == "True" || token.text == "False";
    std::optional<Number> number =
        is_bool ? Number{.integer = token.text == "True"} : read_number(token.text, negative[i]);
    if (!number) error(token, fmt::format("`{}` is out of range", token.text));
    std::optional<DataType> type = is_bool ? kBool : literal_type(*number);
    if (!type) error(token, fmt::format("`{}` is not a literal; 1, 1f, 2i64, 3u8, 0.5f16 are", token.text));
    if (dtype && type != dtype)
      error(token, fmt::format("a literal of {} and {}; its items must have one type", to_string(*dtype),
                               to_string(*type)));
    if (!is_bool && !fits(*number, *type)) {
      const std::string_view digits = token.text.substr(0, token.text.size() - number->suffix.size());
      error(token, fmt::format("{}{} does not fit {}", negative[i] ? "-" : "", digits,
                               to_string(number->digits == Digits::kMore ? kInt64 : *type)));
    }
    // The first item's type is that of all; the shape is known, as all items are read by now.
    if (!dtype) tensor = Tensor(shape, *type);
    dtype = type;
    if (type->is_float())
      tensor.set(static_cast<int64_t>(i), number->real);
    else
      tensor.set_integer(static_cast<int64_t>(i), number->integer);
  }
  return with_span(make<Constant>(tensor), span(start));
}

void Parser::literal_items(std::vector<Token>& numbers, std::vector<bool>& negative,
                           std::vector<int64_t>& shape, size_t depth) {
  Nesting nesting = nested_value();
  const Token& token = peek();
  if (!accept("[")) {
    if (depth < shape.size()) error(token, "a literal whose rows differ in length");
    negative.push_back(accept("-"));
    bool is_bool = is("True") || is("False");
    numbers.push_back(is_bool || is_number() ? next() : expect(TokenKind::kNumber, "a number"));
    return;
  }
  int64_t items = 0;
  bool first_here = depth == shape.size();
  if (first_here && !numbers.empty()) error(token, "a literal whose rows differ in length");
  if (first_here) shape.push_back(-1);
  do {
    literal_items(numbers, negative, shape, depth + 1);
    ++items;
  } while (accept(","));
  expect("]");
  if (shape[depth] >= 0 && shape[depth] != items) error(token, "a literal whose rows differ in length");
  shape[depth] = items;
}

std::string Parser::string_value(std::string_view what) {
  const Token& token = expect(TokenKind::kString, what);
  try {
    return nlohmann::json::parse("\"" + std::string(token.text) + "\"").get<std::string>();
  } catch (const nlohmann::json::exception&) {
    error(token, "a string with an unknown escape");
  }
}

nlohmann::json Parser::attr_value() {
  Nesting nesting = nested_value();
  const Token& token = peek();
  if (accept("[") || accept("(")) {
    std::string_view close = token.text == "[" ? "]" : ")";
    nlohmann::json list = nlohmann::json::array();
    while (!accept(close)) {
      list.push_back(attr_value());
      if (!is(close)) expect(",");
    }
    return list;
  }
  if (token.kind == TokenKind::kString) return string_value("a string");
  if (is("meta") && is("[", 1)) return boxed_value();
  if (accept("?")) return "?";
  if (token.kind == TokenKind::kIdentifier) {
    next();
    if (token.text == "True" || token.text == "False") return token.text == "True";
    if (token.text == "None") return nullptr;
    return token.text;  // dtype=float32
  }
  bool negative = accept("-");
  const Token& text = expect(TokenKind::kNumber, "the value of an attribute");
  std::optional<Number> number = read_number(text.text, negative);
  std::optional<DataType> type = number ? literal_type(*number) : std::nullopt;
  if (!type) error(text, fmt::format("`{}` is not a number", text.text));
  if (type->is_float()) return number->real;
  if (number->digits != Digits::kInt64) error(text, fmt::format("`{}` does not fit int64", text.text));
  return number->integer;
}

/// meta[runtime.BoxInt][0]: a number that TVM keeps in the metadata, where an attribute takes any object.
nlohmann::json Parser::boxed_value() {
  next();
  expect("[");
  const Token& key = expect(TokenKind::kIdentifier, "the type of a boxed value");
  expect("]");
  expect("[");
  const Token& index = expect(TokenKind::kNumber, "an index");
  expect("]");
  auto found = metadata_.boxed.find(std::string(key.text));
  std::optional<Number> at = read_number(index.text, false);
  const size_t size = found == metadata_.boxed.end() ? 0 : found->second.size();
  if (!at || at->is_float || !at->suffix.empty() || static_cast<size_t>(at->integer) >= size)
    error(index, fmt::format("meta[{}] has {} entries that an attribute can be; is #[metadata] missing?",
                             key.text, size));
  return found->second[static_cast<size_t>(at->integer)];
}

/// Primitive=1, Key="value", or key=2.
void Parser::function_attr(FunctionAttrs& attrs) {
  const Token& key = next();
  expect("=");
  const Token& token = peek();
  if (is("meta") && is("[", 1) && !metadata_.boxed.count(std::string(peek(2).text))) {
    // An object of TVM's own build, as its executor: nothing here is told by it.
    for (std::string_view each : {"meta", "[", "", "]", "[", "", "]"})
      each.empty() ? (void)next() : expect(each);
    return;
  }
  nlohmann::json value = attr_value();
  if (key.text == "Primitive") {
    if (value != 0 && value != 1) error(token, "Primitive must be 0 or 1");
    attrs.primitive = value == 1;
  } else if (value.is_string()) {
    attrs.other[std::string(key.text)] = value.get<std::string>();
  } else if (value.is_number_integer()) {
    attrs.integers[std::string(key.text)] = value.get<int64_t>();
  } else {
    attrs.values[std::string(key.text)] = print_attr_value(value);
  }
}

/// The attributes up to the closing parenthesis; of an operator that has some, the defaults when none is
/// given.
Attrs Parser::attributes(const Expr& callee, const Token& start) {
  const OpNode* op = callee.as<OpNode>();
  const NodeType* type = op ? op->row().attrs : nullptr;
  std::vector<std::string> names;
  if (type)
    for (const char* each : type->field_names()) names.push_back(each);
  nlohmann::json fields = nlohmann::json::object();
  while (!is(")")) {
    const Token& name = expect(TokenKind::kIdentifier, "an attribute");
    std::string key(name.text);
    if (!op) error(name, "only a call of an operator has attributes");
    // Names are checked while they are read, so that the message points at the one that is wrong.
    if (std::find(names.begin(), names.end(), key) == names.end())
      error(name, fmt::format("{} has no attribute `{}`{}", op->name, key, did_you_mean(key, names)));
    if (fields.contains(key)) error(name, fmt::format("attribute `{}` is given twice", key));
    expect("=");
    nlohmann::json value = attr_value();
    // TVM writes a count of equal parts under the name of the indices.
    if (op->name == "split" && key == "indices_or_sections" && value.is_number_integer()) key = "sections";
    fields[key] = std::move(value);
    if (!is(")")) expect(",");
  }
  if (!type) return nullptr;
  try {
    return read_attrs(*type, fields);
  } catch (const Error& e) {
    error(start, fmt::format("{}: {}", op->name, e.what()));
  }
}

}  // namespace lathe::relay
