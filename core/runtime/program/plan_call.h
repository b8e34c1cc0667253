// A plan of a program, ready to be called on any tensors: what of its kernels' arguments stays, and what each
// call sets.
#pragma once

#include <span>
#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/program/program.h"

namespace lathe::runtime {

/// A plan with its code and constants, as a module has loaded them.
struct LoadedPlan {
  const Plan* plan = nullptr;
  std::vector<LatheKernel> kernels;  // one a step
  std::vector<void*> constants;      // one a value; null elsewhere
};

class PlanCall {
 public:
  /// Where a result is once the plan has run.
  enum class Source : uint8_t {
    kOwn,       // in the memory that the caller gave for it
    kInput,     // it is input `number`
    kConstant,  // at `address`, among the constants
    kEarlier,   // it is result `number`
    kArena,     // at `address`, until the next plan runs
  };
  struct Result {
    Source source;
    size_t number = 0;
    void* address = nullptr;
  };

  /// REQUIRES: `arena` has the plan's arena_bytes, and all outlive this.
  PlanCall(const LoadedPlan& loaded, char* arena);

  std::span<const Result> results() const { return results_; }
  /// Memory of inputs, aligned, and of the results that are kOwn (null for the others). Throws Error when a
  /// kernel reports a failed check. Adds the nanoseconds of step i to spent[i], where clocks are wanted.
  void run(void* const* inputs, void* const* results, const LatheParallel* parallel,
           std::span<int64_t> spent);
  size_t steps() const { return first_buffer_.size(); }

 private:
  struct Patch {
    size_t buffer, number;
  };
  const LoadedPlan* loaded_;
  char* arena_;
  std::vector<void*> buffers_;        // the arguments of all steps, one after another
  std::vector<size_t> first_buffer_;  // where those of step i begin
  std::vector<Patch> inputs_, own_;   // which of them each call sets
  std::vector<Result> results_;
};

}  // namespace lathe::runtime
