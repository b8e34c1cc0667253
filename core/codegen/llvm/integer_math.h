// Integers in registers; divisions and conversions of vectors of them, for processors that have no
// instructions for these.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include "core/support/dtype.h"

namespace lathe::codegen {

inline bool is_signed(DataType dtype) { return dtype.code == TypeCode::kInt; }

/// uint64 as `type`, vectors of float32 or float64, rounded once to nearest even.
llvm::Value* reals_of_uint64(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Type* type);

/// Vectors of float32 or float64 as uint64, toward zero. Of what that does not hold any number may come.
llvm::Value* uint64_of_reals(llvm::IRBuilder<>& builder, llvm::Value* x);

struct Division {
  llvm::Value *quotient, *remainder;
};

/// a / b toward zero and what is left, of vectors, exact: by divisions of floats. REQUIRES: the quotient is a
/// number of the type. Pays for 64 bits where instructions convert vectors of these.
Division divide(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Value* b, bool is_signed);

/// `d` of a / b toward zero, rounded down instead: one less where there is a remainder and the signs differ.
Division rounded_down(llvm::IRBuilder<>& builder, const Division& d, llvm::Value* a, llvm::Value* b);

}  // namespace lathe::codegen
