// The slow way to a constant expression's value.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// The values of tensor-typed expressions without free variables, by the interpreter of tensor programs: the
/// default evaluator of fold_constant. REQUIRES: types are inferred. Throws Error as lower_function does.
std::vector<Tensor> interpret_closed(const std::vector<Expr>& closed);

}  // namespace lathe::relay
