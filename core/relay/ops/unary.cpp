// Element-wise functions of one tensor.
#include <cmath>

#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

template <Intrinsic I>
Expr apply(Expr x) {
  return intrinsic(I, x);
}
/// On integers rounding changes nothing.
template <Intrinsic I>
Expr rounding(Expr x) {
  return x.dtype().is_float() ? intrinsic(I, x) : x;
}
Expr zero(const Expr& x) { return lathe::constant(x.dtype(), 0); }
Expr absolute(Expr x) {
  if (x.dtype().is_float()) return intrinsic(Intrinsic::kAbs, x);
  return x.dtype().code == TypeCode::kUInt ? x : max(x, zero(x) - x);
}
Expr sign(Expr x) {
  if (x.dtype().is_float()) return intrinsic(Intrinsic::kSign, x);
  Expr one = lathe::constant(x.dtype(), 1);
  return select(
      less(zero(x), x), one,
      x.dtype().code == TypeCode::kUInt ? zero(x) : select(less(x, zero(x)), zero(x) - one, zero(x)));
}
/// Not 0 - x, which is 0 where -0 is wanted.
Expr negative(Expr x) { return x.dtype().is_float() ? x * real(x, -1) : zero(x) - x; }
Expr identity(Expr x) { return x; }
Expr zero_like(Expr x) { return zero(x); }
Expr one_like(Expr x) { return lathe::constant(x.dtype(), 1); }
Expr log2_of(Expr x) { return intrinsic(Intrinsic::kLog, x) * real(x, 1.4426950408889634); }
Expr log10_of(Expr x) { return intrinsic(Intrinsic::kLog, x) * real(x, 0.4342944819032518); }
Expr is_finite(Expr x) {
  return logical_not(logical_or(intrinsic(Intrinsic::kIsNan, x), intrinsic(Intrinsic::kIsInf, x)));
}
/// True for non-zero numbers; boolean tensors are themselves.
Expr inverse(Expr x) { return logical_not(cast(kBool, x)); }

Relation same_as_integer_input(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0)) require_integers(c, 0, *x);
  return same_as_input(c, attrs);
}
Relation classified_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0)) require_float(c, 0, *x);
  return same_shape_bool(c, attrs);
}
Relation cast_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  c.result(tensor_type(x->shape, attrs_as<CastAttrs>(attrs).dtype));
  return Relation::kSolved;
}
Relation cast_like_type(RelationContext& c, const Attrs&) {
  const TensorType *x = c.tensor(0), *like = c.tensor(1);
  if (!x || !like) return Relation::kWaits;
  c.result(tensor_type(x->shape, like->dtype));
  return Relation::kSolved;
}
Buffers cast_to(FuncBuilder& f, const Attrs&, Inputs in, const Type& result) {
  DataType dtype = tensor_of(result).dtype;
  return {f.compute("cast", in[0]->shape, [&](Vars i) { return cast(dtype, at(in[0], i)); })};
}

Buffers clip(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const ClipAttrs& a = attrs_as<ClipAttrs>(attrs);
  const DataType dtype = in[0]->dtype;
  const bool is_float = dtype.is_float();
  const Expr low = is_float ? fimm(dtype, a.a_min) : imm(dtype, integer_bound(dtype, a.a_min, false));
  const Expr high = is_float ? fimm(dtype, a.a_max) : imm(dtype, integer_bound(dtype, a.a_max, true));
  return {f.compute("clip", in[0]->shape, [&](Vars i) { return min(max(at(in[0], i), low), high); })};
}

}  // namespace

int64_t integer_bound(DataType dtype, double value, bool upper) {
  const Expr low = tir::identity_of(tir::Combiner::kMax, dtype),
             high = tir::identity_of(tir::Combiner::kMin, dtype);
  const bool is_signed = dtype.code == TypeCode::kInt;
  const double beyond = std::ldexp(1.0, dtype.is_bool() ? 1 : dtype.bits - (is_signed ? 1 : 0));
  const double whole = upper ? std::floor(value) : std::ceil(value);
  // No number bounds nothing.
  if (std::isnan(whole)) return int_value(upper ? high : low);
  if (whole <= (is_signed ? -beyond : 0)) return int_value(low);
  if (whole >= beyond) return int_value(high);
  return is_signed ? static_cast<int64_t>(whole) : static_cast<int64_t>(static_cast<uint64_t>(whole));
}

