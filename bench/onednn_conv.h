// A convolution by oneDNN. Its .cpp is the only file that calls oneDNN.
#pragma once

#include <memory>
#include <string>

#include "bench/conv_layers.h"
#include "core/support/node.h"

namespace lathe::bench {

/// The fastest of everything oneDNN has for the problem, on one thread: every implementation of every
/// algorithm (direct, Winograd, automatic) is tried for a few runs, with the layouts it asks for, into which
/// data and weights are brought beforehand, and with the epilogue fused into it.
class OneDnnConv {
 public:
  /// `evict` is called before each trial run. Throws Error when oneDNN has nothing.
  OneDnnConv(const ConvProblem& problem, const ConvValues& values, FunctionRef<void()> evict);
  ~OneDnnConv();

  void run();
  const std::string& implementation() const;  // "jit_wino_4x3:avx512_core"
  /// Of one fresh run; plain, NCHW. (With a residual, each run adds to what the last one left.)
  Tensor output();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::bench
