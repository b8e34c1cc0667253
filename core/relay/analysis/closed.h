// What is known when a model is compiled: constants, and what is computed from them.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Computed from constants alone, each time in the same way and in few steps, as weights are unpacked or
/// scales multiplied: constant folding will make it one.
bool is_closed(const Expr& e);

}  // namespace lathe::relay
