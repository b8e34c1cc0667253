// Library functions of a host: native code, the virtual machine and the interpreter call them alike.
#include "core/program/library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/program/stretches.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "tests/program/compiled.h"
#include "tests/thrown_by.h"

namespace lathe::program {
namespace {

int64_t elements(const lathe_tensor& tensor) {
  int64_t count = 1;
  for (size_t i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
  return count;
}

lathe_status failing(lathe_error* error, const char* message) {
  std::strncpy(error->message, message, sizeof error->message - 1);
  return LATHE_INVALID_ARGUMENT;
}

/// (x, by) -> x + by, and how many elements that has: float32 both.
lathe_status shifted(const lathe_tensor* in, size_t ins, const lathe_tensor* out, size_t outs, void* calls,
                     lathe_error* error) {
  if (calls) ++*static_cast<int*>(calls);
  if (ins != 2 || outs != 2 || in[0].type != LATHE_FLOAT || in[0].bits != 32 || in[1].rank != 0)
    return failing(error, "takes a tensor and a number of float32");
  const auto *x = static_cast<const float*>(in[0].data), *by = static_cast<const float*>(in[1].data);
  if (*by < 0) return failing(error, "the shift is below 0");
  auto *y = static_cast<float*>(out[0].data), *count = static_cast<float*>(out[1].data);
  for (int64_t i = 0; i < elements(in[0]); ++i) y[i] = x[i] + *by;
  *count = static_cast<float>(elements(in[0]));
  return LATHE_OK;
}

/// (x, ...) -> all elements of the inputs, one after another: int32.
lathe_status joined(const lathe_tensor* in, size_t ins, const lathe_tensor* out, size_t, void*,
                    lathe_error*) {
  auto* to = static_cast<int32_t*>(out[0].data);
  for (size_t k = 0; k < ins; ++k) {
    const auto* from = static_cast<const int32_t*>(in[k].data);
    to = std::copy(from, from + elements(in[k]), to);
  }
  return LATHE_OK;
}

lathe_status silent(const lathe_tensor*, size_t, const lathe_tensor*, size_t, void*, lathe_error*) {
  return LATHE_RUN_FAILED;
}

runtime::LibraryFunction function_of(const std::string& name, int* calls = nullptr) {
  if (name == "shifted") return {shifted, calls};
  if (name == "joined") return {joined, nullptr};
  if (name == "silent") return {silent, nullptr};
  return {};
}

/// The value of main, or the error, of all three, which must be one.
std::string value(const std::string& text) {
  const relay::Module module = relay::parse_module(text, "t");
  relay::Interpreter interpreter(module);
  Compiled compiled(module);
  const std::vector<std::string>& names = compiled.program().library_functions;
  for (size_t i = 0; i < names.size(); ++i)
    if (const runtime::LibraryFunction function = function_of(names[i]); function.function) {
      interpreter.add_library(names[i], interpreted(names[i], function));
      for (runtime::Machine* machine : {&compiled.machine(), &compiled.virtual_machine()})
        machine->set_library(i, function);
    }
  std::string expected;
  try {
    expected = relay::print(interpreter.call("main"));
  } catch (const Error& error) {
    expected = error.what();
  }
  for (runtime::Machine* machine : {&compiled.machine(), &compiled.virtual_machine()}) {
    const int64_t before = machine->heap().used_bytes();
    std::string found;
    try {
      found = compiled.value(*machine);
    } catch (const Error& error) {
      found = error.what();
    }
    EXPECT_EQ(machine->heap().used_bytes(), before) << found;
    EXPECT_EQ(found, expected) << runtime::program_text(compiled.program());
  }
  return expected;
}

TEST(LibraryFunctions, OfAnySizeWithTuplesAndNumbers) {
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(n), float32], %by: float32) {
      let %y = call_dps_library("shifted", (%x, %by), (Tensor[(n), float32], float32));
      (%y.0 * 2f, %y.1 + 1f, %y)
    }
    def @main() { (@f([1f, 2f], 1f), @f([3f], 0.5f), @f(zeros(shape=[0]), 1f)) })"),
            "(([4f, 6f], 3f, ([2f, 3f], 2f)), ([7f], 2f, ([3.5f], 1f)), "
            "(<float32 (0)>, 1f, (<float32 (0)>, 0f)))");
}

