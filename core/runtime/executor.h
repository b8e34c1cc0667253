// Runs a module: binds inputs, calls the kernels of the plan in order, hands out outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/runtime/module_file.h"

namespace lathe::runtime {

/// One running instance of a module, with an arena allocated once: run() does not allocate. Not thread-safe;
/// make one executor a thread and let them share the module.
class Executor {
 public:
  /// REQUIRES: `parallel` (a ThreadPool's, or serial_parallel()) lives as long as the executor.
  Executor(std::shared_ptr<const Module> module, const LatheParallel* parallel);

  /// Binds input i without copying (unless misaligned): later changes of the data are seen by the next run.
  /// Throws Error when shape or element type differ from the plan's.
  void set_input(size_t i, Tensor tensor);
  /// Throws Error when an input is not set, or a kernel reports a failed check.
  void run();
  /// run(), adding the nanoseconds that step i took to spent[i].
  void run_timed(std::span<int64_t> spent);
  /// Output i, in the memory of the arena (or of the input or constant it is): the next run overwrites it.
  Tensor output(size_t i) const;

  const Plan& plan() const { return module_->plan(); }

 private:
  void* address(const Value& value, size_t index) const;
  void require_inputs() const;
  void call(size_t step);

  std::shared_ptr<const Module> module_;
  const LatheParallel* parallel_;
  std::shared_ptr<void> arena_;
  std::vector<Tensor> inputs_;
  std::vector<void*> buffers_;        // the arguments of all steps, one after another
  std::vector<size_t> first_buffer_;  // where those of step i begin
};

/// Binds seeded random tensors to all inputs.
void set_random_inputs(Executor& executor, uint64_t seed);

}  // namespace lathe::runtime
