// The inverse of operator fusion.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Inlines the bodies of primitive functions where they are called.
Ref<Function> defuse(const Ref<Function>& function);

}  // namespace lathe::relay
