// What work costs in memory asked for. Running a module asks for
// none, and compiling one asks as often as it has expressions, which tells linear work from quadratic on any
// machine.
#include <gtest/gtest.h>

#include "core/codegen/host_target.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tests/allocations.h"
#include "tuner/compile.h"
#include "tuner/final_build.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"

namespace lathe::tuner {
namespace {

TEST(Executor, ARunAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer has malloc";
  runtime::ModuleImage image = compile_model(load_model("dqn", {}), codegen::host_target());
  runtime::ThreadPool pool(2);
  runtime::Executor executor(runtime::Module::from_image(std::move(image)), pool.parallel());
  const runtime::Value& input = executor.plan().values[executor.plan().inputs.at(0).value];
  executor.set_input(0, random_tensor(input.shape, input.dtype, 1));
  for (int round = 0; round < 3; ++round) {  // the first one too
    int64_t before = allocations().calls;
    executor.run();
    EXPECT_EQ(allocations().calls, before);
  }
  int64_t before = allocations().calls;
  EXPECT_EQ(zeros({64}, kFloat32).size(), 64);
  EXPECT_GT(allocations().calls, before) << "the count counts";
}

/// Plans of its loop get other numbers in each iteration.
TEST(Executor, ALoopOverOtherLengthsAllocatesNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer has malloc";
  relay::Module module = relay::parse_module(R"(
def @loop(%n: int32, %x: Tensor[(8), float32], %most: float32) -> float32 {
  if (%n == 0) { %most } else { @loop(%n - 1, %x, max(first_rows(%x, 1 + floor_mod(%n, 5)))) }
}
def @main(%n: int32, %x: Tensor[(8), float32]) { @loop(%n, %x, 0f) })");
  runtime::ThreadPool pool(1);
  runtime::Executor executor(runtime::Module::from_image(compile_model(module, codegen::host_target())),
                             pool.parallel());
  executor.set_input(1, random_tensor({8}, kFloat32, 1));
  auto calls_of = [&](int32_t iterations) {
    executor.set_input(0, full({}, kInt32, iterations));
    executor.run();
    return allocations_of([&] { executor.run(); }).calls;
  };
  // What the run itself asks for does not grow.
  EXPECT_EQ(calls_of(1000), calls_of(5));
  EXPECT_GT(executor.program_bytes(), 0);
}

constexpr const char* kHead =
    "#[version = \"0.0.5\"]\ndef @main(%v0: Tensor[(1, 16), float32], %w: Tensor[(16, 16), float32]) {\n";

/// dense, tanh, dense, tanh, ...: two kernels, whatever the length.
std::string chain(int lets) {
  std::string text = kHead;
  for (int i = 0; i < lets; ++i)
    text +=
        fmt::format("  let %v{} = {}(%v{}{});\n", i + 1, i % 2 ? "tanh" : "nn.dense", i, i % 2 ? "" : ", %w");
  return text + fmt::format("  %v{}\n}}\n", lets);
}

/// Pairs of pairs, and back to the first.
std::string nested_tuples(int depth) {
  std::string text = kHead;
  for (int i = 0; i < depth; ++i) text += fmt::format("  let %v{} = (%v{}, %w);\n", i + 1, i);
  for (int i = depth; i < 2 * depth; ++i) text += fmt::format("  let %v{} = %v{}.0;\n", i + 1, i);
  return text + fmt::format("  %v{}\n}}\n", 2 * depth);
}

/// Twice the size at twice the work; a tenth is left to what grows in steps.
template <typename F>
void expect_linear(const char* stage, F&& work) {
  const int64_t once = work(1000).calls, twice = work(2000).calls;
  EXPECT_LT(static_cast<double>(twice), 2.2 * static_cast<double>(once)) << stage;
}

TEST(LongPrograms, TakeWorkInProportion) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer has malloc";
  const Target target = codegen::host_target();
  for (auto* text_of : {chain, nested_tuples}) {
    expect_linear("parse", [&](int size) {
      const std::string text = text_of(size);
      return allocations_of([&] { relay::parse_module(text); });
    });
    expect_linear("types", [&](int size) {
      const relay::Module module = relay::parse_module(text_of(size));
      return allocations_of([&] { relay::infer_type(relay::infer_type(module)); });
    });
    expect_linear("passes", [&](int size) {
      const relay::Module module = relay::parse_module(text_of(size));
      return allocations_of([&] { optimize(module, target); });
    });
  }
  // Of the same two kernels in both, which are lowered once.
  auto fused = [&](int size) { return optimize(relay::parse_module(chain(size)), target); };
  expect_linear("tasks", [&, fused](int size) {
    const relay::Module module = fused(size);
    return allocations_of([&] { EXPECT_EQ(extract_tasks(module).size(), 2U); });
  });
  expect_linear("build", [&, fused](int size) {
    const relay::Module module = fused(size);
    return allocations_of([&] { final_build(module, target, default_schedules(target)); });
  });
}

}  // namespace
}  // namespace lathe::tuner
