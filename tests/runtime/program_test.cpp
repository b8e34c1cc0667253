// Programs by hand: what the checker refuses, and that what it lets through ends in a value or an error.
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "core/runtime/program/machine.h"
#include "core/runtime/thread_pool.h"
#include "tests/runtime/changed_programs.h"
#include "tests/runtime/test_module.h"
#include "tests/thrown_by.h"

namespace lathe::runtime {
namespace {

Tensor number(int32_t value) { return tensor_of<int32_t>({value}, {}, kInt32); }

int64_t run(const Program& program, int32_t argument) {
  LoadedProgram loaded{program, {}, {}};
  Machine machine(loaded, serial_parallel());
  const std::vector<Datum> args{machine.copy(number(argument))};
  const Datum result = machine.call(program.main, args);
  const int64_t value = result.kind == Kind::kNumber ? result.number.integer : 0;
  machine.heap().release(result);
  machine.heap().free_cycles();
  EXPECT_EQ(machine.heap().used_bytes(), 0);
  return value;
}

TEST(Program, RunsAndReadsBack) {
  EXPECT_EQ(run(example_program(), 3), 6);
  EXPECT_EQ(run(example_program(), -3), 6);
  const Program again = parse_program(program_json(example_program()));
  EXPECT_EQ(program_text(again), program_text(example_program()));
  EXPECT_EQ(run(again, 3), 6);
  EXPECT_EQ(program_text(example_program()).substr(0, 92),
            "@main: 1 parameters, 0 captured, 3 registers, the entry\n"
            "    0  %1 = scalar add.int32 %0, %0\n");
}

TEST(Program, HostileOnesAreRefused) {
  struct Case {
    const char* message;
    std::function<void(Program&)> change;
  };
  auto code = [](Program& p) -> std::vector<Instruction>& { return p.functions[0].code; };
  const Case cases[] = {
      {"instruction 0 of main: a register without a value", [&](Program& p) { code(p)[0].args[1] = 2; }},
      {"instruction 0 of main: a register without a value", [&](Program& p) { code(p)[0].args[1] = 99; }},
      {"instruction 0 of main: a register that there is not", [&](Program& p) { code(p)[0].results[0] = 3; }},
      {"instruction 0 of main: a register that there is not",
       [&](Program& p) { code(p)[0].results[0] = -1; }},
      {"instruction 4 of main: a register without a value", [&](Program& p) { code(p)[2].args[0] = ~1; }},
      {"instruction 1 of main: a number out of range", [&](Program& p) { code(p)[1].number = 2; }},
      {"instruction 1 of main: another number of items than the constructor has",
       [&](Program& p) { code(p)[1].number = 0; }},
      {"instruction 2 of main: a choice of more constructors than there are",
       [&](Program& p) { code(p)[2].number = 1; }},
      {"instruction 2 of main: a target that is not ahead", [&](Program& p) { code(p)[2].targets[0] = 2; }},
      {"instruction 2 of main: a target that is not ahead", [&](Program& p) { code(p)[2].targets[0] = 11; }},
      {"instruction 3 of main: code that nothing leads to", [&](Program& p) { code(p)[2].targets[0] = 4; }},
      {"instruction 4 of main: a number out of range", [&](Program& p) { code(p)[4].number = -1; }},
      {"instruction 6 of main: another number of results, arguments or targets",
       [&](Program& p) { code(p)[6].targets.clear(); }},
      {"instruction 0 of main: an operator that there is not on such numbers",
       [&](Program& p) { code(p)[0].scalar = ScalarOp::kAnd; }},
      {"instruction 0 of main: an operator that there is not on such numbers",
       [&](Program& p) { code(p)[0].dtype = kHandle; }},
      {"instruction 9 of main: another number of captured values than the function has",
       [&](Program& p) { code(p)[9].args.clear(); }},
      {"instruction 0 of inner: a number out of range",
       [&](Program& p) { p.functions[1].code[0].number = 1; }},
      {"instruction 11 of main: the code does not end", [&](Program& p) { code(p)[10] = code(p)[0]; }},
      {"instruction 0 of main: an operator of sizes with another number of arguments",
       [&](Program& p) { code(p)[0].op = Opcode::kSized; }},
      {"instruction 0 of main: a number out of range",
       [&](Program& p) {
         code(p)[0].op = Opcode::kSized, code(p)[0].sized = SizedOp::kFirstRows, code(p)[0].number = 1;
       }},
      {"instruction 0 of main: zeros of no type",
       [&](Program& p) {
         code(p)[0].op = Opcode::kSized, code(p)[0].sized = SizedOp::kZerosOf, code(p)[0].dtype = kHandle;
       }},
      {"instruction 0 of main: a number out of range", [&](Program& p) { code(p)[0].op = Opcode::kLibrary; }},
      {"instruction 0 of main: another number of arguments or results than the library call has",
       [&](Program& p) {
         p.library_functions = {"f"};
         p.library_calls = {{0, 2, {{kInt32, {-1}}}, ""}};
         code(p)[0].op = Opcode::kLibrary;
       }},
      {"a library call of function 0 with 1 inputs",
       [&](Program& p) {
         p.library_calls = {{0, 1, {}, ""}};
       }},
      {"a library call of function 0 with -1 inputs",
       [&](Program& p) {
         p.library_functions = {"f"};
         p.library_calls = {{0, -1, {}, ""}};
       }},
      {"a library call whose result is no tensor",
       [&](Program& p) {
         p.library_functions = {"f"};
         p.library_calls = {{0, 1, {{kInt32, {-2}}}, ""}};
       }},
      {"a library call whose result is no tensor",
       [&](Program& p) {
         p.library_functions = {"f"};
         p.library_calls = {{0, 1, {{kHandle, {}}}, ""}};
       }},
      {"main has 1 parameters, 0 captured values, 0 registers",
       [&](Program& p) { p.functions[0].registers = 0; }},
      {"the program has no entry", [&](Program& p) { p.entry = 1; }},
      {"the program has no entry", [&](Program& p) { p.main = 2; }},
      {"a constant of 4 bytes lies at 0 of 0 bytes",
       [&](Program& p) {
         p.constants.push_back({{}, kInt32, Place::kConstant, 0});
       }},
      {"a plan of 64 bytes of constants, there are 0",
       [&](Program& p) { p.plans.emplace_back().constant_bytes = 64; }},
  };
  check_program(example_program(), Plan());
  for (const Case& each : cases) {
    Program program = example_program();
    each.change(program);
    EXPECT_EQ(thrown_by([&] { check_program(program, Plan()); }), std::string("module: ") + each.message);
  }
}

/// Results are copied to where the module's plan has its outputs.
TEST(Program, WritesNoInputAndNoConstant) {
  Plan plan = test_image().plan;
  std::swap(plan.outputs[1], plan.outputs[2]);
  EXPECT_EQ(thrown_by([&] { check_program(example_program(), plan); }),
            "module: the program writes output `c` over an input or a constant");
  plan.outputs.erase(plan.outputs.begin() + 1);
  EXPECT_EQ(thrown_by([&] { check_program(example_program(), plan); }),
            "module: the program writes output `x` over an input or a constant");
  plan.outputs.erase(plan.outputs.begin() + 1);
  check_program(example_program(), plan);
}

/// Kinds of values are checked where they are used.
TEST(Program, OfWrongKindsFailsAsItRuns) {
  Program program = example_program();
  program.functions[0].code[4].args[0] = 0;
  check_program(program, Plan());
  EXPECT_EQ(thrown_by([&] { run(program, 1); }),
            "module: instruction 4 of main: a part of a value that has none there");
  program = example_program();
  program.functions[0].code[5].args[1] = ~0;
  program.functions[0].code[5].dtype = kInt64;
  check_program(program, Plan());
  EXPECT_EQ(thrown_by([&] { run(program, 1); }), "module: instruction 5 of main: a number of another type");
}

/// Any change of a few numbers is refused, or ends in an error or a value. Without calls: those may not end.
TEST(Program, ChangedAtRandomDoesNoHarm) {
  std::mt19937_64 random(1);
  int ran = 0;
  for (int i = 0; i < 20000; ++i) {
    const Program program = changed_program(random);
    if (has_calls(program)) continue;
    try {
      check_program(program, Plan());
      ++ran;
      run(program, static_cast<int32_t>(random() % 9) - 4);
    } catch (const Error&) {
    }
  }
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace lathe::runtime
