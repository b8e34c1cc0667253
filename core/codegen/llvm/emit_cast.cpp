// Conversions between types. Quantized kernels end in them: what is rounded and clipped to 8 bits takes one
// instruction, and so does what is widened again at once.
#include <llvm/IR/Intrinsics.h>

#include <cmath>
#include <optional>

#include "core/codegen/llvm/emitter.h"
#include "core/support/error.h"

namespace lathe::codegen {
namespace {
bool is_signed(DataType dtype) { return dtype.code == TypeCode::kInt; }

struct Interval {
  double low, high;
  bool within(double least, double most) const { return low >= least && high <= most; }
};

/// The constants of min(max(x, low), high).
std::optional<Interval> clip_bounds(const Expr& e) {
  auto constant_of = [](const Expr& bound) -> std::optional<double> {
    const Broadcast* b = bound.as<Broadcast>();
    const FloatImm* f = (b ? b->value : bound).as<FloatImm>();
    return f ? std::optional(f->value) : std::nullopt;
  };
  const Binary* high = e.as<Binary>();
  const Binary* low = high && high->op == BinaryOp::kMin ? high->a.as<Binary>() : nullptr;
  if (!low || low->op != BinaryOp::kMax) return std::nullopt;
  std::optional<double> from = constant_of(low->b), to = constant_of(high->b);
  // The other way round all are `to`, which need not lie between them.
  return from && to && *from <= *to ? std::optional(Interval{*from, *to}) : std::nullopt;
}

/// The argument of round(), or null.
Expr rounded_value(const Expr& e) {
  const IntrinsicCall* call = e.as<IntrinsicCall>();
  return call && call->intrinsic == Intrinsic::kRound ? call->a : nullptr;
}

/// Where the float `e` lies, as its form tells: clipped, perhaps rounded then.
std::optional<Interval> float_bounds(const Expr& e) {
  Expr inside = rounded_value(e);
  return clip_bounds(inside ? inside : e);
}

/// The numbers of an integer type of less than 64 bits.
Interval range_of(DataType type) {
  const auto count = static_cast<double>(int64_t{1} << type.bits);
  return is_signed(type) ? Interval{-count / 2, count / 2 - 1} : Interval{0, count - 1};
}

/// Where the int32 `e` lies, as its form tells: a clipped float converted, perhaps moved by a constant.
std::optional<Interval> bounds_of(const Expr& e) {
  if (const Cast* c = e.as<Cast>()) return float_bounds(c->value);
  const Binary* sum = e.as<Binary>();
  if (!sum || sum->op != BinaryOp::kAdd) return std::nullopt;
  const Broadcast* b = sum->b.as<Broadcast>();
  const int64_t* constant = as_int(b ? b->value : sum->b);
  // A zero point, added after rounding.
  std::optional<Interval> moved = constant ? bounds_of(sum->a) : std::nullopt;
  if (!moved) return std::nullopt;
  auto by = static_cast<double>(*constant);
  return Interval{moved->low + by, moved->high + by};
}

/// The int32 in cast(float32, cast(8-bit, e)) where the narrow type holds it: quantized, and at once
/// dequantized. Else null.
Expr through_byte(const Cast& e) {
  const Cast* narrow = e.value.as<Cast>();
  if (!narrow || e.dtype.element() != kFloat32 || narrow->value.dtype().element() != kInt32) return nullptr;
  std::optional<Interval> bounds = bounds_of(narrow->value);
  DataType type = narrow->dtype.element();
  if (!bounds || (type != kUInt8 && type != kInt8)) return nullptr;
  const Interval range = range_of(type);
  return bounds->within(range.low, range.high) ? narrow->value : nullptr;
}
}  // namespace

/// A vector of floats as int32 or int64, toward zero; those beyond its range become the nearest, NaNs 0.
/// LLVM's own saturating conversion takes vectors apart. Of a NaN that was clipped any number may come.
llvm::Value* Emitter::vector_whole(const Expr& e, DataType to) {
  // Well inside of int32, so that rounding cannot leave it.
  constexpr double kSurely = 1e9;
  llvm::Type* type = value_type(to.with_lanes(e.dtype().lanes));
  Expr inside = rounded_value(e);
  std::optional<Interval> bounds = float_bounds(e);
  bool in_range = bounds && bounds->within(-kSurely, kSurely);
  if (to.bits == 32 && in_range && inside && e.dtype().element() == kFloat32) {
    llvm::Value* clipped = kept_wide(value(inside));  // rounds as the processor is set: to nearest even
    return b_.CreateIntrinsic(llvm::Intrinsic::lrint, {type, clipped->getType()}, {clipped});
  }
  llvm::Value* v = kept_wide(value(e));
  llvm::Value* result = b_.CreateFreeze(b_.CreateFPToSI(v, type));
  if (in_range) return result;
  const double end = std::ldexp(1, to.bits - 1);  // the first number beyond, which floats hold
  auto bound = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
  auto number = [&](int64_t x) { return llvm::ConstantInt::getSigned(type, x); };
  const int64_t most = to.bits == 32 ? INT32_MAX : INT64_MAX, least = to.bits == 32 ? INT32_MIN : INT64_MIN;
  result = b_.CreateSelect(b_.CreateFCmpOGE(v, bound(end)), number(most), result);
  result = b_.CreateSelect(b_.CreateFCmpOLT(v, bound(-end)), number(least), result);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), number(0), result);
}

/// A vector of floats as int32 or narrower integers, by way of int32: there two instructions bring what was
/// not clipped before into the range of the narrower type.
llvm::Value* Emitter::vector_narrow(const Expr& e, DataType to) {
  llvm::Value* wide = vector_whole(e, kInt32);
  if (to.bits == 32) return wide;
  const Interval range = range_of(to);
  std::optional<Interval> bounds = float_bounds(e);
  if (!bounds || !bounds->within(range.low, range.high)) {
    auto number = [&](double x) {
      return llvm::ConstantInt::getSigned(wide->getType(), static_cast<int64_t>(x));
    };
    wide = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, wide, number(range.low));
    wide = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, wide, number(range.high));
  }
  return b_.CreateTrunc(wide, value_type(to));
}

/// Of floats to integers it saturates: what the type does not hold becomes its nearest number, NaN 0.
llvm::Value* Emitter::cast(const Cast& e) {
  if (Expr x = through_byte(e)) return b_.CreateSIToFP(value(x), value_type(e.dtype));
  DataType from = e.value.dtype(), to = e.dtype;
  llvm::Type* type = value_type(to);
  bool fits_int32 = to.is_int() && (to.bits < 32 || to.element() == kInt32);
  if (from.is_float() && fits_int32 && to.lanes > 1) return vector_narrow(e.value, to);
  if (from.is_float() && to.element() == kInt64 && to.lanes > 1) return vector_whole(e.value, kInt64);
  llvm::Value* v = kept_wide(value(e.value));
  if (to.is_bool()) {
    llvm::Value* zero = llvm::Constant::getNullValue(v->getType());
    return from.is_float() ? b_.CreateFCmpUNE(v, zero) : b_.CreateICmpNE(v, zero);
  }
  if (from.is_float() && to.is_float()) return rounded(b_.CreateFPCast(v, type), to);
  if (to.is_float())
    return rounded(is_signed(from) ? b_.CreateSIToFP(v, type) : b_.CreateUIToFP(v, type), to);
  if (!from.is_float())
    return is_signed(from) ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
  auto f = is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b_.CreateIntrinsic(f, {type, v->getType()}, {v});
}

}  // namespace lathe::codegen
