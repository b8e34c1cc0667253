// Types and dimensions.
#include <algorithm>

#include "core/relay/op.h"
#include "core/relay/text/parser.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

constexpr std::pair<std::string_view, Kind> kKinds[] = {{"Type", Kind::kType},
                                                        {"Shape", Kind::kShape},
                                                        {"BaseType", Kind::kBaseType},
                                                        {"Constraint", Kind::kConstraint},
                                                        {"AdtHandle", Kind::kAdt}};

constexpr int kMaxTerms = 100;  // a sum nests to the left: keeps hostile text off the machine's stack

struct DimOp {
  std::string_view text;
  BinaryOp op;
  int precedence;
};
constexpr DimOp kDimOps[] = {{"+", BinaryOp::kAdd, 1}, {"-", BinaryOp::kSub, 1}, {"*", BinaryOp::kMul, 2}};
constexpr DimOp kDimFunctions[] = {{"floordiv", BinaryOp::kFloorDiv, 0},
                                   {"floormod", BinaryOp::kFloorMod, 0},
                                   {"min", BinaryOp::kMin, 0},
                                   {"max", BinaryOp::kMax, 0}};

}  // namespace

Type Parser::type() {
  Nesting nesting = nested_type();
  Type result;
  with_enough_stack([&] { result = one_type(); });
  return result;
}

Type Parser::one_type() {
  const Token& start = peek();
  if (accept("(")) {
    std::vector<Type> items = type_list(")");
    // (A) is A, (A,) a tuple of one.
    return items.size() == 1 && tokens_[at_ - 2].text != "," ? items[0] : tuple_type(std::move(items));
  }
  if (start.kind != TokenKind::kIdentifier) expect(TokenKind::kIdentifier, "a type");
  if (is("Tensor")) return tensor();
  next();
  if (start.text == "_") return make<HoleType>();
  if (start.text == "fn") {
    size_t mark = type_vars_.mark();
    std::vector<TypeVar> params = type_params();
    expect("(");
    std::vector<Type> inputs = type_list(")");
    expect("->");
    Type result = type();
    std::vector<Type> given = constraints();
    type_vars_.leave(mark);
    return make<FuncType>(std::move(params), std::move(inputs), std::move(result), std::move(given));
  }
  if (start.text == "ref" && accept("(")) {
    Type value = type();
    expect(")");
    return make<RefType>(std::move(value));
  }
  if (start.text == "Shape" && is("(")) return make<ShapeType>(dims());
  // Variables first: a parameter named like an element type hides it.
  if (const TypeVar* variable = type_vars_.find(std::string(start.text))) return *variable;
  if (auto dtype = parse_dtype(start.text)) return tensor_type(std::vector<lathe::Expr>{}, *dtype);
  // An algebraic data type, defined before or after: checked at the end.
  type_uses_.emplace_back(start, start.text);
  std::vector<Type> args;
  if (accept("[")) args = type_list("]");
  return make<TypeCall>(make<GlobalTypeVarNode>(std::string(start.text)), std::move(args));
}

/// Tensor[(1, n, ?), float32]; the shape and the base type may be variables: Tensor[S, T].
Type Parser::tensor() {
  next();
  expect("[");
  Type shape = tensor_shape();
  expect(",");
  Type base = tensor_base();
  expect("]");
  return tensor_of(shape, base);
}

/// (1, n, ?)
std::vector<lathe::Expr> Parser::dims() {
  std::vector<lathe::Expr> dims;
  expect("(");
  while (!accept(")")) {
    const Token& start = peek();
    dims.push_back(dim());
    const int64_t* number = as_int(dims.back());
    if (number && *number < 0) error(start, fmt::format("dimension {} is negative", *number));
    if (!is(")")) expect(",");
  }
  return dims;
}

Type Parser::tensor_shape() {
  if (is("(")) return make<ShapeType>(dims());
  const Token& token = expect(TokenKind::kIdentifier, "a shape, as in (2, n), or a variable of kind Shape");
  if (token.text == "_") return make<HoleType>(Kind::kShape);
  if (token.text == "Shape" && is("(")) return make<ShapeType>(dims());
  if (const TypeVar* variable = type_vars_.find(std::string(token.text))) return *variable;
  error(token, fmt::format("`{}` is not a shape; (2, n) is, and a variable declared as in [{}: Shape]",
                           token.text, token.text));
}

