// Runs programs: by their native code, or by a virtual machine of explicit activations.
#pragma once

#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/runtime/pages.h"
#include "core/runtime/program/library.h"
#include "core/runtime/program/native.h"
#include "core/runtime/program/plan_call.h"

namespace lathe::runtime {

/// A program with its code and constants, as a module has loaded them.
struct LoadedProgram {
  Program program;
  std::vector<LoadedPlan> plans;
  std::vector<void*> constants;                // one each
  const LatheNativeProgram* native = nullptr;  // its functions as machine code, where the module has it
};

/// What a machine runs.
enum class RunBy : uint8_t {
  kBest,          // the native code, where there is some
  kInstructions,  // the virtual machine, in any case
};

/// How deep calls may nest that are not in tail position.
inline constexpr size_t kMaxCalls = 10'000'000;

/// Recursion takes memory and no stack, a call in tail position neither. Values are freed when their last
/// register is done with them; once a loop runs, it allocates nothing. Tensors of rank 0 are numbers in
/// registers. Not thread-safe: one machine a thread, of one loaded program.
class Machine {
 public:
  /// REQUIRES: the program is checked; it and `parallel` outlive the machine.
  Machine(const LoadedProgram& loaded, const LatheParallel* parallel, RunBy by = RunBy::kBest);
  ~Machine();
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  /// Where the outputs are to be copied, once their shapes are known.
  using PlaceOutputs = FunctionRef<std::vector<void*>(std::span<const std::vector<int64_t>> shapes)>;
  /// Runs the entry on the inputs, aligned, and copies its outputs, of these element types. REQUIRES: memory
  /// of the shapes that the values say, one each; it is not used after the call. Throws Error when the
  /// program fails, and what `place` throws.
  void run(std::span<const Value> input_types, std::span<void* const> inputs,
           std::span<const DataType> outputs, PlaceOutputs place);

  /// The value of functions[function]; the caller releases it. Takes over the arguments. Throws Error.
  Datum call(int64_t function, std::span<const Datum> args);

  /// A value that holds memory of others (data, which must stay while the value does), or a copy of a tensor.
  Datum borrow(const Value& type, void* data);
  Datum copy(const Tensor& tensor);
  /// The tensor of a number or a tensor, copied.
  Tensor tensor(const Datum& datum) const;

  Heap& heap() { return heap_; }
  /// The memory of values, and of what plans work in: as much as was ever needed at once.
  int64_t held_bytes() const { return heap_.held_bytes() + arena_.bytes; }
  bool is_native() const { return native_code_ != nullptr; }

  /// What calls of program.library_functions[number] call from now on. A call of one that is not set is an
  /// Error.
  void set_library(size_t number, LibraryFunction function);
  const LibraryFunction& library(size_t number) const { return libraries_.at(number); }

  /// From now on adds the nanoseconds of each step of the plans, all plans' one after another, then of each
  /// library function, to spent[i], and one to calls[i], where that is not empty; of none it stops.
  void set_clocks(std::span<int64_t> spent, std::span<int64_t> calls) { spent_ = spent, calls_ = calls; }

 private:
  struct TensorType {
    std::vector<int64_t> shape;
    DataType dtype;
    int64_t bytes;
  };
  struct LinkedPlan {
    PlanCall call;
    std::vector<uint32_t> inputs, outputs;  // numbers of types; with open dimensions, those of the last call
    size_t first_step = 0;                  // among those of all plans
  };
  /// The number of no type.
  static constexpr uint32_t kNoType = UINT32_MAX;
  /// A call under way. The next instruction is kept here while it waits for another.
  struct Frame {
    int64_t function;
    size_t base;  // of its registers
    Object* closure;
    const Instruction* next;
  };

  uint32_t type_number(const std::vector<int64_t>& shape, DataType dtype);
  uint32_t type_number(const Value& value) { return type_number(value.shape, value.dtype); }
  bool is_type(uint32_t number, const Value& value) const {
    return number < types_.size() && types_[number].dtype == value.dtype &&
           types_[number].shape == value.shape;
  }
  void forget_types();
  void link(const LoadedProgram& loaded, const LatheParallel* parallel);
  void make_arena(int64_t needed, int64_t wished);

