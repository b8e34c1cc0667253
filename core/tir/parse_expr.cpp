#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/arith/fold.h"
#include "core/arith/simplify.h"
#include "core/tir/parser.h"
#include "core/tir/precedence.h"

namespace lathe::tir {
namespace {
constexpr int kIntrinsics = static_cast<int>(Intrinsic::kPopcount) + 1;
constexpr std::string_view kFunctions[] = {"select", "cast", "ramp", "broadcast", "min", "max", "pow"};

/// The operator that is spelled so and binds so tightly.
/// The table of spellings and levels that the printer has: what one writes the other reads.
std::optional<BinaryOp> operator_at(std::string_view symbol, int level) {
  for (int i = 0; i < kBinaryOps; ++i) {
    auto op = static_cast<BinaryOp>(i);
    if (symbol == spelling(op) && precedence(op) == level) return op;
  }
  return std::nullopt;
}

std::optional<Intrinsic> intrinsic_named(std::string_view name) {
  for (int i = 0; i < kIntrinsics; ++i)
    if (name == spelling(static_cast<Intrinsic>(i))) return static_cast<Intrinsic>(i);
  return std::nullopt;
}

std::vector<std::string> function_names() {
  std::vector<std::string> names(std::begin(kFunctions), std::end(kFunctions));
  for (int i = 0; i < kIntrinsics; ++i) names.push_back(spelling(static_cast<Intrinsic>(i)));
  return names;
}

bool of_bools(BinaryOp op) { return op == BinaryOp::kAnd || op == BinaryOp::kOr; }
bool of_integers(BinaryOp op) { return op >= BinaryOp::kBitAnd; }

/// The functions of integers are few, the others are of floats.
bool takes(Intrinsic f, DataType type) {
  if (f == Intrinsic::kAbs || f == Intrinsic::kSign) return type.is_float() || type.is_int();
  if (f == Intrinsic::kBitNot || f == Intrinsic::kPopcount) return type.is_int();
  return type.is_float();
}
}  // namespace

/// Builds the node itself: the builders fold constants, and text must come back as it was written.
Expr Parser::combine(const Token& op, BinaryOp kind, Expr a, Expr b) const {
  DataType type = a.dtype();
  if (type != b.dtype())
    source_.fail_at(op, fmt::format("the operands of {} are {} and {}", spelling(kind), to_string(type),
                                    to_string(b.dtype())));
  bool fits = of_bools(kind) ? type.is_bool() : of_integers(kind) ? type.is_int() || type.is_bool() : true;
  if (!fits || type.code == TypeCode::kHandle)
    source_.fail_at(op, fmt::format("{} does not apply to {}", spelling(kind), to_string(type)));
  DataType result = gives_bool(kind) ? kBool.with_lanes(type.lanes) : type;
  return make<Binary>(kind, std::move(a), std::move(b), result);
}

/// Precedence climbing: a level is a chain of operands of the next tighter one, joined from the left. Loops
/// over long chains, which so need no stack.
/// One call a level for each operand, some dozen: simple, and a bounded stack (unary() counts).
Expr Parser::expression(int level) {
  if (level == kUnaryPrecedence) return unary();
  Expr left = expression(level + 1);
  while (peek().kind == TokenKind::kSymbol) {
    auto op = operator_at(peek().text, level);
    if (!op) break;
    Token symbol = take();
    left = combine(symbol, *op, std::move(left), expression(level + 1));
  }
  return left;
}

/// Every recursion of expressions passes here, so counting here limits the stack.
Expr Parser::unary() {
  Nesting nesting(*this);
  Token first = peek();
  if (!accept("!")) return primary();
  Expr a = unary();
  if (!a.dtype().is_bool())
    source_.fail_at(first, fmt::format("! does not apply to {}", to_string(a.dtype())));
  DataType type = a.dtype();
  return make<Not>(std::move(a), type);
}

Expr Parser::primary() {
  Token token = peek();
  if (accept("(")) {
    Expr inner = expression();
    expect(")");
    return inner;
  }
  if (accept("?")) return any_dim();
  // INT64_MIN has no positive counterpart: -(9223372036854775808) would not fit.
  // Part of the number, so that the smallest integer can be written.
  bool negative = accept("-");
  if (peek().kind == TokenKind::kInt || peek().kind == TokenKind::kFloat) return number(negative);
  if (at("inf") || at("nan")) return special_float(negative);
  if (negative) fail_here("expected a number after -; write 0 - x for a negated value");
  if (accept("true")) return imm(kBool, 1);
  if (accept("false")) return imm(kBool, 0);
  if (token.kind != TokenKind::kName || is_reserved(token.text)) fail_here("expected an expression");
  take();
  if (at("(")) return call(token);
  if (!at("[")) return lookup(token, VarNode::kType, "variable").cast<ExprNode>();
  Buffer buffer = lookup(token, BufferNode::kType, "buffer").cast<BufferNode>();
  return load(buffer, indices(buffer, token));
}

Expr Parser::number(bool negative) {
  Token token = take();
  bool real = token.kind == TokenKind::kFloat;
  DataType type = real ? kFloat32 : kInt64;
  // int64 and float32 have none.
  if (!token.suffix.empty()) {
    auto named = parse_number_suffix(token.suffix);
    if (!named)
      source_.fail_at(token,
                      fmt::format("`{}` is not a type of numbers; as in 3i32, 1u8, 0.5f16", token.suffix));
    type = *named;
  }
  // from_chars, not strtod: no locale, and the nearest number always.
  std::string digits = (negative ? "-" : "") + std::string(token.text);
  if (type.is_float()) {
    double value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc()) source_.fail_at(token, "the number is out of range");
    return fimm(type, value);
  }
  if (real)
    source_.fail_at(token, fmt::format("a number with a point or exponent cannot be {}", to_string(type)));
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) source_.fail_at(token, "the number does not fit 64 bits");
  return imm(type, value);
}