TEST(LibraryFunctions, ResultsWhoseSizesAreComputed) {
  EXPECT_EQ(value(R"(
    def @twice(%x: Tensor[(n, 2), int32]) { call_dps_library("joined", (%x, %x), Tensor[(2 * n, 2), int32]) }
    def @main() {
      let %c = 1;
      let %x = match_cast(first_rows([7, 8, 9], %c + 1), Tensor[(k), int32]);
      let %f = fn (%y: Tensor[(k), int32]) { call_dps_library("joined", ((%y, (%x, 5)),), Tensor[(2 * k + 1), int32]) };
      (@twice([[1, 2]]), @twice(@twice([[3, 4]])), %f(%x * 2))
    })"),
            "([[1, 2], [1, 2]], [[3, 4], [3, 4], [3, 4], [3, 4]], [14, 16, 7, 8, 5])");
}

TEST(LibraryFunctions, OfGenericTensorsInLoopsAndClosures) {
  EXPECT_EQ(value(R"(
    import "list"
    def @copy[S: Shape](%x: Tensor[S, int32]) -> Tensor[S, int32] { call_dps_library("joined", (%x,), Tensor[S, int32]) }
    def @loop(%i: int32, %x: Tensor[(3), int32]) -> Tensor[(3), int32] {
      if (%i == 0) { %x } else { @loop(%i - 1, call_dps_library("joined", (%x + 1,), Tensor[(3), int32])) }
    }
    def @main() {
      let %s = @foldl(fn (%s: int32, %n: int32) { %s + call_dps_library("joined", (%n * 2,), int32) }, 0, Cons(1, Cons(2, Nil)));
      (@copy([[1, 2]]), @copy(3), @loop(1000, [1, 2, 3]), %s)
    })"),
            "([[1, 2]], 3, [1001, 1002, 1003], 6)");
}

/// Of a generic value it is known as it runs what it is.
TEST(LibraryFunctions, OfGenericValues) {
  const std::string sizes = R"(
    def @join[A](%x: A) { call_dps_library("joined", (%x, 7), Tensor[(4), int32]) }
    def @main() { )";
  EXPECT_EQ(value(sizes + "(@join([1, 2, 3]), @join((4, ((5, 6),), ()))) }"), "([1, 2, 3, 7], [4, 5, 6, 7])");
  EXPECT_EQ(value(sizes + "@join(ref(1)) }"),
            "t:2:27: error: an argument is neither a tensor nor a tuple of tensors");
}

TEST(LibraryFunctions, InDataflowBlocksCellsAndChoices) {
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(n), int32]) {
      dataflow { let %y = call_dps_library("joined", (%x,), Tensor[(n), int32]); let %z = %y + %y; output(%z) }
    }
    def @main() {
      let %r = ref(1);
      %r := call_dps_library("joined", (!%r + 4,), int32);
      if (call_dps_library("joined", (!%r,), int32) == 5) { @f([1, 2]) } else { [0, 0] }
    })"),
            "[2, 4]");
}

TEST(LibraryFunctions, WithoutInputsOrResults) {
  EXPECT_EQ(value(R"(def @main() { (call_dps_library("joined", (), Tensor[(0, 3), int32]), 1) })"),
            "(<int32 (0, 3)>, 1)");
}

