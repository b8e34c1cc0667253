// Constant folding.
#pragma once

#include <functional>

#include "core/relay/expr.h"

namespace lathe::relay {

/// The values of tensor-typed expressions without free variables, in order. The compiler gives compiled code:
/// weights of a whole network are computed here.
using Evaluate = std::function<std::vector<Tensor>(const std::vector<Expr>& closed)>;

/// Replaces every largest expression that consists of constants and calls of operators without effects by its
/// value. `evaluate` is called once, with all of them; it may throw Error. REQUIRES: types are inferred. The
/// result has them.
Module fold_constant(const Module& module, const Evaluate& evaluate);

}  // namespace lathe::relay
