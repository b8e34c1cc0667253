// Element-wise functions of several tensors, with broadcasting.
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

template <BinaryOp kOp>
Expr apply(Expr a, Expr b) {
  return binary(kOp, a, b);
}
template <BinaryOp kOp>
Expr swapped(Expr a, Expr b) {
  return binary(kOp, b, a);
}
/// The least or the largest, NaN where one is NaN (NumPy's rule): the scalar operators pass on that of `a`
/// alone, which is one instruction.
template <BinaryOp kOp>
Expr extreme(Expr a, Expr b) {
  const Expr chosen = binary(kOp, a, b);
  const auto* number = b.as<FloatImm>();
  const bool may_be_nan = b.dtype().is_float() && !(number && number->value == number->value);
  return may_be_nan ? select(intrinsic(Intrinsic::kIsNan, b), b, chosen) : chosen;
}
Expr floor_divide(Expr a, Expr b) {
  return a.dtype().is_float() ? intrinsic(Intrinsic::kFloor, div(a, b)) : floordiv(a, b);
}
Expr trunc_divide(Expr a, Expr b) {
  return a.dtype().is_float() ? intrinsic(Intrinsic::kTrunc, div(a, b)) : div(a, b);
}
Expr exclusive_or(Expr a, Expr b) { return not_equal(a, b); }

Relation broadcast_integers(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* a = c.tensor(0)) require_integers(c, 0, *a);
  return broadcast(c, attrs);
}
Relation broadcast_booleans(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* a = c.tensor(0)) require_dtype(c, 0, *a, kBool);
  return broadcast(c, attrs);
}

Relation where_type(RelationContext& c, const Attrs&) {
  const TensorType *condition = c.tensor(0), *a = c.tensor(1), *b = c.tensor(2);
  if (!condition || !a || !b) return Relation::kWaits;
  if (a->dtype != b->dtype)
    mismatch(c, "element types {} and {} differ; insert a cast", to_string(a->dtype), to_string(b->dtype));
  c.result(
      tensor_type(broadcast_shape(c, condition->shape, broadcast_shape(c, a->shape, b->shape)), a->dtype));
  return Relation::kSolved;
}

Buffers where(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  return {f.compute("where", tensor_of(result).shape, [&](Vars i) {
    return select(cast(kBool, at_broadcast(in[0], i)), at_broadcast(in[1], i), at_broadcast(in[2], i));
  })};
}

constexpr Op row(const char* name, const char* doc, Compute compute, InferType infer = broadcast,
                 NarrowRule narrow = NarrowRule::kReal) {
  return {.name = name,
          .doc = doc,
          .args = 2,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kBroadcast,
          .layout = LayoutRule::kElementwise,
          .narrow = narrow};
}
template <BinaryOp kOp>
constexpr Op arithmetic(const char* name, const char* doc) {
  return row(name, doc, map2<apply<kOp>>);
}
template <BinaryOp kOp>
constexpr Op integral(const char* name, const char* doc) {
  return row(name, doc, map2<apply<kOp>>, broadcast_integers);
}
template <BinaryOp kOp>
constexpr Op logical(const char* name, const char* doc) {
  return row(name, doc, map2<apply<kOp>>, broadcast_booleans);
}
template <BinaryOp kOp>
constexpr Op comparison(const char* name, const char* doc) {
  return row(name, doc, map2<apply<kOp>>, broadcast_bool);
}

constexpr Op kBinaryOps[] = {
    row("add", "a + b.", map2<apply<BinaryOp::kAdd>>, broadcast, NarrowRule::kSum),
    arithmetic<BinaryOp::kSub>("subtract", "a - b."),
    arithmetic<BinaryOp::kMul>("multiply", "a * b."),
    arithmetic<BinaryOp::kDiv>("divide", "a / b; integers truncate toward zero, and by 0 give 0."),
    arithmetic<BinaryOp::kMod>("mod", "Remainder with the sign of a; of integers by 0 it is 0."),
    row("minimum", "The smaller one; NaN where one is NaN.", map2<extreme<BinaryOp::kMin>>),
    row("maximum", "The larger one; NaN where one is NaN.", map2<extreme<BinaryOp::kMax>>),
    integral<BinaryOp::kBitAnd>("bitwise_and", "Bits set in both."),
    integral<BinaryOp::kBitOr>("bitwise_or", "Bits set in either."),
    integral<BinaryOp::kBitXor>("bitwise_xor", "Bits set in one of them."),
    integral<BinaryOp::kShiftLeft>("left_shift", "a shifted left by b bits."),
    integral<BinaryOp::kShiftRight>("right_shift",
                                    "a shifted right by b bits; signed integers keep their sign."),
    arithmetic<BinaryOp::kPow>("power",
                               "a ^ b; integers wrap, and to a negative power are 1 / a ^ -b, truncated."),
    row("floor_divide", "a / b rounded toward minus infinity; integers by 0 give 0.", map2<floor_divide>),
    row("floor_mod", "Remainder with the sign of b; of integers by 0 it is 0.", map2<floormod>),
    row("trunc_divide", "a / b rounded toward zero; integers by 0 give 0.", map2<trunc_divide>),
    arithmetic<BinaryOp::kMod>("trunc_mod", "Remainder with the sign of a; of integers by 0 it is 0."),
    logical<BinaryOp::kAnd>("logical_and", "Both, of booleans."),
    logical<BinaryOp::kOr>("logical_or", "Either, of booleans."),
    row("logical_xor", "One of them, of booleans.", map2<exclusive_or>, broadcast_booleans),
    comparison<BinaryOp::kEq>("equal", "a == b."),
    comparison<BinaryOp::kNe>("not_equal", "a != b."),
    comparison<BinaryOp::kLt>("less", "a < b."),
    comparison<BinaryOp::kLe>("less_equal", "a <= b."),
    row("greater", "a > b.", map2<swapped<BinaryOp::kLt>>, broadcast_bool),
    row("greater_equal", "a >= b.", map2<swapped<BinaryOp::kLe>>, broadcast_bool),
    {.name = "where",
     .doc = "condition ? a : b.",
     .args = 3,
     .infer = where_type,
     .compute = where,
     .fusion = Fusion::kBroadcast,
     .layout = LayoutRule::kNone},
};
}  // namespace

std::span<const Op> binary_ops() { return kBinaryOps; }

}  // namespace lathe::relay::ops