Type Parser::tensor_base() {
  const Token& token = expect(TokenKind::kIdentifier, "an element type");
  if (token.text == "_") return make<HoleType>(Kind::kBaseType);
  if (const TypeVar* variable = type_vars_.find(std::string(token.text))) return *variable;
  if (auto dtype = parse_dtype(token.text)) return base_type(*dtype);
  error(token,
        fmt::format("`{}` is not an element type{}", token.text,
                    did_you_mean(token.text, {"float32", "float64", "float16", "bfloat16", "int8", "int16",
                                              "int32", "int64", "uint8", "uint16", "uint32", "bool"})));
}

/// add(Tensor[S, T], Tensor[U, T]) -> Tensor[R, T], with the attributes of the operator behind its arguments.
Type Parser::relation() {
  const Token& name = expect(TokenKind::kIdentifier, "an operator");
  if (!find_op(name.text))
    error(name, fmt::format("unknown operator `{}`{}", name.text, did_you_mean(name.text, op_names())));
  expect("(");
  std::vector<Type> args;
  while (!is(")") && !(peek().kind == TokenKind::kIdentifier && is("=", 1))) {
    args.push_back(type());
    if (!is(")")) expect(",");
  }
  Attrs attrs = attributes(op_expr(name.text), name);
  expect(")");
  expect("->");
  Type result = type();
  return make<RelationType>(std::string(name.text), std::move(args), std::move(attrs), std::move(result));
}

/// where (relation, ...), or nothing.
std::vector<Type> Parser::constraints() {
  std::vector<Type> list;
  if (!accept("where")) return list;
  expect("(");
  while (!accept(")")) {
    list.push_back(relation());
    if (!is(")")) expect(",");
  }
  return list;
}

/// The types up to `close`, which is read. A comma may follow the last.
std::vector<Type> Parser::type_list(std::string_view close) {
  std::vector<Type> items;
  while (!accept(close)) {
    items.push_back(type());
    if (!is(close)) expect(",");
  }
  return items;
}

/// [A, B: Shape], or nothing. The variables stay bound until the caller leaves the scope.
std::vector<TypeVar> Parser::type_params() {
  std::vector<TypeVar> params;
  if (!accept("[")) return params;
  while (!accept("]")) {
    const Token& name = expect(TokenKind::kIdentifier, "a type variable");
    Kind kind = Kind::kType;
    if (accept(":")) {
      const Token& text = expect(TokenKind::kIdentifier, "a kind");
      auto found =
          std::find_if(std::begin(kKinds), std::end(kKinds), [&](auto& k) { return k.first == text.text; });
      if (found == std::end(kKinds))
        error(text, fmt::format("`{}` is not a kind; Type, Shape, BaseType are", text.text));
      kind = found->second;
    }
    params.push_back(make<TypeVarNode>(std::string(name.text), kind));
    type_vars_.bind(std::string(name.text), params.back());
    if (!is("]")) expect(",");
  }
  return params;
}

lathe::Expr Parser::dim(int precedence) {
  Nesting nesting = nested_value();
  lathe::Expr left = dim_atom();
  for (int terms = 1;; ++terms) {
    auto op = std::find_if(std::begin(kDimOps), std::end(kDimOps),
                           [&](const DimOp& each) { return is(each.text) && each.precedence > precedence; });
    if (op == std::end(kDimOps)) return left;
    if (terms == kMaxTerms) error(peek(), fmt::format("a dimension of more than {} terms", kMaxTerms));
    next();
    left = binary(op->op, left, dim(op->precedence));
  }
}

lathe::Expr Parser::dim_atom() {
  if (accept("?")) return any_dim();
  if (accept("(")) {
    lathe::Expr inner = dim();
    expect(")");
    return inner;
  }
  bool negative = accept("-");
  if (peek().kind == TokenKind::kNumber) {
    const Token& token = next();
    int64_t value = 0;
    for (char c : token.text)
      if (c < '0' || c > '9' || __builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, c - '0', &value))
        error(token, fmt::format("`{}` is not a dimension", token.text));
    return negative ? -value : value;
  }
  const Token& name = expect(TokenKind::kIdentifier, "a dimension");
  if (negative) error(name, "expected a number after `-`");
  for (const DimOp& function : kDimFunctions) {
    if (name.text != function.text || !accept("(")) continue;
    lathe::Expr a = dim();
    expect(",");
    lathe::Expr b = dim();
    expect(")");
    if ((function.op == BinaryOp::kFloorDiv || function.op == BinaryOp::kFloorMod) && is_int(b, 0))
      error(name, "a dimension is divided by zero");
    return binary(function.op, a, b);
  }
  // The first mention of a name makes its variable, later ones are the same.
  auto [found, is_new] = dims_.try_emplace(std::string(name.text));
  if (is_new) found->second = var(found->first);
  return found->second;
}

}  // namespace lathe::relay