Expr Parser::special_float(bool negative) {
  Token token = take();
  DataType type = kFloat32;
  double value = token.text == "inf" ? std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::quiet_NaN();
  if (accept("(")) {
    Token place = peek();
    type = this->type();
    if (!type.is_float()) source_.fail_at(place, fmt::format("{} is not a float type", to_string(type)));
    if (token.text == "nan" && accept(",")) {
      place = peek();
      // The bits of the NaN, as the printer writes those of an unusual one.
      // NaNs of models carry payloads, and text has to give back the same bits.
      value = std::bit_cast<double>(integer());
      if (!std::isnan(value) || std::signbit(value)) source_.fail_at(place, "not the bits of a nan");
    }
    expect(")");
  }
  return fimm(type, negative ? -value : value);
}

int Parser::lanes() {
  Token place = peek();
  int64_t n = integer();
  // More than any register; loops of thousands are not vectors but mistakes.
  if (n < 2 || n > 1024) source_.fail_at(place, fmt::format("a vector of {} lanes; must be 2 to 1024", n));
  return static_cast<int>(n);
}

/// Types are checked here: what the parser returns satisfies what nodes require of their operands.
Expr Parser::call(const Token& name) {
  expect("(");
  std::string_view function = name.text;
  Expr result;
  if (function == "cast") {
    DataType type = this->type();
    expect(",");
    Expr value = expression();
    if (value.dtype().lanes != type.lanes || type.code == TypeCode::kHandle)
      source_.fail_at(name, fmt::format("cast from {} to {}", to_string(value.dtype()), to_string(type)));
    result = make<Cast>(value, type);
  } else if (function == "select") {
    // Declarators of one declaration are initialized one after the other, so commas are read in their places.
    Expr condition = expression(), a = (expect(","), expression()), b = (expect(","), expression());
    if (!condition.dtype().is_bool() || a.dtype() != b.dtype() ||
        (condition.dtype().lanes != 1 && condition.dtype().lanes != a.dtype().lanes))
      source_.fail_at(name,
                      fmt::format("select({}, {}, {}) must be of a bool and two values of one type",
                                  to_string(condition.dtype()), to_string(a.dtype()), to_string(b.dtype())));
    result = make<Select>(condition, a, b, a.dtype());
  } else if (function == "ramp" || function == "broadcast") {
    bool is_ramp = function == "ramp";
    Expr base = expression(), stride = is_ramp ? (expect(","), expression()) : Expr();
    expect(",");
    int n = lanes();
    if (base.dtype().lanes != 1 || (is_ramp && (base.dtype() != stride.dtype() || !base.dtype().is_int())))
      source_.fail_at(name,
                      fmt::format("{} takes scalars{}", function, is_ramp ? ", integers of one type" : ""));
    result = is_ramp ? ramp(base, stride, n) : broadcast(base, n);
  } else if (function == "min" || function == "max" || function == "pow") {
    Expr a = expression(), b = (expect(","), expression());
    result = combine(name,
                     function == "min"   ? BinaryOp::kMin
                     : function == "max" ? BinaryOp::kMax
                                         : BinaryOp::kPow,
                     a, b);
  } else if (auto f = intrinsic_named(function)) {
    Expr a = expression();
    if (!takes(*f, a.dtype()))
      source_.fail_at(name, fmt::format("{} does not apply to {}", function, to_string(a.dtype())));
    result = intrinsic(*f, a);
  } else {
    source_.fail_at(name, fmt::format("no function is called `{}`{}", function,
                                      did_you_mean(function, function_names())));
  }
  expect(")");
  return result;
}

/// An int64, or a vector of them.
Expr Parser::index_expression(const char* what) {
  Token place = peek();
  Expr e = expression();
  if (!e.dtype().is_int())
    source_.fail_at(place, fmt::format("{} is {}, must be an integer", what, to_string(e.dtype())));
  if (e.dtype().with_lanes(1) != kInt64)
    source_.fail_at(place, fmt::format("{} is {}, must be int64", what, to_string(e.dtype())));
  return e;
}

/// A number wherever it is one, however it is written: whoever asks whether a dimension is known looks at the
/// node. What depends on variables stays as it is.
Expr Parser::extent_expression(const char* what) {
  Token place = peek();
  Expr e = index_expression(what), simple = simplify(e);
  if (as_int(simple)) return simple;
  bool depends = false;
  post_order(e, [&](const NodeRef& node) {
    depends = depends || node.as<VarNode>() || node.as<Load>() || node.as<Any>();
  });
  if (!depends) source_.fail_at(place, fmt::format("{} is a number that cannot be computed", what));
  return e;
}

std::vector<Expr> Parser::indices(const Buffer& buffer, const Token& name) {
  expect("[");
  std::vector<Expr> list;
  while (!at("]")) {
    if (!list.empty()) expect(",");
    list.push_back(index_expression("an index"));
  }
  expect("]");
  for (const Expr& index : list)
    if (index.dtype().lanes != 1 && index.dtype().lanes != lanes_of(list))
      source_.fail_at(name, "vector indices of different lengths");
  if (list.size() != buffer->shape.size())
    source_.fail_at(name, fmt::format("{} has {} dimensions, got {} indices", name.text, buffer->shape.size(),
                                      list.size()));
  return list;
}

}  // namespace lathe::tir
