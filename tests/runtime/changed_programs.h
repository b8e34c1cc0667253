// A program by hand, and what is left of it when a few of its numbers are changed.
#pragma once

#include <random>

#include "core/runtime/program/scalar.h"

namespace lathe::runtime {

/// main(x): match (Some(x + x)) { None => x, Some(y) => if (y < x) { 0 - y } else { closure of y }() }
inline Program example_program() {
  Program program;
  program.constructors = {{"None", 0}, {"Some", 1}};
  program.messages = {"no clause matches"};
  program.functions.resize(2);
  CodeFunction& main = program.functions[0];
  main = {.name = "main", .params = 1, .registers = 3};
  main.code = {
      {.op = Opcode::kScalar, .scalar = ScalarOp::kAdd, .dtype = kInt32, .results = {1}, .args = {0, 0}},
      {.op = Opcode::kData, .number = 1, .results = {1}, .args = {~1}},
      {.op = Opcode::kSwitch, .number = 0, .args = {1}, .targets = {3, 4}},
      {.op = Opcode::kReturn, .args = {0}},
      {.op = Opcode::kField, .number = 0, .results = {1}, .args = {~1}},
      {.op = Opcode::kScalar, .scalar = ScalarOp::kLess, .dtype = kInt32, .results = {2}, .args = {1, 0}},
      {.op = Opcode::kBranch, .args = {2}, .targets = {9}},
      {.op = Opcode::kScalar, .scalar = ScalarOp::kNegative, .dtype = kInt32, .results = {1}, .args = {~1}},
      {.op = Opcode::kReturn, .args = {~1}},
      {.op = Opcode::kClosure, .number = 1, .results = {1}, .args = {~1}},
      {.op = Opcode::kTailCallClosure, .args = {~1}},
  };
  program.functions[1] = {.name = "inner", .captured = 1, .registers = 2};
  program.functions[1].code = {
      {.op = Opcode::kCaptured, .number = 0, .results = {0}},
      {.op = Opcode::kNewReference, .results = {1}, .args = {~0}},
      {.op = Opcode::kRead, .results = {0}, .args = {~1}},
      {.op = Opcode::kReturn, .args = {~0}},
  };
  return program;
}

/// The example with one to three changes, most of which make no program of it.
inline Program changed_program(std::mt19937_64& random) {
  auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  Program program = example_program();
  for (size_t changes = 1 + below(3); changes > 0; --changes) {
    std::vector<Instruction>& code = program.functions[below(2)].code;
    Instruction& one = code[below(code.size())];
    auto small = [&] { return static_cast<int32_t>(below(8)) - 4; };
    switch (below(7)) {
      case 0:
        one.op = static_cast<Opcode>(below(static_cast<size_t>(kLastOpcode) + 1));
        break;
      case 1:
        one.number = small();
        break;
      case 2:
        if (!one.args.empty()) one.args[below(one.args.size())] = small();
        break;
      case 3:
        if (!one.results.empty()) one.results[0] = small();
        break;
      case 4:
        if (!one.targets.empty()) one.targets[below(one.targets.size())] = static_cast<int32_t>(below(13));
        break;
      case 5:
        one.sized = static_cast<SizedOp>(below(static_cast<size_t>(kLastSizedOp) + 1));
        break;
      default:
        one.scalar = static_cast<ScalarOp>(below(static_cast<size_t>(kLastScalarOp) + 1));
    }
  }
  return program;
}

/// Whether it may run for ever.
inline bool has_calls(const Program& program) {
  for (const CodeFunction& function : program.functions)
    for (const Instruction& each : function.code)
      if (each.op == Opcode::kCall || each.op == Opcode::kTailCall || each.op == Opcode::kSelf) return true;
  return false;
}

}  // namespace lathe::runtime
