// The convolutions of a model, each as a problem that any library can be given.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/relay/expr.h"
#include "core/runtime/executor.h"
#include "core/tir/target.h"
#include "tuner/final_build.h"

namespace lathe::bench {

/// A 2-D convolution in plain layouts: data NCHW, weights OIHW. `dilation` 0 is dense.
struct ConvProblem {
  std::vector<int64_t> data, weights, out, strides, pad_begin, pad_end, dilation;
  bool bias = false, residual = false, relu = false;  // out = relu(conv + bias + residual)

  /// Of the direct algorithm.
  double flops() const;
  std::string text() const;  // "64x56x56 -> 128, 3x3/2 pad 1"
};

/// A fused function of a model that is one convolution with this epilogue, and how often the model calls it.
struct ConvLayer {
  Ref<relay::Call> call;  // in `main`
  ConvProblem problem;
  // Parameters of the function by their place; -1: has none.
  int data = -1, weights = -1, bias = -1, residual = -1;
  std::string data_layout, weight_layout, out_layout;
  int64_t uses = 0;
};

/// Distinct layers in order of execution, each in a function of its own, poolings apart. Left out is what is
/// fused with anything else, and grouped convolutions.
std::vector<ConvLayer> find_conv_layers(const relay::Module& model, const Target& target);

/// What a layer is computed from, in the plain layouts of ConvProblem; undefined when it has none.
struct ConvValues {
  Tensor data, weights, bias, residual;
};

/// The layer as Lathe builds it into a model: a module that calls its kernel alone, on random data and the
/// model's weights, whatever the build makes of them.
class LayerModule {
 public:
  LayerModule(const ConvLayer& layer, const Target& target, const tuner::ScheduleWorkload& schedule);
  void run() { executor_->run(); }
  ConvValues values() const;
  Tensor output() const;  // plain, NCHW

 private:
  const ConvLayer& layer_;
  std::unique_ptr<runtime::Executor> executor_;
  std::vector<Tensor> arguments_;  // of the function
};

}  // namespace lathe::bench
