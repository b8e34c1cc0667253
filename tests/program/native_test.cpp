// Native code of programs that the compiler did not make, and arithmetic at its edges: as the virtual
// machine.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/codegen/host_target.h"
#include "core/codegen/program.h"
#include "core/runtime/program/machine.h"
#include "core/runtime/shared_object.h"
#include "core/runtime/thread_pool.h"
#include "tests/runtime/changed_programs.h"

namespace lathe::runtime {
namespace {

/// A program and its native code.
class Native {
 public:
  explicit Native(const Program& program) : loaded_{.program = program} {
    const std::vector<codegen::Object> objects{codegen::compile_program(program, {}, codegen::host_target())};
    library_.emplace(codegen::link(objects, codegen::host_target()).bytes);
    loaded_.native = static_cast<const LatheNativeProgram*>(library_->find(kNativeSymbol));
  }

  /// Kind and number of main's value, or the error; nothing may be left of it.
  std::string result(const std::vector<Tensor>& args, RunBy by) const {
    Machine machine(loaded_, serial_parallel(), by);
    std::string text;
    try {
      std::vector<Datum> given;
      for (const Tensor& arg : args) given.push_back(machine.copy(arg));
      const Datum value = machine.call(loaded_.program.main, given);
      text = fmt::format("{} {} {}", static_cast<int>(value.kind), value.tag,
                         value.kind == Kind::kNumber ? value.number.integer : 0);
      machine.heap().release(value);
      machine.heap().free_cycles();
    } catch (const Error& error) {
      text = error.what();
    }
    EXPECT_EQ(machine.heap().used_bytes(), 0) << text;
    return text;
  }

 private:
  LoadedProgram loaded_;
  std::optional<SharedObject> library_;
};

TEST(NativeCode, FailsWhereTheVirtualMachineDoes) {
  std::mt19937_64 random(1);
  int failed = 0, ran = 0;
  while (ran < 300) {
    Program program = changed_program(random);
    if (has_calls(program)) continue;
    // Functions of many registers keep them in their frames.
    if (ran % 2 == 1)
      for (CodeFunction& function : program.functions) function.registers += 64;
    try {
      check_program(program, Plan());
    } catch (const Error&) {
      continue;
    }
    ++ran;
    const std::vector<Tensor> args{tensor_of<int32_t>({static_cast<int32_t>(random() % 9) - 4}, {}, kInt32)};
    const Native native(program);
    const std::string expected = native.result(args, RunBy::kInstructions);
    failed += expected.starts_with("module: ");
    EXPECT_EQ(native.result(args, RunBy::kBest), expected) << program_text(program);
  }
  EXPECT_GT(failed, 8);
}

/// A function of two numbers for each operator and type, called on numbers at the ends of their types.
TEST(NativeCode, ComputesAsTheVirtualMachine) {
  const std::vector<double> ends{
      0, 1, -1, 2, 3, 7, -8, 100, 127, -128, 255, 1e9, -2147483648.0, 4294967295.0, 0.5, -2.5, 1e300};
  const DataType types[] = {kBool,   kInt8,   kInt16,  kInt32,   kInt64,  kUInt8,
                            kUInt16, kUInt32, kUInt64, kFloat32, kFloat64};
  Program program;
  struct Row {
    DataType dtype;
    int args;
    bool select;
  };
  std::vector<Row> rows;
  auto add = [&](ScalarOp op, DataType dtype, int64_t number) {
    const int args = scalar_op_args(op);
    CodeFunction function{.name = std::string(scalar_op_name(op)), .params = args, .registers = args + 1};
    Instruction one{.op = Opcode::kScalar, .scalar = op, .dtype = dtype, .number = number, .results = {args}};
    for (int32_t k = 0; k < args; ++k) one.args.push_back(k);
    function.code = {one, {.op = Opcode::kReturn, .args = {args}}};
    program.functions.push_back(function);
    rows.push_back({dtype, args, op == ScalarOp::kSelect});
  };
  for (int op = 0; op <= static_cast<int>(kLastScalarOp); ++op)
    for (DataType dtype : types) {
      const auto each = static_cast<ScalarOp>(op);
      if (find_scalar_op(scalar_op_name(each), dtype) != each) continue;
      if (each != ScalarOp::kCast) add(each, dtype, 0);
      for (int64_t to = 0; each == ScalarOp::kCast && dtype_of_number(to); ++to) add(each, dtype, to);
    }
  check_program(program, Plan());
  const codegen::Object object = codegen::compile_program(program, {}, codegen::host_target());
  const SharedObject library(codegen::link(std::span(&object, 1), codegen::host_target()).bytes);
  LoadedProgram loaded{.program = program};
  loaded.native = static_cast<const LatheNativeProgram*>(library.find(kNativeSymbol));
  Machine native(loaded, serial_parallel()), machine(loaded, serial_parallel(), RunBy::kInstructions);
  ASSERT_TRUE(native.is_native());

  auto number = [](double x, DataType dtype) {
    return Datum::of(dtype, cast_number(kFloat64, dtype, {.real = x}));
  };
  std::vector<double> of_reals = ends;
  of_reals.insert(of_reals.end(), {std::numeric_limits<double>::infinity(), std::nan("")});
  for (size_t f = 0; f < rows.size(); ++f) {
    const std::vector<double>& numbers = rows[f].dtype.is_float() ? of_reals : ends;
    for (double a : numbers)
      for (double b : numbers) {
        std::vector<Datum> args{number(a, rows[f].dtype), number(b, rows[f].dtype)};
        if (rows[f].select) args.insert(args.begin(), number(a > b, kBool));
        args.resize(static_cast<size_t>(rows[f].args));
        const Datum found = native.call(static_cast<int64_t>(f), args),
                    expected = machine.call(static_cast<int64_t>(f), args);
        EXPECT_EQ(found.tag, expected.tag);
        const bool both_nan =
            expected.dtype().is_float() && std::isnan(expected.number.real) && std::isnan(found.number.real);
        EXPECT_TRUE(both_nan || found.number.integer == expected.number.integer)
            << program.functions[f].name << " of " << to_string(rows[f].dtype) << " " << a << " and " << b;
      }
  }
}

}  // namespace
}  // namespace lathe::runtime
