// Post-training static quantization: float models -> QDQ models.
#pragma once

#include <functional>

#include "core/relay/analysis/narrow_costs.h"

namespace lathe::relay {

/// The least and the largest value that a tensor takes.
struct ValueRange {
  double low = 0, high = 0;
};

/// The ranges of tensors inside a function, over typical inputs. Called once with all of them.
using Calibrate =
    std::function<std::vector<ValueRange>(const Ref<Function>& function, const std::vector<Expr>& tensors)>;

/// Puts quantize and dequantize around what products read, and around tensors that only operators read which
/// do as well on integers: sums of two tensors, means, choices of elements (analysis/narrow_tensors.h). So
/// fake_quantization_to_integer finds integer operators, and other runtimes' QDQ passes do. What a tensor is
/// moved or chosen from is quantized before. Data is uint8 over the calibrated range (which is made to
/// include 0); constant weights are int8, symmetric, with a scale for each channel, the second operand of a
/// product of two tensors with one scale; biases int32 at the product of the two scales. Results of @main
/// stay float32. So do products that do not pay by `costs`, and those of matrices of which an operand would
/// lose more than a tenth of a typical row.
///
/// REQUIRES: types are inferred; batch norms are folded into weights (simplify_inference, fold_constant,
/// fold_scale_axis), layouts are still NCHW. Throws Error for a module without @main.
Module quantize(const Module& module, const NarrowCosts& costs, const Calibrate& calibrate);

}  // namespace lathe::relay
