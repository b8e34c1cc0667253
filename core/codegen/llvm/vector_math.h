// Elementary functions of float32, of any number of lanes, as straight-line code.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/arith/expr.h"

namespace lathe::codegen {

/// Of larger angles the quadrant, and with it sines, cosines and tangents, are another function's to find.
inline constexpr float kLargestFloatAngle = 8192;

/// f(x) for a float or vector of float. Errors against the exact value, in units in the last place: exp, log
/// 1; sinh, asinh 4; tanh, erf 6; sin, cos 2, tan 4 for |x| <= kLargestFloatAngle; the others 3. Infinities
/// and NaNs as in libm. `avx512_lanes`: with its instructions for vectors of that many floats and fewer; 0:
/// without. Null for what has no vector form.
llvm::Value* vector_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x, unsigned avx512_lanes);

/// x / c, in four instructions where there is a fused multiply-add: rounded as by a division, or, where what
/// a product leaves over is subnormal, 1 unit in the last place away. REQUIRES: 1 < |c| < 2^100, so that
/// nothing overflows.
llvm::Value* vector_quotient(llvm::IRBuilder<>& builder, llvm::Value* x, float c);

/// x^y for floats or vectors of floats, within 1 unit in the last place; zeros, infinities and NaNs as libm's
/// powf.
llvm::Value* vector_power(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y);

}  // namespace lathe::codegen
