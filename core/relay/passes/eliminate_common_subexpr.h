// Common subexpression elimination.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Calls of one operator on the same arguments with equal attributes become one expression; so do
/// projections, and small constants of one value. Operators with effects stay; primitive functions are not
/// entered.
Ref<Function> eliminate_common_subexpr(const Ref<Function>& function);

}  // namespace lathe::relay
