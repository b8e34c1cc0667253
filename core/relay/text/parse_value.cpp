// Literals, attributes and the metadata section.
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/relay/op.h"
#include "core/relay/text/attrs_text.h"
#include "core/relay/text/parser.h"
#include "core/tir/verify.h"

namespace lathe::relay {
namespace {

struct Number {
  bool is_float = false;
  double real = 0;
  int64_t integer = 0;
  std::string_view suffix;
};

/// Nothing when the digits do not fit.
std::optional<Number> read_number(std::string_view text, bool negative) {
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
    return number;
  }
  number.is_float = true;  // 100000000000000000000f64
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

/// Whether an integer type holds the value, as the literal must say what it is.
bool fits(int64_t value, DataType type) {
  if (type.bits >= 64 || type.is_float()) return true;
  if (type.code == TypeCode::kUInt) return value >= 0 && value < int64_t{1} << type.bits;
  return value >= -(int64_t{1} << (type.bits - 1)) && value < int64_t{1} << (type.bits - 1);
}

std::vector<int64_t> read_shape(const nlohmann::json& json) {
  auto shape = json.get<std::vector<int64_t>>();
  int64_t size = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(size, dim, &size) || size > int64_t{1} << 40)
      fail("metadata: a constant of shape {}", shape_text(shape));
  return shape;
}

/// {"dtype": .., "shape": .., "data": ..}: the bytes in hexadecimal. The digits must be there before that
/// much memory is asked for.
Tensor read_tensor(const nlohmann::json& json) {
  auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  if (!dtype) fail("metadata: `{}` is not an element type", json.at("dtype").get<std::string>());
  std::vector<int64_t> shape = read_shape(json.at("shape"));
  const auto& hex = json.at("data").get_ref<const std::string&>();
  size_t bytes = static_cast<size_t>(shape_size(shape) * dtype->bytes());
  if (hex.size() != bytes * 2) fail("metadata: a constant of {} bytes has {} digits", bytes, hex.size());
  Tensor tensor(shape, *dtype);
  for (size_t i = 0; i < bytes; ++i) {
    uint8_t* to = static_cast<uint8_t*>(tensor.data()) + i;
    if (std::from_chars(&hex[2 * i], &hex[2 * i] + 2, *to, 16).ptr != &hex[2 * i] + 2)
      fail("metadata: `{}` is not hexadecimal", hex.substr(2 * i, 2));
  }
  return tensor;
}

std::string hex_digits(const Tensor& tensor) {
  std::string hex;
  hex.reserve(static_cast<size_t>(tensor.bytes()) * 2);
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    uint8_t byte = static_cast<const uint8_t*>(tensor.data())[i];
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

/// A stranger's program: the compiler takes for granted that it keeps to its buffers.
void check(const tir::Func& func) {
  std::optional<std::string> fault = tir::find_hole(func);
  if (!fault) fault = tir::find_fault(func, tir::level_of(func));
  if (fault) fail("metadata: invalid tensor program {}: {}", func->name, *fault);
}

}  // namespace

Metadata read_metadata(std::string_view text) {
  Metadata metadata;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    for (const nlohmann::json& each : json.value("relay.Constant", nlohmann::json::array()))
      metadata.constants.push_back(read_tensor(each));
    for (const nlohmann::json& each : json.value("tir.Func", nlohmann::json::array())) {
      NodeRef func = load_json(each.get_ref<const std::string&>(), tir::tir_node_types());
      if (!func.as<tir::FuncNode>()) fail("metadata: tir.Func holds another node");
      metadata.funcs.push_back(func.cast<tir::FuncNode>());
      check(metadata.funcs.back());
    }
  } catch (const nlohmann::json::exception& e) {
    fail("metadata: {}", e.what());
  }
  return metadata;
}

std::string write_metadata(const Metadata& metadata) {
  nlohmann::json json = nlohmann::json::object();
  for (const Tensor& each : metadata.constants)
    json["relay.Constant"].push_back(
        {{"dtype", to_string(each.dtype())}, {"shape", each.shape()}, {"data", hex_digits(each)}});
  for (const tir::Func& each : metadata.funcs) json["tir.Func"].push_back(save_json(each));
  return json.dump(1);
}

/// 1f, -2i64, True, [[1, 2], [3, 4]]
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
    bool is_bool = token.kind == TokenKind::kIdentifier;
    std::optional<Number> number =
        is_bool ? Number{.integer = token.text == "True"} : read_number(token.text, negative[i]);
    if (!number) error(token, fmt::format("`{}` is out of range", token.text));
    std::optional<DataType> type = is_bool ? kBool : literal_type(*number);
    if (!type) error(token, fmt::format("`{}` is not a literal; 1, 1f, 2i64, 3u8, 0.5f16 are", token.text));
    if (dtype && type != dtype)
      error(token, fmt::format("a literal of {} and {}; its items must have one type", to_string(*dtype),
                               to_string(*type)));
    if (!is_bool && !fits(number->integer, *type))
      error(token, fmt::format("{} does not fit {}", number->integer, to_string(*type)));
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
  Nesting nesting = nested_type();
  const Token& token = peek();
  if (!accept("[")) {
    if (depth < shape.size()) error(token, "a literal whose rows differ in length");
    negative.push_back(accept("-"));
    bool is_bool = is("True") || is("False");
    numbers.push_back(is_bool ? next() : expect(TokenKind::kNumber, "a number"));
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
  Nesting nesting = nested_type();
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
  return number->integer;
}

/// Primitive=1, Key="value", or key=2.
void Parser::function_attr(FunctionAttrs& attrs) {
  const Token& key = next();
  expect("=");
  const Token& token = peek();
  nlohmann::json value = attr_value();
  if (key.text == "Primitive") {
    if (value != 0 && value != 1) error(token, "Primitive must be 0 or 1");
    attrs.primitive = value == 1;
  } else if (value.is_string()) {
    attrs.other[std::string(key.text)] = value.get<std::string>();
  } else if (value.is_number_integer()) {
    attrs.integers[std::string(key.text)] = value.get<int64_t>();
  } else {
    error(token, fmt::format("attribute `{}` of a function must be a string or an integer", key.text));
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
