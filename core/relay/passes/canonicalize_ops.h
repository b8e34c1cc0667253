// One form for what several operators say.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// nn.bias_add becomes an add of the vector with its broadcast axes spelled out. REQUIRES: types are
/// inferred; the result has its types.
Module canonicalize_ops(const Module& module);

}  // namespace lathe::relay
