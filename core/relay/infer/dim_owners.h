// Which functions may be polymorphic in which symbolic dimensions.
#pragma once

#include <unordered_map>
#include <unordered_set>

#include "core/relay/expr.h"

namespace lathe::relay {

/// The dimension variables that nothing outside a function mentions, for each function inside `root`: its
/// callers choose them. What holds them are the annotations of the program, so this needs no types.
std::unordered_map<const Node*, std::unordered_set<const Node*>> dim_owners(const Ref<Function>& root);

}  // namespace lathe::relay
