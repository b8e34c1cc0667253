// Elementary functions of float32, of any number of lanes, as straight-line code.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/arith/expr.h"

namespace lathe::codegen {

bool has_vector_math(Intrinsic f);

/// f(x) for a float or vector of float. Errors against the exact value, in units in the last place: exp, log
/// 1; tanh, sigmoid, erf 3; sin, cos 2 for |x| <= 8192 (beyond it the absolute error grows with |x|).
/// Infinities and NaNs as in libm. `avx512_lanes`: with its instructions for
/// vectors of that many floats and fewer; 0: without. REQUIRES: has_vector_math(f).
llvm::Value* vector_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x, unsigned avx512_lanes);

}  // namespace lathe::codegen
