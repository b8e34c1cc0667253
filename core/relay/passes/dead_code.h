// Dead code elimination.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Drops let bindings whose variable is not used and whose value has no effect; what only they used goes too.
Ref<Function> dead_code(const Ref<Function>& function);

}  // namespace lathe::relay
