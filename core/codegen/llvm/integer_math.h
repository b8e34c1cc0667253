// Conversions of vectors of integers, for processors that have no instructions for them.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace lathe::codegen {

/// uint64 as `type`, vectors of float32 or float64, rounded once to nearest even.
llvm::Value* reals_of_uint64(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Type* type);

/// Vectors of float32 or float64 as uint64, toward zero. Of what that does not hold any number may come.
llvm::Value* uint64_of_reals(llvm::IRBuilder<>& builder, llvm::Value* x);

}  // namespace lathe::codegen
