// Algebraic identities.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// x * 1, x + 0, x - 0, x / 1; reshape and transpose of the like, or without effect; cast of a cast that
/// loses nothing. REQUIRES: types are inferred; the result has its types.
Ref<Function> simplify_expr(const Ref<Function>& function);

}  // namespace lathe::relay
