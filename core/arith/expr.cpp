#include "core/arith/expr.h"

#include <cmath>

#include "core/arith/expr_fields.h"
#include "core/arith/fold.h"
#include "core/support/error.h"

namespace lathe {

LATHE_DEFINE_NODE(VarNode, ExprNode, Identity::kName)
LATHE_DEFINE_NODE(IntImm, ExprNode)
LATHE_DEFINE_NODE(FloatImm, ExprNode)
LATHE_DEFINE_NODE(Any, ExprNode)
LATHE_DEFINE_NODE(Binary, ExprNode)
LATHE_DEFINE_NODE(Not, ExprNode)
LATHE_DEFINE_NODE(Select, ExprNode)
LATHE_DEFINE_NODE(Cast, ExprNode)
LATHE_DEFINE_NODE(IntrinsicCall, ExprNode)
LATHE_DEFINE_NODE(Ramp, ExprNode)
LATHE_DEFINE_NODE(Broadcast, ExprNode)

NodeTable expr_node_types() {
  return {&VarNode::kType, &IntImm::kType,        &FloatImm::kType, &Any::kType,
          &Binary::kType,  &Not::kType,           &Select::kType,   &Cast::kType,
          &Ramp::kType,    &IntrinsicCall::kType, &Broadcast::kType};
}

Expr::Expr(int value) : Expr(imm(kInt64, value)) {}
Expr::Expr(int64_t value) : Expr(imm(kInt64, value)) {}
Expr::Expr(double value) : Expr(fimm(kFloat32, value)) {}

const char* spelling(BinaryOp op) {
  static constexpr const char* kSpellings[] = {"+",   "-",   "*",   "/",  "%",  "//", "%%",
                                               "min", "max", "pow", "==", "!=", "<",  "<=",
                                               "&&",  "||",  "&",   "|",  "^",  "<<", ">>"};
  static_assert(std::size(kSpellings) == reflect::kValuesOf<BinaryOp>);
  return kSpellings[static_cast<int>(op)];
}

const char* spelling(Intrinsic intrinsic) {
  static constexpr const char* kSpellings[] = {
      "exp",   "log",   "sqrt", "rsqrt", "tanh",  "sigmoid", "erf",    "sin",     "cos",   "tan",
      "asin",  "acos",  "atan", "sinh",  "cosh",  "asinh",   "acosh",  "atanh",   "floor", "ceil",
      "round", "trunc", "abs",  "sign",  "isnan", "isinf",   "bitnot", "popcount"};
  static_assert(std::size(kSpellings) == reflect::kValuesOf<Intrinsic>);
  return kSpellings[static_cast<int>(intrinsic)];
}

Var var(std::string name, DataType dtype) { return make<VarNode>(std::move(name), dtype); }

Expr imm(DataType dtype, int64_t value) { return make<IntImm>(value, dtype); }
Expr fimm(DataType dtype, double value) { return make<FloatImm>(value, dtype); }
Expr any_dim() { return make<Any>(kInt64); }

Expr constant(DataType dtype, double value) {
  return dtype.is_float() ? fimm(dtype, value) : imm(dtype, static_cast<int64_t>(value));
}

const int64_t* as_int(const Expr& e) {
  const IntImm* i = e.as<IntImm>();
  return i ? &i->value : nullptr;
}

int64_t int_value(const Expr& e) {
  const int64_t* value = as_int(e);
  CHECK(value, "an expression that must be a constant is not");
  return *value;
}

bool is_int(const Expr& e, int64_t value) {
  const int64_t* v = as_int(e);
  return v && *v == value;
}

namespace {
/// The identities that hold with one constant operand, or null.
/// Of floats none: x + 0 changes -0, x * 0 loses NaN.
Expr fold_identity(BinaryOp op, const Expr& a, const Expr& b) {
  bool integer = a.dtype().is_int();
  switch (op) {
    case BinaryOp::kAdd:
      if (integer && is_int(a, 0)) return b;
      [[fallthrough]];
    case BinaryOp::kSub:
      return integer && is_int(b, 0) ? a : Expr();
    case BinaryOp::kMul:
      if (integer && (is_int(a, 0) || is_int(b, 1))) return a;
      if (integer && (is_int(b, 0) || is_int(a, 1))) return b;
      return {};
    // 0 over anything is 0, over 0 too.
    case BinaryOp::kDiv:
    case BinaryOp::kFloorDiv:
      return integer && (is_int(b, 1) || is_int(a, 0)) ? a : Expr();
    case BinaryOp::kMod:
    case BinaryOp::kFloorMod:
      return integer && (is_int(b, 1) || is_int(a, 0)) ? imm(a.dtype(), 0) : Expr();
    case BinaryOp::kAnd:
      if (is_int(a, 1) || is_int(b, 0)) return b;
      return is_int(b, 1) || is_int(a, 0) ? a : Expr();
    case BinaryOp::kOr:
      if (is_int(a, 0) || is_int(b, 1)) return b;
      return is_int(b, 0) || is_int(a, 1) ? a : Expr();
    default:
      return {};
  }
}

/// Whether `dtype` holds the value, and an int64 tells it. Where that is not so, the operation stays, and
/// wraps when it is evaluated: a uint64 constant that looks negative here is 2^63 or more.
bool fits(DataType dtype, int64_t value) {
  if (dtype.is_bool()) return true;
  if (dtype.code == TypeCode::kUInt)
    return value >= 0 && (dtype.bits >= 64 || value < int64_t{1} << dtype.bits);
  if (dtype.bits >= 64) return true;
  int64_t limit = int64_t{1} << (dtype.bits - 1);
  return value >= -limit && value < limit;
}
}  // namespace

Expr binary(BinaryOp op, Expr a, Expr b) {
  // C++ integers are int64 constants: let them take the type of the other side.
  if (a.dtype() != b.dtype()) {
    if (const int64_t* value = as_int(b); value && b.dtype() == kInt64 && a.dtype().lanes == 1)
      b = constant(a.dtype(), *value);
    else if (const int64_t* value = as_int(a); value && a.dtype() == kInt64 && b.dtype().lanes == 1)
      a = constant(b.dtype(), *value);
  }
  CHECK(a.dtype() == b.dtype(), "operands of {} are {} and {}", spelling(op), to_string(a.dtype()),
        to_string(b.dtype()));
  DataType dtype = gives_bool(op) ? kBool.with_lanes(a.dtype().lanes) : a.dtype();
  const int64_t *x = as_int(a), *y = as_int(b);
  if (x && y && fits(a.dtype(), *x) && fits(b.dtype(), *y)) {
    // Where the result wraps or is undefined the operation stays as it is.
    auto value = fold(op, *x, *y);
    if (value && fits(dtype, *value)) return imm(dtype, *value);
  }
  if (Expr folded = fold_identity(op, a, b)) return folded;
  return make<Binary>(op, std::move(a), std::move(b), dtype);
}

Expr operator+(Expr a, Expr b) { return binary(BinaryOp::kAdd, std::move(a), std::move(b)); }
Expr operator-(Expr a, Expr b) { return binary(BinaryOp::kSub, std::move(a), std::move(b)); }
Expr operator*(Expr a, Expr b) { return binary(BinaryOp::kMul, std::move(a), std::move(b)); }
Expr div(Expr a, Expr b) { return binary(BinaryOp::kDiv, std::move(a), std::move(b)); }
Expr floordiv(Expr a, Expr b) { return binary(BinaryOp::kFloorDiv, std::move(a), std::move(b)); }
Expr floormod(Expr a, Expr b) { return binary(BinaryOp::kFloorMod, std::move(a), std::move(b)); }
Expr ceildiv(Expr a, Expr b) { return floordiv(a + b - 1, b); }
Expr min(Expr a, Expr b) { return binary(BinaryOp::kMin, std::move(a), std::move(b)); }
Expr max(Expr a, Expr b) { return binary(BinaryOp::kMax, std::move(a), std::move(b)); }
Expr equal(Expr a, Expr b) { return binary(BinaryOp::kEq, std::move(a), std::move(b)); }
Expr not_equal(Expr a, Expr b) { return binary(BinaryOp::kNe, std::move(a), std::move(b)); }
Expr less(Expr a, Expr b) { return binary(BinaryOp::kLt, std::move(a), std::move(b)); }
Expr less_equal(Expr a, Expr b) { return binary(BinaryOp::kLe, std::move(a), std::move(b)); }
Expr logical_and(Expr a, Expr b) { return binary(BinaryOp::kAnd, std::move(a), std::move(b)); }
Expr logical_or(Expr a, Expr b) { return binary(BinaryOp::kOr, std::move(a), std::move(b)); }

Expr logical_not(Expr a) {
  CHECK(a.dtype().is_bool());
  if (const int64_t* value = as_int(a)) return imm(kBool, !*value);
  DataType dtype = a.dtype();
  return make<Not>(std::move(a), dtype);
}

Expr select(Expr condition, Expr if_true, Expr if_false) {
  CHECK(condition.dtype().is_bool() && if_true.dtype() == if_false.dtype(), "select of {} and {}",
        to_string(if_true.dtype()), to_string(if_false.dtype()));
  if (const int64_t* value = as_int(condition)) return *value ? if_true : if_false;
  DataType dtype = if_true.dtype();
  return make<Select>(std::move(condition), std::move(if_true), std::move(if_false), dtype);
}

Expr cast(DataType dtype, Expr value) {
  if (value.dtype() == dtype) return value;
  if (const int64_t* v = as_int(value);
      v && fits(value.dtype(), *v) && (dtype.is_float() || fits(dtype, *v))) {
    if (dtype.is_bool()) return imm(kBool, *v != 0);
    // Rounded once: not every int64 is a double.
    if (dtype == kFloat32) return fimm(dtype, static_cast<float>(*v));
    return dtype.is_float() ? fimm(dtype, static_cast<double>(*v)) : imm(dtype, *v);
  }
  return make<Cast>(std::move(value), dtype);
}

Expr intrinsic(Intrinsic f, Expr a) {
  DataType dtype =
      f == Intrinsic::kIsNan || f == Intrinsic::kIsInf ? kBool.with_lanes(a.dtype().lanes) : a.dtype();
  return make<IntrinsicCall>(f, std::move(a), dtype);
}

Expr ramp(Expr base, Expr stride, int lanes) {
  DataType dtype = base.dtype().with_lanes(lanes);
  return make<Ramp>(std::move(base), std::move(stride), dtype);
}

Expr broadcast(Expr value, int lanes) {
  DataType dtype = value.dtype().with_lanes(lanes);
  return make<Broadcast>(std::move(value), dtype);
}

namespace {
/// Rebuilds through the builders so that constants fold.
NodeRef rebuilt(const NodeRef& node) {
  if (const Binary* b = node.as<Binary>()) {
    Expr built = binary(b->op, b->a, b->b);
    // The same again: a buffer that is loaded from, of an open shape, stays itself.
    const Binary* same = built.as<Binary>();
    return same && same->op == b->op && same->a == b->a && same->b == b->b ? node : NodeRef(built);
  }
  if (const Select* s = node.as<Select>()) return select(s->condition, s->if_true, s->if_false);
  if (const Not* n = node.as<Not>()) return logical_not(n->a);
  if (const Cast* c = node.as<Cast>()) return cast(c->dtype, c->value);
  return node;
}
}  // namespace

Expr substitute(const Expr& e, const VarMap& values) {
  if (!e || values.empty()) return e;
  NodeRef result = rewrite(e, [&](const NodeRef& node) -> NodeRef {
    if (const VarNode* v = node.as<VarNode>()) {
      auto found = values.find(v);
      return found == values.end() ? node : NodeRef(found->second);
    }
    return rebuilt(node);
  });
  return result.cast<ExprNode>();
}

bool uses_var(const NodeRef& node, const VarNode* var) {
  bool found = false;
  post_order(node, [&](const NodeRef& n) { found |= n.same_as(var); });
  return found;
}

}  // namespace lathe
