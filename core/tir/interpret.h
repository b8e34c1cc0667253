// The slow and obvious interpreter: the oracle that schedules, lowering and code generation are tested
// against.
#pragma once

#include "core/support/tensor.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

/// Runs `func`, either level, on tensors for all params (outputs are written in place). Scalar arithmetic in
/// the types of the program (float32 sums are float32 sums). Parallel, vectorized and unrolled loops run
/// serially. Throws Error when an index is out of bounds, an element is read before it is written, or shapes
/// disagree.
void interpret(const Func& func, std::span<const Tensor> params);

}  // namespace lathe::tir
