// Type parameters mean nothing outside of their function.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Throws TypeError where a variable has a type that mentions a type parameter of a function it is not in:
/// inference found it from a use inside. REQUIRES: types are inferred.
void check_type_params_stay(const Ref<Function>& function);

}  // namespace lathe::relay
