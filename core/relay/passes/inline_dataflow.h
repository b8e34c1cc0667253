// Dataflow blocks become part of what is around them.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// A block promises that its bindings have no effects: they become a graph, shared where they are used more
/// than once, that passes see as one with the expressions around. A cast stays bound, since it may fail.
Ref<Function> inline_dataflow(const Ref<Function>& function);

}  // namespace lathe::relay
