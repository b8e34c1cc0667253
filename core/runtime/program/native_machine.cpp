// The machine as native code sees it: its functions, and the way in and out.
#include <algorithm>
#include <cstring>

#include "core/runtime/program/machine.h"
#include "core/support/error.h"

namespace lathe::runtime {
namespace {

LatheNativeFrame& head(Datum* frame) { return *reinterpret_cast<LatheNativeFrame*>(frame); }

}  // namespace

/// What native code calls. Exceptions stop here: its frames have no tables to unwind them by.
struct Machine::NativeCalls {
  static Machine& machine(LatheNativeMachine* native) { return *static_cast<Native*>(native)->machine; }

  /// The action's value, or `otherwise` and the error kept.
  template <typename T, typename Action>
  static T guarded(LatheNativeMachine* native, T otherwise, Action action) noexcept {
    try {
      return action();
    } catch (...) {
      static_cast<Native*>(native)->error = std::current_exception();
      return otherwise;
    }
  }

  static std::string message(const Machine& machine, const LatheNativeReturn& at, int32_t failure,
                             int64_t number) {
    const Program& program = machine.program_;
    if (failure == kLatheMessage) return program.messages[static_cast<size_t>(number)];
    if (failure == kLatheDepth) return fmt::format("calls nest more than {} deep", kMaxCalls);
    return fmt::format("module: instruction {} of {}: {}", at.instruction,
                       program.functions[static_cast<size_t>(at.function)].name, kFaultTexts[number]);
  }

  static int32_t failed(LatheNativeMachine* native, Datum* frame, const LatheNativeReturn* at,
                        int32_t failure, int64_t number) {
    Machine& m = machine(native);
    if (failure != kLatheKept)
      guarded(native, 0, [&]() -> int { throw Error(message(m, *at, failure, number)); });
    while (at->function >= 0) {
      for (int32_t i = 0; i < at->held_count; ++i) m.heap_.release(frame[1 + at->held[i]]);
      m.heap_.release(Datum::of(Kind::kClosure, 0, head(frame).closure));
      at = head(frame).caller;
      frame -= 1 + at->registers;
    }
    return 1;
  }

  static Datum* grow(LatheNativeMachine* native, Datum* frame) {
    Machine& m = machine(native);
    return guarded(native, static_cast<Datum*>(nullptr), [&] {
      const auto at = static_cast<size_t>(frame - m.stack_.get());
      m.reserve(at + 3 * m.largest_frame_);
      m.use_native_stack();
      return m.stack_.get() + at;
    });
  }

  static Object* make(LatheNativeMachine* native, int32_t kind, int64_t parts) {
    return guarded(native, static_cast<Object*>(nullptr), [&] {
      return machine(native).heap_.make(static_cast<Kind>(kind), static_cast<size_t>(parts));
    });
  }

  static Object* make_reference(LatheNativeMachine* native, const Datum* value) {
    return guarded(native, static_cast<Object*>(nullptr), [&] {
      Heap& heap = machine(native).heap_;
      heap.maybe_free_cycles();
      return &heap.make_reference(*value)->head;
    });
  }

  /// The instruction that native code is at.
  static const Instruction& instruction(const Machine& machine, int64_t function, int64_t number) {
    return machine.program_.functions[static_cast<size_t>(function)].code[static_cast<size_t>(number)];
  }

  /// An instruction of many results, which `run` leaves in args_.
  static int32_t run(bool (Machine::*run)(const Instruction&, std::span<const Datum>),
                     LatheNativeMachine* native, int64_t function, int64_t number, const Datum* args,
                     Datum* results) {
    Machine& m = machine(native);
    const Instruction& i = instruction(m, function, number);
    return guarded(native, static_cast<int32_t>(kLatheKept), [&]() -> int32_t {
      if (!(m.*run)(i, {args, i.args.size()})) return kLatheFault;
      std::copy(m.args_.begin(), m.args_.end(), results);
      m.args_.clear();
      return 0;
    });
  }

  static int32_t plan(LatheNativeMachine* native, int64_t function, int64_t number, const Datum* args,
                      Datum* results) {
    return run(&Machine::run_plan, native, function, number, args, results);
  }

  static int32_t library(LatheNativeMachine* native, int64_t function, int64_t number, const Datum* args,
                         Datum* results) {
    return run(&Machine::run_library, native, function, number, args, results);
  }

  static int32_t sized(LatheNativeMachine* native, int64_t function, int64_t number, const Datum* args,
                       Datum* result) {
    Machine& m = machine(native);
    const Instruction& i = instruction(m, function, number);
    return guarded(native, static_cast<int32_t>(kLatheKept), [&]() -> int32_t {
      return m.sized_at_place(i, {args, i.args.size()}, *result) ? 0 : kLatheFault;
    });
  }

  static void free_object(LatheNativeMachine* native, Object* object) {
    machine(native).heap_.destroy(object);
  }

  static uint64_t cast(int64_t from, int64_t to, uint64_t payload) {
    return std::bit_cast<uint64_t>(
        cast_number(*dtype_of_number(from), *dtype_of_number(to), std::bit_cast<Number>(payload)));
  }

  /// Where the first call returns to.
  static int32_t finish(LatheNativeMachine* native, Datum*, int64_t, uint64_t word, uint64_t payload) {
    machine(native).value_ = Datum::of(static_cast<Kind>(word & 0xff), static_cast<uint32_t>(word >> 32),
                                       std::bit_cast<Object*>(payload));
    return 0;
  }
};

void Machine::link_native() {
  if (native_code_->version != kNativeVersion ||
      native_code_->count != static_cast<int64_t>(program_.functions.size()))
    fail("the module's native code is of another version; compile the model again");
  for (const CodeFunction& function : program_.functions)
    largest_frame_ = std::max(largest_frame_, 1 + static_cast<size_t>(function.registers));
  static_cast<LatheNativeMachine&>(native_) = {
      .constants = constants_.data(),
      .free_blocks = heap_.free_blocks(),
      .used_bytes = heap_.used_counter(),
      .failed = NativeCalls::failed,
      .grow = NativeCalls::grow,
      .make = NativeCalls::make,
      .make_reference = NativeCalls::make_reference,
      .plan = NativeCalls::plan,
      .sized = NativeCalls::sized,
      .library = NativeCalls::library,
      .free_object = NativeCalls::free_object,
      .cast = NativeCalls::cast,
  };
  native_.machine = this;
  reserve(4 * largest_frame_);
  use_native_stack();
}

/// A frame looks whether its callee's begins in the stack and writes its arguments there before: room for two
/// of the largest is behind the last place where one may begin.
void Machine::use_native_stack() { native_.last_frame = stack_.get() + (stack_size_ - 2 * largest_frame_); }

/// The call of a function on args_.
Datum Machine::start_native(int64_t function) {
  static const LatheNativeReturn kFinish = {.code = NativeCalls::finish, .function = -1};
  Datum* frame = stack_.get();
  head(frame) = {&kFinish, nullptr};
  std::copy(args_.begin(), args_.end(), frame + 1);
  uint64_t words[2] = {};
  if (!args_.empty()) std::memcpy(words, &args_[0], sizeof words);
  args_.clear();
  native_.calls_left = static_cast<int64_t>(kMaxCalls) - 1;
  if (native_code_->functions[function].code(&native_, frame, 0, words[0], words[1]) != 0)
    std::rethrow_exception(std::exchange(native_.error, nullptr));
  return std::exchange(value_, Datum());
}

}  // namespace lathe::runtime
