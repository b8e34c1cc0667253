// Random tensor programs for property tests of passes, schedules and code generation.
#pragma once

#include <random>

#include "core/support/tensor.h"
#include "core/tir/builder.h"
#include "core/tir/prologue.h"

namespace lathe::tir {

struct RandomFuncOptions {
  int stages = 4;               // blocks at most
  int64_t max_extent = 12;      // of an output dimension
  int64_t max_elements = 2000;  // of a stage
  bool integers = true;         // some programs compute in int32
};

/// A verified program of constant shapes in which later stages read earlier ones: element-wise maps,
/// broadcasts, transposes, padding by selects, windows (convolution and pooling, strided), matrix products,
/// sums and maxima, and splits of an index by floordiv/floormod. The same program for the same seed.
Func random_func(uint32_t seed, const RandomFuncOptions& options = {});

/// Seeded random inputs, and zeroed outputs, for the parameters. REQUIRES: constant shapes.
std::vector<Tensor> random_params(const Func& func, uint64_t seed = 1);
/// The outputs the interpreter gives for random_params(func, seed).
std::vector<Tensor> interpreted_outputs(const Func& func, uint64_t seed = 1);
/// The same by the two parts of split_prologue, one after the other.
std::vector<Tensor> interpreted_outputs(const SplitProgram& split, const Func& func, uint64_t seed = 1);
/// The largest relative error between the outputs of two programs with equal parameters, by the interpreter.
double output_difference(const Func& func, const Func& reference, uint64_t seed = 1);

}  // namespace lathe::tir
