// Elementary functions of float64, of any number of lanes, as straight-line code.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/arith/expr.h"

namespace lathe::codegen {

/// exp, log, tanh and sigmoid.
bool has_double_math(Intrinsic f);

/// f(x) for a double or vector of doubles. Errors against the exact value, in units in the last place: exp
/// and log 1; tanh, sigmoid 3. Infinities, NaNs and subnormal numbers as in libm. REQUIRES:
/// has_double_math(f).
llvm::Value* double_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x);

}  // namespace lathe::codegen