TEST(LibraryFunctions, TheirErrorsHaveAPlace) {
  EXPECT_EQ(
      value(R"(def @main() { call_dps_library("shifted", ([1f], -1f), (Tensor[(1), float32], float32)) })"),
      "t:1:15: error: library function `shifted`: the shift is below 0");
  EXPECT_EQ(value(R"(def @main() { call_dps_library("silent", (1,), int32) + 1 })"),
            "t:1:15: error: library function `silent` failed with status 7");
  EXPECT_EQ(value(R"(
    def @f(%x: Tensor[(n), int32]) { call_dps_library("joined", (%x,), Tensor[(n - 2), int32]) }
    def @main() { let %c = 0; @f(match_cast(first_rows([1], %c + 1), Tensor[(k), int32])) })"),
            "t:2:38: error: a size is -1, must be at least 0");
}

TEST(LibraryFunctions, WhatNobodyGaveIsNotCalled) {
  EXPECT_EQ(value(R"(def @main() { call_dps_library("system", (1,), int32) })"),
            "t:1:15: error: library function `system` is not given");
}

/// Sizes that nothing tells are only refused where code is made: the interpreter may never get there.
TEST(LibraryFunctions, OfUntoldSizesAreNotCompiled) {
  auto refused = [](const std::string& text) {
    return thrown_by([&] { Compiled compiled(relay::parse_module(text, "t")); });
  };
  for (const char* dim : {"?", "n"})
    EXPECT_EQ(
        refused(fmt::format(R"(def @main() {{ call_dps_library("f", (1,), Tensor[({}), int32]) }})", dim)),
        fmt::format("t:1:15: error: the result of a library function is Tensor[({}), int32]; neither a "
                    "parameter nor a match_cast tells its size",
                    dim));
}

/// As an operator's, whose value is nobody's: neither called nor missed.
TEST(LibraryFunctions, WhatNobodyUsesIsNotCalled) {
  const relay::Module module = relay::parse_module(
      R"(def @main(%x: Tensor[(n), int32]) { let %y = call_dps_library("f", (%x,), int32); %x * 2 })");
  EXPECT_EQ(runtime::Module::from_image(tuner::compile_model(module, codegen::host_target()))
                ->library_functions()
                .size(),
            0u);
}

/// A graph around it: stretches before and behind are kernels, which it is not a part of.
TEST(LibraryFunctions, StandBetweenTheKernelsOfAGraph) {
  const relay::Module module = relay::parse_module(R"(
    def @main(%x: Tensor[(n, 4), float32]) {
      let %y = call_dps_library("shifted", (tanh(%x * 2f), 1f), (Tensor[(n, 4), float32], float32));
      (exp(%y.0) + %x, %y.1)
    })");
  EXPECT_TRUE(is_program(module));
  const auto compiled = runtime::Module::from_image(tuner::compile_model(module, codegen::host_target()));
  ASSERT_NE(compiled->program(), nullptr);
  EXPECT_EQ(compiled->program()->program.plans.size(), 2u);
  runtime::Executor executor(compiled, runtime::serial_parallel());
  const std::vector<runtime::Executor::PlannedStep> steps = executor.steps();
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(*steps[2].name, "shifted");
  EXPECT_EQ(steps[2].step, nullptr);
  executor.set_input(0, full({3, 4}, kFloat32, 0));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "library function `shifted` is not given");
  int calls = 0;
  executor.set_function("shifted", function_of("shifted", &calls));
  std::vector<int64_t> spent(3), counts(3);
  for (int64_t rows : {3, 1, 5}) {
    executor.set_input(0, full({rows, 4}, kFloat32, 0));
    executor.run_timed(spent, counts);
    EXPECT_NEAR(executor.output(0).value(0), std::exp(1.0), 1e-5);
    EXPECT_EQ(executor.output(0).shape(), (std::vector<int64_t>{rows, 4}));
    EXPECT_EQ(executor.output(1).value(0), static_cast<double>(4 * rows));
  }
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 3, 3}));
  EXPECT_GT(spent[2], 0);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace lathe::program
