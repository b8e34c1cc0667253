// float16 -> float32, for machines that compute nothing in float16.
#pragma once

#include "core/relay/analysis/narrow_costs.h"

namespace lathe::relay {

/// Processors widen real numbers of 16 bits to compute on them, and would round after each operation: tensors
/// of float16 become float32, constants at once, and nothing is rounded on the way (XLA's excess precision).
/// What `main` takes and gives keeps its type; so do parameters and constants that are only moved, and
/// weights of products that take less time so by `costs`. Modules that call tensor programs or library
/// functions, that are fused already, that define data types of float16, or whose `main` takes such inside of
/// others, or gives such inside of others than a tuple, stay as they are. REQUIRES: types are inferred.
Module widen_halves(const Module& module, const NarrowCosts& costs);

}  // namespace lathe::relay
