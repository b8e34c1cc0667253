// float32 models in fewer bits.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/relay/analysis/narrow_costs.h"
#include "core/relay/expr.h"

namespace lathe::tuner {

struct CalibrationOptions {
  int64_t samples = 8;  // how many, where `inputs` does not say
  uint64_t seed = 0;    // of inputs that are not given: N(0, 1), or small integers
  /// Samples of inputs, by name: tensors of the input's shape, or several of these behind each other along
  /// the first axis, or along one more before it. As many of each input.
  std::map<std::string, std::vector<Tensor>> inputs;
};

/// The model with quantize and dequantize around its convolutions, dense layers, pools and sums
/// (relay::quantize), batch norms folded first. Ranges are those seen while the float model runs on the
/// samples. A product that does not pay by `costs` (without them all do), or of which an operand would lose
/// much, stays as it is. REQUIRES: constant shapes. Throws Error on what does not type-check or cannot be
/// executed, and for samples of no input, another shape or type. Constants are evaluated, and samples run, on
/// this machine.
relay::Module quantize_model(const relay::Module& module, const CalibrationOptions& options = {},
                             const relay::NarrowCosts& costs = relay::NarrowCosts::none());

enum class Precision {
  kGiven,     // as the model says
  kBFloat16,  // relay::to_mixed_precision, batch norms folded first
  kInt8,      // quantize_model
  kFloat64,   // relay::to_float64: slow, and the truth
};
/// "given", "bf16", "int8" or "float64"; throws Error for another word.
Precision parse_precision(std::string_view text);
/// REQUIRES as quantize_model.
relay::Module at_precision(const relay::Module& module, Precision precision, const relay::NarrowCosts& costs);

/// Products (NarrowRule::kProduct) of @main, and those of them that multiply float32: dequantized tensors are
/// multiplied as integers. REQUIRES: types are inferred.
struct ProductCounts {
  int64_t all = 0, float32 = 0;
};
ProductCounts count_products(const relay::Module& module);

}  // namespace lathe::tuner
