// Runs a module: binds inputs and outputs, calls the kernels of the plan in order.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/runtime/module_file.h"
#include "core/runtime/pages.h"
#include "core/runtime/program/machine.h"
#include "core/runtime/turns.h"

namespace lathe::runtime {

/// One running instance of a module, with an arena allocated once: run() does not allocate. Not thread-safe;
/// make one executor a thread and let them share the module.
///
/// Where the module leaves dimensions open, they are those of the inputs that are set: the first run after
/// they changed works out the sizes, and makes the arena larger where it has to be (never where all
/// dimensions have upper bounds); further runs with the same dimensions allocate nothing.
class Executor {
 public:
  /// REQUIRES: `parallel` (a ThreadPool's, or serial_parallel()) lives as long as the executor.
  Executor(std::shared_ptr<const Module> module, const LatheParallel* parallel);

  /// Binds input i: kernels read the caller's memory, or a copy that each run makes when it is misaligned. So
  /// later changes of the data are seen by the next run. Throws Error when shape or element type differ from
  /// the plan's. Whether open dimensions fit those of the other inputs check_bindings() finds out.
  void set_input(size_t i, Tensor tensor);
  /// Throws Error where set_input() of such a tensor would, before there is one.
  void require_input(size_t i, std::span<const int64_t> shape, DataType dtype) const;
  /// Binds output i: kernels write to the caller's memory, or each run copies to it at its end (when it is
  /// misaligned, and for an output that is an input, a constant, or the same tensor as another bound output).
  /// An undefined tensor takes the binding back. Throws Error as set_input() does.
  void set_output(size_t i, Tensor tensor);
  /// The library function that the module's program calls by this name. Throws Error when it calls none such.
  void set_function(const std::string& name, LibraryFunction function);
  /// What set_function() is to give, before a run.
  std::span<const std::string> library_functions() const { return module_->library_functions(); }
  /// What run() does first. Throws Error when an input or a library function is not set, or when the memory
  /// of a bound output overlaps that of an input or of another output; and where the shapes of inputs and
  /// bound outputs do not fit each other, or the model.
  void check_bindings();
  /// Sets the open dimensions, in the order of the plan: for asking what shapes inputs and outputs have then.
  /// A run takes those of its inputs all the same. Throws Error as bind_dims() does (plan_dims.h).
  void set_dims(std::span<const int64_t> dims);
  /// Throws Error as check_bindings() does, or when a kernel reports a failed check.
  void run();
  /// The calls that run_timed() tells apart: those of kernels by the plan, or by a program's plans, one after
  /// another, then the program's library functions. One run may make some often and others not at all.
  struct PlannedStep {
    const std::string* name;  // the kernel's; like all here of the module, which lives on
    const Plan* plan;         // null: a library function
    const Step* step;
  };
  std::vector<PlannedStep> steps() const;
  /// run(), adding the nanoseconds that steps()[i] took to spent[i], and how often it ran to calls[i], where
  /// that is asked for.
  void run_timed(std::span<int64_t> spent, std::span<int64_t> calls = {});
  /// Output i where it is bound, else in the memory of the arena (or of the input, constant or bound output
  /// it is), which the next run overwrites.
  Tensor output(size_t i) const;

  /// The module's plan; where it has open dimensions, with the numbers that these have, once they are set.
  const Plan& plan() const { return bound_ ? *bound_ : module_->plan(); }
  /// What a program has taken for its values and kernels; nothing for a graph, whose plan says it.
  std::optional<int64_t> program_bytes() const {
    return machine_ ? std::optional(machine_->held_bytes()) : std::nullopt;
  }

 private:
  struct Input {
    Tensor bound;  // undefined: not set
    Tensor read;   // by kernels: the same, or an aligned copy
  };
  struct Output {
    std::vector<size_t> arguments;  // output_arguments() of it
    Tensor bound;                   // undefined: not set
    bool direct = false;            // kernels write to `bound`
  };

  const Value& value_of(const Port& port) const { return plan().values[static_cast<size_t>(port.value)]; }
  void* address(int64_t value) const;
  bool has_open_dims() const { return !module_->plan().dims.empty(); }
  void follow_inputs();
  void place_values();
  const Output* same_tensor(const Output& output) const;
  void refuse_overlaps() const;
  void place_outputs();
  void copy_inputs();
  void copy_outputs();
  void call(size_t step);
  void run_program();
  std::vector<void*> places_of_outputs(std::span<const std::vector<int64_t>> shapes);

  std::shared_ptr<const Module> module_;
  Turns turns_;
  RoomyPages arena_;
  std::unique_ptr<Machine> machine_;  // of a module with a program
  std::optional<Plan> bound_;         // for dims_; nothing without open dimensions, and before they are set
  std::vector<int64_t> dims_, next_dims_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  bool checked_ = false;              // the bindings, since they changed
  std::vector<void*> buffers_;        // the arguments of all steps, one after another
  std::vector<size_t> first_buffer_;  // where those of step i begin
  std::vector<size_t> running_;       // the steps that these dimensions make run
};

/// Binds seeded random tensors to all inputs.
void set_random_inputs(Executor& executor, uint64_t seed);

}  // namespace lathe::runtime
