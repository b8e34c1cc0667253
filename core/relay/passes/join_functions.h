// Primitive functions, one of which reads what another gives, as one: what passes that join kernels share.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// The primitive function that `e` calls, or null.
const Function* primitive_callee(const Expr& e);

/// Operators of a primitive function that dominate it, operands first: the last is the one whose results
/// leave the function.
std::vector<const Call*> anchors_of(const Function& function);

/// How often `param` is an operand in `body`.
size_t uses_of(const Expr& body, const Expr& param);

/// `call` with the function that gives argument `i` inside its own: the arguments of both, in their order.
/// REQUIRES: `call` and its argument call primitive functions.
Expr join_argument(const Ref<Call>& call, size_t i);

}  // namespace lathe::relay
