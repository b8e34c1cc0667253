// Runs the prologues of kernels on this machine, while a model is built.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/codegen/compile.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "core/support/tensor.h"
#include "core/tir/stmt.h"

namespace lathe::tuner {

/// Compiled prologues (core/tir/prologue.h), for this machine whatever the model is built for. Not
/// thread-safe.
class PrologueKernels {
 public:
  /// REQUIRES: the scheduled level, constant shapes, distinct names that are C identifiers. Throws Error when
  /// one cannot be compiled.
  explicit PrologueKernels(const std::vector<tir::Func>& prologues);

  /// The outputs that prologue number `index` gives for these inputs, on all cores. Elements that it does not
  /// write are 0. Throws Error when a check in it fails.
  std::vector<Tensor> run(size_t index, std::span<const Tensor> inputs) const;

 private:
  struct Prologue {
    tir::Func func;
    LatheKernel kernel;
    int64_t workspace_bytes;
  };
  std::optional<runtime::SharedObject> library_;  // none without prologues
  std::vector<Prologue> prologues_;
  std::optional<runtime::ThreadPool> pool_;
};

}  // namespace lathe::tuner