namespace {
constexpr Op row(const char* name, const char* doc, Compute compute, InferType infer = same_as_input,
                 const NodeType* attrs = nullptr, int args = 1) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kElementwise,
          .layout = args == 1 ? LayoutRule::kElementwise : LayoutRule::kNone};
}
template <Intrinsic I>
constexpr Op function(const char* name, const char* doc) {
  return row(name, doc, map1<apply<I>>, same_as_float_input);
}

constexpr Op kUnaryOps[] = {
    function<Intrinsic::kExp>("exp", "e ^ x."),
    function<Intrinsic::kLog>("log", "Natural logarithm."),
    row("log2", "Logarithm to base 2.", map1<log2_of>, same_as_float_input),
    row("log10", "Logarithm to base 10.", map1<log10_of>, same_as_float_input),
    function<Intrinsic::kSqrt>("sqrt", "Square root."),
    function<Intrinsic::kRsqrt>("rsqrt", "1 / sqrt(x)."),
    function<Intrinsic::kTanh>("tanh", "Hyperbolic tangent."),
    function<Intrinsic::kSigmoid>("sigmoid", "1 / (1 + e^-x)."),
    function<Intrinsic::kErf>("erf", "Gauss error function."),
    function<Intrinsic::kSin>("sin", "Sine."),
    function<Intrinsic::kCos>("cos", "Cosine."),
    function<Intrinsic::kTan>("tan", "Tangent."),
    function<Intrinsic::kAsin>("asin", "Inverse sine."),
    function<Intrinsic::kAcos>("acos", "Inverse cosine."),
    function<Intrinsic::kAtan>("atan", "Inverse tangent."),
    function<Intrinsic::kSinh>("sinh", "Hyperbolic sine."),
    function<Intrinsic::kCosh>("cosh", "Hyperbolic cosine."),
    function<Intrinsic::kAsinh>("asinh", "Inverse hyperbolic sine."),
    function<Intrinsic::kAcosh>("acosh", "Inverse hyperbolic cosine."),
    function<Intrinsic::kAtanh>("atanh", "Inverse hyperbolic tangent."),
    row("bitwise_not", "Each bit inverted.", map1<apply<Intrinsic::kBitNot>>, same_as_integer_input),
    row("floor", "Rounded toward minus infinity.", map1<rounding<Intrinsic::kFloor>>),
    row("ceil", "Rounded toward infinity.", map1<rounding<Intrinsic::kCeil>>),
    row("round", "Rounded to the nearest integer, halves to even.", map1<rounding<Intrinsic::kRound>>),
    row("trunc", "Rounded toward zero.", map1<rounding<Intrinsic::kTrunc>>),
    row("abs", "Absolute value.", map1<absolute>),
    row("sign", "-1, 0 or 1.", map1<sign>),
    row("negative", "-x.", map1<negative>),
    in_order(row("copy", "x.", map1<identity>)),
    row("zeros_like", "Zeros of the shape and type of x.", map1<zero_like>),
    row("ones_like", "Ones of the shape and type of x.", map1<one_like>),
    row("isnan", "True where x is not a number.", map1<apply<Intrinsic::kIsNan>>, classified_type),
    row("isinf", "True where x is infinite.", map1<apply<Intrinsic::kIsInf>>, classified_type),
    row("isfinite", "True where x is neither infinite nor NaN.", map1<is_finite>, classified_type),
    row("logical_not", "True where x is false or 0.", map1<inverse>, same_shape_bool),
    row("cast", "x converted to `dtype`; floats are truncated toward zero.", cast_to, cast_type,
        &CastAttrs::kType),
    row("cast_like", "x converted to the element type of the second argument.", cast_to, cast_like_type,
        nullptr, 2),
    row("clip", "min(max(x, a_min), a_max).", clip, same_as_input, &ClipAttrs::kType),
};
}  // namespace

std::span<const Op> unary_ops() { return kUnaryOps; }

}  // namespace lathe::relay::ops
