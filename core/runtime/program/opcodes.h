// What each instruction is called in text, and what it must have.
#pragma once

#include <iterator>
#include <string_view>

#include "core/runtime/program/program.h"
#include "core/support/in_order.h"

namespace lathe::runtime {

/// In place of a count: any number.
inline constexpr int kAny = -1;

struct OpcodeRow {
  Opcode id;
  std::string_view name;
  int results, args, targets;  // how many of each
  bool ends = false;           // what stands behind it is not gone on with
};

// clang-format off
inline constexpr OpcodeRow kOpcodes[] = {
    // Values.
    {Opcode::kConstant, "constant", 1, 0, 0},
    {Opcode::kCopy, "copy", 1, 1, 0},
    {Opcode::kPlan, "plan", kAny, kAny, 0},
    {Opcode::kLibrary, "library", kAny, kAny, 0},
    {Opcode::kScalar, "scalar", 1, kAny, 0},
    {Opcode::kSized, "sized", 1, kAny, 0},
    {Opcode::kTuple, "tuple", 1, kAny, 0},
    {Opcode::kField, "field", 1, 1, 0},
    {Opcode::kData, "data", 1, kAny, 0},
    {Opcode::kClosure, "closure", 1, kAny, 0},
    {Opcode::kCaptured, "captured", 1, 0, 0},
    {Opcode::kSelf, "self", 1, 0, 0},
    {Opcode::kNewReference, "ref", 1, 1, 0},
    {Opcode::kRead, "read", 1, 1, 0},
    {Opcode::kWrite, "write", 1, 2, 0},
    // Where it goes on.
    {Opcode::kBranch, "branch", 0, 1, 1},
    {Opcode::kSwitch, "switch", 0, 1, kAny, true},
    {Opcode::kJump, "jump", 0, 0, 1, true},
    {Opcode::kCall, "call", 1, kAny, 0},
    {Opcode::kCallClosure, "call_closure", 1, kAny, 0},
    {Opcode::kTailCall, "tail_call", 0, kAny, 0, true},
    {Opcode::kTailCallClosure, "tail_call_closure", 0, kAny, 0, true},
    {Opcode::kReturn, "return", 0, 1, 0, true},
    {Opcode::kFail, "fail", 0, 0, 0, true},
};
// clang-format on

static_assert(in_order(kOpcodes) && std::size(kOpcodes) == static_cast<size_t>(kLastOpcode) + 1);

constexpr const OpcodeRow& row_of(Opcode op) { return kOpcodes[static_cast<size_t>(op)]; }

}  // namespace lathe::runtime
