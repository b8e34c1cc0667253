// Models to QDQ models: calibrated by running them on this machine.
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::tuner {

struct CalibrationOptions {
  int64_t samples = 8;  // inputs of N(0, 1), seeded
  uint64_t seed = 0;
};

/// The model with quantize and dequantize around its convolutions, dense layers, pools and sums
/// (relay::quantize), batch norms folded first. Ranges are those seen while the float model runs on the
/// samples. REQUIRES: constant shapes. Throws Error on what does not type-check or cannot be executed.
relay::Module quantize_model(const relay::Module& module, const Target& target,
                             const CalibrationOptions& options = {});

}  // namespace lathe::tuner
