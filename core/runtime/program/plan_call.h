// A plan of a program, ready to be called on any tensors: what of its kernels' arguments stays, and what each
// call sets.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/program/program.h"
#include "core/runtime/turns.h"

namespace lathe::runtime {

/// A plan with its code and constants, as a module has loaded them.
struct LoadedPlan {
  const Plan* plan = nullptr;
  std::vector<LatheKernel> kernels;  // one a step
  std::vector<void*> constants;      // one a value; null elsewhere
};

/// A plan whose dimensions are open has numbers for those of the last inputs (bind()): calls with the same
/// ones pay nothing.
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

  /// REQUIRES: `loaded` and `parallel` outlive this.
  PlanCall(const LoadedPlan& loaded, const LatheParallel* parallel)
      : loaded_(&loaded), turns_(*loaded.plan, parallel, Turns::Runs::kAgainAndAgain) {}

  bool is_open() const { return !loaded_->plan->dims.empty(); }
  /// The plan of numbers. REQUIRES: bind(), where dimensions are open.
  const Plan& plan() const { return numbers_ ? *bound_ : *loaded_->plan; }
  bool has_numbers() const { return !is_open() || numbers_; }
  using Shapes = std::span<const std::vector<int64_t>* const>;
  /// Whether the shapes are of the ranks of the inputs.
  bool fits(Shapes shapes) const;
  /// Works out the plan for inputs of these shapes. Throws Error where they do not fit; then the plan has no
  /// numbers. REQUIRES: open dimensions; shapes that fit.
  void bind(Shapes shapes);
  /// Says where the arena is, whenever that or the numbers are new. REQUIRES: numbers; memory of the plan's
  /// arena_bytes, which outlives this.
  void place(char* arena);

  std::span<const Result> results() const { return results_; }
  /// Memory of inputs, aligned, and of the results that are kOwn (null for the others). Throws Error when a
  /// kernel reports a failed check. Adds the nanoseconds of step i to spent[i], where clocks are wanted.
  void run(void* const* inputs, void* const* results, std::span<int64_t> spent);
  size_t steps() const { return loaded_->plan->steps.size(); }
  /// Whether the step runs with these numbers.
  bool runs(size_t step) const { return plan().steps[step].when != 0; }

 private:
  struct Patch {
    size_t buffer, number;
  };
  /// A step that runs with these numbers: of a family's kernels there are several that do not.
  struct Running {
    LatheKernel kernel;
    size_t first_buffer;
    void* workspace;
    const Step* step;
  };
  void place_results(char* arena);

  const LoadedPlan* loaded_;
  Turns turns_;
  std::optional<Plan> bound_;  // of the last bind(), which takes its memory over
  bool numbers_ = false;       // and has succeeded
  std::vector<int64_t> dims_;
  std::vector<Running> running_;
  std::vector<void*> buffers_;       // the arguments of all steps, one after another
  std::vector<Patch> inputs_, own_;  // which of them each call sets
  std::vector<Result> results_;
  std::vector<std::vector<size_t>> arguments_;  // one a result: output_arguments()
};

}  // namespace lathe::runtime
