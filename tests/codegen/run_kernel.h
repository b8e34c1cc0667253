// Compiles a lowered function and runs it in this process.
#pragma once

#include <vector>

#include "core/runtime/kernel.h"
#include "core/support/tensor.h"
#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::codegen {

/// Runs the kernel of `lowered` on `params`, in place, with `parallel` (null: serially). Open dimensions are
/// as in the shapes of `params`.
void run_kernel(const tir::Func& lowered, const Target& target, std::span<const Tensor> params,
                const LatheParallel* parallel = nullptr);

}  // namespace lathe::codegen
