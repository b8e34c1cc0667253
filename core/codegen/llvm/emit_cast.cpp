// Conversions between types. Quantized kernels end in them: what is rounded and clipped to 8 bits takes one
// instruction, and so does what is widened again at once.
#include <llvm/ADT/APInt.h>
#include <llvm/IR/Intrinsics.h>

#include <cmath>
#include <optional>

#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/integer_math.h"
#include "core/support/error.h"

namespace lathe::codegen {
namespace {

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

/// A vector of floats as integers of 32 or 64 bits, toward zero; those beyond their range become the nearest,
/// NaNs 0. LLVM's own saturating conversion takes vectors apart. Of a NaN that was clipped any number may
/// come.
llvm::Value* Emitter::vector_whole(const Expr& e, DataType to) {
  // Well inside of 32 bits, so that rounding cannot leave them.
  constexpr double kSurely = 1e9;
  llvm::Type* type = value_type(to.with_lanes(e.dtype().lanes));
  Expr inside = rounded_value(e);
  std::optional<Interval> bounds = float_bounds(e);
  const bool in_range = bounds && bounds->within(is_signed(to) ? -kSurely : 0, kSurely);
  if (to.element() == kInt32 && in_range && inside && e.dtype().element() == kFloat32) {
    llvm::Value* clipped = kept_wide(value(inside));  // rounds as the processor is set: to nearest even
    return b_.CreateIntrinsic(llvm::Intrinsic::lrint, {type, clipped->getType()}, {clipped});
  }
  llvm::Value* v = kept_wide(value(e));
  auto bound = [&](double x) { return llvm::ConstantFP::get(v->getType(), x); };
  // Of unsigned ones a single instruction makes 0 of NaN too.
  if (!is_signed(to) && !in_range) v = b_.CreateSelect(b_.CreateFCmpOGT(v, bound(0)), v, bound(0));
  llvm::Value* result = is_signed(to)                                      ? b_.CreateFPToSI(v, type)
                        : to.bits == 64 && !state_.features.converts_longs ? uint64_of_reals(b_, v)
                                                                           : b_.CreateFPToUI(v, type);
  result = b_.CreateFreeze(result);
  if (in_range) return result;
  const auto bits = static_cast<unsigned>(to.bits);
  auto number = [&](const llvm::APInt& x) { return llvm::ConstantInt::get(type, x); };
  // The first number beyond, which floats hold.
  llvm::Value* end = bound(std::ldexp(1, is_signed(to) ? to.bits - 1 : to.bits));
  const llvm::APInt most =
      is_signed(to) ? llvm::APInt::getSignedMaxValue(bits) : llvm::APInt::getMaxValue(bits);
  result = b_.CreateSelect(b_.CreateFCmpOGE(v, end), number(most), result);
  if (!is_signed(to)) return result;
  llvm::Value* least = number(llvm::APInt::getSignedMinValue(bits));
  result = b_.CreateSelect(b_.CreateFCmpOLT(v, b_.CreateFNeg(end)), least, result);
  return b_.CreateSelect(b_.CreateFCmpUNO(v, v), llvm::Constant::getNullValue(type), result);
}

/// A vector of floats as integers of less than 32 bits, by way of int32: there two instructions bring what
/// was not clipped before into the range of the narrower type.
llvm::Value* Emitter::vector_narrow(const Expr& e, DataType to) {
  llvm::Value* wide = vector_whole(e, kInt32);
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
  if (from.is_float() && to.is_int() && to.lanes > 1)
    return to.bits < 32 ? vector_narrow(e.value, to) : vector_whole(e.value, to);
  llvm::Value* v = kept_wide(value(e.value));
  if (to.is_bool()) {
    llvm::Value* zero = llvm::Constant::getNullValue(v->getType());
    return from.is_float() ? b_.CreateFCmpUNE(v, zero) : b_.CreateICmpNE(v, zero);
  }
  if (from.is_float() && to.is_float()) return rounded(b_.CreateFPCast(v, type), to);
  if (to.is_float()) {
    const bool in_parts = from.element() == kUInt64 && to.lanes > 1 && !state_.features.converts_longs;
    llvm::Value* real = in_parts          ? reals_of_uint64(b_, v, type)
                        : is_signed(from) ? b_.CreateSIToFP(v, type)
                                          : b_.CreateUIToFP(v, type);
    return rounded(real, to);
  }
  if (!from.is_float())
    return is_signed(from) ? b_.CreateSExtOrTrunc(v, type) : b_.CreateZExtOrTrunc(v, type);
  auto f = is_signed(to) ? llvm::Intrinsic::fptosi_sat : llvm::Intrinsic::fptoui_sat;
  return b_.CreateIntrinsic(f, {type, v->getType()}, {v});
}

}  // namespace lathe::codegen
