// The dimensions that the arguments of a function tell.
#pragma once

#include <vector>

#include "core/relay/expr.h"

namespace lathe::relay {

/// A dimension of a function's parameters, and where its arguments tell it: of the tensors that these are,
/// tuples taken apart, one's axis. There it stands by itself, or as the last unknown of an expression.
struct ToldDim {
  lathe::Var dim;
  size_t tensor = 0, axis = 0;
};

/// Those that stand by themselves, in order; behind them those that expressions tell, as (2 * k) tells k,
/// each by dimensions before it. By checked types, where there are any; what is no tensor, as a list, tells
/// none.
std::vector<ToldDim> told_dims(const Function& function);

}  // namespace lathe::relay
