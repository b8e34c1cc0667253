// float32 models in fewer bits.
#pragma once

#include <string_view>

#include "core/relay/expr.h"

namespace lathe::tuner {

struct CalibrationOptions {
  int64_t samples = 8;  // inputs of N(0, 1), seeded
  uint64_t seed = 0;
};

/// The model with quantize and dequantize around its convolutions, dense layers, pools and sums
/// (relay::quantize), batch norms folded first. Ranges are those seen while the float model runs on the
/// samples. REQUIRES: constant shapes. Throws Error on what does not type-check or cannot be executed.
/// Constants are evaluated, and samples run, on this machine.
relay::Module quantize_model(const relay::Module& module, const CalibrationOptions& options = {});

enum class Precision {
  kGiven,     // as the model says
  kBFloat16,  // relay::to_mixed_precision, batch norms folded first
  kInt8,      // quantize_model
  kFloat64,   // relay::to_float64: slow, and the truth
};
/// "given", "bf16", "int8" or "float64"; throws Error for another word.
Precision parse_precision(std::string_view text);
/// REQUIRES as quantize_model.
relay::Module at_precision(const relay::Module& module, Precision precision);

}  // namespace lathe::tuner
