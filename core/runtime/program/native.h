// The interface between a program's functions as machine code and the machine that runs them.
//
// Native code keeps the machine's values, heap and stack of registers, and does itself what the instructions
// say. A call is a jump: the caller leaves its registers in its frame, the callee jumps back to what its
// frame says. So recursion takes none of the processor's stack, and a function that is left behind can be
// unwound.
#pragma once

#include <cstddef>

#include "core/runtime/program/heap.h"

struct LatheNativeMachine;

extern "C" {

/// A function. From `state` 0 on its first argument is in `word` and `payload` (a Datum's two halves), the
/// others in their registers of the frame; where there are none both are anything. Another state is that of a
/// LatheNativeReturn: the function goes on behind a call, with its value; `frame` is then the callee's. 0, or
/// 1 when the program failed and is unwound.
typedef int32_t (*LatheNativeCode)(LatheNativeMachine* machine, lathe::runtime::Datum* frame, int64_t state,
                                   uint64_t word, uint64_t payload);

/// A place of a function where it may be left: for good, or until a call returns.
struct LatheNativeReturn {
  LatheNativeCode code;
  int64_t state;
  int32_t function;     // its number
  int32_t instruction;  // the number of the one at hand
  int32_t registers;    // of the function: the callee's frame begins behind them
  int32_t held_count;
  const int32_t* held;  // registers of the frame that have values now; the others' memory is anything
};

/// What a frame begins with, in place of a Datum; its registers follow.
struct LatheNativeFrame {
  const LatheNativeReturn* caller;
  lathe::runtime::Object* closure;  // of the call, which it owns; null where nothing is captured
};

/// Why a program ends.
enum LatheNativeFailure : int32_t {
  kLatheFault = 1,  // kFaultTexts[number]: it is not as the compiler makes it
  kLatheMessage,    // messages[number] of the program
  kLatheDepth,      // too many calls nest
  kLatheKept,       // a function of the machine failed, which knows why
};

struct LatheNativeMachine {
  lathe::runtime::Datum* last_frame;       // frames that begin behind it need a larger stack
  int64_t calls_left;                      // how many more may nest
  const lathe::runtime::Datum* constants;  // of the program
  void** free_blocks;                      // of the heap
  int64_t* used_bytes;
  /// Keeps the error, gives back what all frames hold, and gives 1.
  int32_t (*failed)(LatheNativeMachine*, lathe::runtime::Datum* frame, const LatheNativeReturn* at,
                    int32_t failure, int64_t number);
  /// The frame at its new place in a larger stack. This and the following give null, or why, when they fail.
  lathe::runtime::Datum* (*grow)(LatheNativeMachine*, lathe::runtime::Datum* frame);
  lathe::runtime::Object* (*make)(LatheNativeMachine*, int32_t kind, int64_t parts);
  /// Takes over the value when it succeeds.
  lathe::runtime::Object* (*make_reference)(LatheNativeMachine*, const lathe::runtime::Datum* value);
  /// A call of a plan, by the number of the instruction in a function. Borrows the arguments; what is used
  /// for the last time may be written over. 0, or why it failed.
  int32_t (*plan)(LatheNativeMachine*, int64_t function, int64_t instruction,
                  const lathe::runtime::Datum* args, lathe::runtime::Datum* results);
  /// An instruction of sizes, by its number in a function. Borrows the arguments. 0, or why it failed.
  int32_t (*sized)(LatheNativeMachine*, int64_t function, int64_t instruction,
                   const lathe::runtime::Datum* args, lathe::runtime::Datum* result);
  /// A call of a library function, as `plan`.
  int32_t (*library)(LatheNativeMachine*, int64_t function, int64_t instruction,
                     const lathe::runtime::Datum* args, lathe::runtime::Datum* results);
  /// Frees what nobody holds any more.
  void (*free_object)(LatheNativeMachine*, lathe::runtime::Object*);
  /// From and to types by their numbers (dtype_number).
  uint64_t (*cast)(int64_t from, int64_t to, uint64_t payload);
};

/// By its number.
struct LatheNativeFunction {
  LatheNativeCode code;
  int64_t params;
};

/// What the shared object of a module with a program exports as `lathe_program`.
struct LatheNativeProgram {
  int64_t version;  // kNativeVersion
  int64_t count;    // of functions
  const LatheNativeFunction* functions;
};
}

namespace lathe::runtime {

inline constexpr int64_t kNativeVersion = 4;
inline constexpr const char* kNativeSymbol = "lathe_program";

static_assert(sizeof(LatheNativeFrame) == sizeof(Datum));

/// What is wrong with a program that is not as the compiler makes it; kinds of values are seen as it runs.
enum class Fault : uint8_t {
  kNumberType,
  kChoiceNoBool,
  kNoPart,
  kNoCapture,
  kNoReference,
  kBranchNoBool,
  kNoSuchData,
  kTensorType,
  kNoFunction,
  kArgumentCount,
  kSized,
  kLibrary,
};
inline constexpr const char* kFaultTexts[] = {
    "a number of another type",
    "a choice by what is no boolean",
    "a part of a value that has none there",
    "a function that captures nothing",
    "a value that is no reference",
    "a branch by what is no boolean",
    "a choice by what is none of its data",
    "a tensor of another type",
    "a call of what is no function",
    "a call with another number of arguments",
    "an operator of sizes on what is no tensor, or no number",
    "a size of a library function's result that is no integer",
};
static_assert(std::size(kFaultTexts) == static_cast<size_t>(Fault::kLibrary) + 1);

}  // namespace lathe::runtime