  const CodeFunction& function() const;
  [[noreturn]] void fault(Fault what) const;
  const Datum& peek(int32_t arg) const { return registers_[arg < 0 ? ~arg : arg]; }
  Datum take(int32_t arg);
  void done(int32_t arg);
  void set(int32_t result, Datum value);
  void gather(std::span<const int32_t> args);

  void copy_outputs(const Datum& result, std::span<const DataType> outputs, PlaceOutputs place);
  Datum start(int64_t function);
  void step(const Instruction& i);
  void jump(const Instruction& i, size_t target) { next_ = code_ + i.targets[target]; }
  void scalar(const Instruction& i);
  void sized_step(const Instruction& i);
  bool sized_at_place(const Instruction& i, std::span<const Datum> args, Datum& result);
  bool sized(const Instruction& i, std::span<const Datum> args, Datum& result);
  Datum view_of(const Datum& whole, const std::vector<int64_t>& shape, DataType dtype);
  void field(const Instruction& i);
  void aggregate(const Instruction& i, Kind kind);
  void captured(const Instruction& i);
  void reference(const Instruction& i);
  void branch(const Instruction& i);

  // machine_plans.cpp
  void plan(const Instruction& i);
  bool run_plan(const Instruction& i, std::span<const Datum> inputs);
  Datum result_place(const LinkedPlan& plan, const Instruction& i, std::span<const Datum> inputs,
                     size_t number);
  bool follow_inputs(LinkedPlan& plan, std::span<const Datum> inputs);
  bool plan_input(const Datum& datum, uint32_t type, size_t number);
  Datum plan_result(const LinkedPlan& plan, std::span<const Datum> inputs, size_t number);

  // machine_library.cpp
  void library(const Instruction& i);
  bool run_library(const Instruction& i, std::span<const Datum> args);
  bool library_types(const LibraryCall& call, std::span<const Datum> sizes);
  void flatten_inputs(std::span<const Datum> args);
  void place_library_inputs(size_t results);
  void timed_library_call(size_t function);

  Datum number_or_view(uint32_t type, void* data, Object* base);
  void enter(int64_t function, Object* closure, bool in_place);
  void closure_call(const Instruction& i, bool in_place);
  void leave(const Instruction& i);
  void reserve(size_t registers);
  void use_frame();
  void unwind();

  // native_machine.cpp
  struct Native : LatheNativeMachine {
    Machine* machine = nullptr;
    std::exception_ptr error = nullptr;  // of a run that fails
  };
  struct NativeCalls;
  void link_native();
  void use_native_stack();
  Datum start_native(int64_t function);

  const Program& program_;
  Heap heap_;
  std::vector<TensorType> types_;
  std::multimap<uint64_t, uint32_t> types_by_hash_;
  size_t lasting_types_ = 0;  // the first ones: of plans and constants
  std::deque<LinkedPlan> plans_;
  std::vector<Datum> constants_;
  RoomyPages arena_;  // of all plans: they run one after another, and none leaves anything there

  std::vector<Frame> frames_;
  std::unique_ptr<Datum[]> stack_;
  size_t stack_size_ = 0;
  Datum* registers_ = nullptr;         // of the running frame
  const Instruction* code_ = nullptr;  // of its function
  const Instruction* next_ = nullptr;
  std::vector<Datum> args_;       // of a call, or the results of a plan, that is being made
  std::vector<Datum> plan_args_;  // of the plan at hand, borrowed
  std::vector<const std::vector<int64_t>*> plan_shapes_;  // of its inputs
  std::vector<int64_t> sizes_;                            // that sized() is given
  Datum value_;                                           // of the first call

  struct alignas(kAlignment) Slot {
    char bytes[kAlignment];
  };
  std::vector<Slot> slots_;  // numbers that plans and library functions read and write: inputs, then results
  std::vector<void*> plan_inputs_, plan_results_;
  std::vector<LibraryFunction> libraries_;  // of the program's library_functions
  // Of the library call at hand.
  std::vector<Datum> flat_inputs_, pending_;  // borrowed: tensors and numbers; what is to be taken apart
  std::vector<lathe_tensor> library_inputs_, library_outputs_;
  std::vector<uint32_t> library_types_;
  std::vector<int64_t> library_shape_;
  size_t steps_ = 0;  // of all plans
  std::span<int64_t> spent_, calls_;

  const LatheNativeProgram* native_code_ = nullptr;
  Native native_{};
  size_t largest_frame_ = 0;  // of the program's functions, in Datums
};

}  // namespace lathe::runtime
