// Elementary functions of float64, of any number of lanes, as straight-line code.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/arith/expr.h"

namespace lathe::codegen {

/// The largest |x| whose sine, cosine or tangent is good; of larger ones nothing is promised.
inline constexpr double kLargestAngle = 0x1p20;
inline bool is_of_angles(Intrinsic f) {
  return f == Intrinsic::kSin || f == Intrinsic::kCos || f == Intrinsic::kTan;
}

/// f(x) for a double or vector of doubles. Errors against the exact value, in units in the last place: exp
/// and log 1; erf, atan, sin, cos and cosh 2; tanh, sigmoid and sinh 3; tan, asin, acos, asinh, acosh and
/// atanh 4. Infinities, NaNs and subnormal numbers as in libm. Null for what is none of these.
llvm::Value* double_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x);

/// x^y for doubles or vectors of doubles, within 1 unit in the last place; zeros, infinities and NaNs as
/// libm's pow. REQUIRES: the target has fused multiply-adds, without which this is slower than libm.
llvm::Value* double_power(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y);

/// C's fmod, exact. REQUIRES: as double_power.
llvm::Value* double_remainder(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y);

}  // namespace lathe::codegen
