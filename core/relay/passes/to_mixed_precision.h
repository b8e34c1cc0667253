// float32 models -> models that multiply and store in bfloat16.
#pragma once

#include "core/relay/analysis/narrow_costs.h"

namespace lathe::relay {

/// Products (NarrowRule::kProduct) of two tensors of float32 become the same of both cast to bfloat16,
/// summing in float32, where that pays by `costs`. What they read lies in memory as bfloat16, rounded to
/// nearest even, and everyone else who reads it reads that, widened; so do tensors that only sums of two
/// tensors, means and choices of elements read (analysis/narrow_tensors.h), and operators that move elements
/// move narrow ones:
///   nn.dense(transpose(x), w)  ->  nn.dense(transpose(cast(x, bfloat16)), cast(w, bfloat16); float32)
/// What is fused into a product stays float32, as do results of functions and everything else.
///
/// REQUIRES: types are inferred; batch norms are scales and shifts already (simplify_inference), best folded
/// into weights.
Module to_mixed_precision(const Module& module, const NarrowCosts& costs);

}  // namespace lathe::relay
