#include "core/runtime/executor.h"

#include <gmock/gmock.h>

#include "core/runtime/thread_pool.h"
#include "tests/runtime/test_module.h"

namespace lathe::runtime {
namespace {

using ::testing::ElementsAre;

std::vector<float> values(const Tensor& tensor) {
  auto span = tensor.span<float>();
  return {span.begin(), span.end()};
}

std::string message(auto&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Executor, RunsThePlanWithViewsAndOutputsThatAreInputsOrConstants) {
  ThreadPool pool(2);
  for (const LatheParallel* parallel : {serial_parallel(), pool.parallel()}) {
    Executor executor(Module::from_image(test_image()), parallel);
    executor.set_input(0, floats({10, 20, 30}));
    for (int repeat = 0; repeat < 3; ++repeat) {
      executor.run();
      EXPECT_THAT(executor.output(0).shape(), ElementsAre(3, 1));
      EXPECT_THAT(values(executor.output(0)), ElementsAre(45, 90, 135));
      EXPECT_THAT(values(executor.output(1)), ElementsAre(10, 20, 30));
      EXPECT_THAT(values(executor.output(2)), ElementsAre(1, 2, 3));
      EXPECT_EQ(executor.output(3).data(), executor.output(0).data());
    }
    executor.set_input(0, floats({0, 0, 0}));
    executor.run();
    EXPECT_THAT(values(executor.output(3)), ElementsAre(5, 10, 15));
  }
}

TEST(Executor, OutputsOutliveTheExecutorAndTheModule) {
  Tensor y, c;
  {
    Executor executor(Module::from_image(test_image()), serial_parallel());
    executor.set_input(0, floats({10, 20, 30}));
    executor.run();
    y = executor.output(3);
    c = executor.output(2);
  }
  EXPECT_THAT(values(y), ElementsAre(45, 90, 135));
  EXPECT_THAT(values(c), ElementsAre(1, 2, 3));
}

TEST(Executor, TakesMisalignedInputs) {
  Tensor memory = floats({0, 10, 20, 30});
  Executor executor(Module::from_image(test_image()), serial_parallel());
  executor.set_input(0, Tensor({3}, kFloat32, nullptr, memory.as<float>() + 1));
  executor.run();
  EXPECT_THAT(values(executor.output(3)), ElementsAre(45, 90, 135));
}

TEST(Executor, TimesEachStep) {
  Executor executor(Module::from_image(test_image()), serial_parallel());
  executor.set_input(0, floats({1, 2, 3}));
  std::vector<int64_t> spent(4);
  for (int i = 0; i < 100; ++i) executor.run_timed(spent);
  for (int64_t nanoseconds : spent) EXPECT_GT(nanoseconds, 0);
}

TEST(Executor, SaysWhatIsWrong) {
  Executor executor(Module::from_image(test_image()), serial_parallel());
  EXPECT_EQ(message([&] { executor.run(); }), "input `x` is not set");
  EXPECT_EQ(message([&] {
              executor.set_input(0, floats({1, 2}));
            }),
            "input `x` is float32 (2), must be float32 (3)");
  EXPECT_EQ(message([&] { find_input(executor.plan(), "xs"); }),
            "the model has no input `xs`; did you mean `x`?");
  EXPECT_EQ(message([&] { find_input(executor.plan(), "image"); }),
            "the model has no input `image`; it has x");

  PlanBuilder builder;
  builder.output("y", builder.call({.kernel = "refuse", .args = {}, .results = {kThree}})[0]);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  Executor refusing(Module::from_image(image), serial_parallel());
  EXPECT_EQ(message([&] { refusing.run(); }), "kernel refuse reports that its check 7 failed");
}

TEST(PlanBuilder, ReusesMemoryInPlaceOnlyWhenNobodyElseNeedsIt) {
  auto places = [](bool also_output, bool read_twice) {
    PlanBuilder builder;
    int64_t c = builder.constant(floats({1, 2, 3}));
    int64_t a = builder.call({.kernel = "add", .args = {c, c}, .results = {kThree}})[0];
    int64_t b = builder.call(
        {.kernel = "add", .args = {a, read_twice ? a : c}, .results = {kThree}, .reuse = {0}})[0];
    builder.output("b", b);
    if (also_output) builder.output("a", a);
    Plan plan = builder.finish().plan;
    return plan.values[a].at == plan.values[b].at;
  };
  EXPECT_TRUE(places(false, false));
  EXPECT_FALSE(places(true, false));
  EXPECT_FALSE(places(false, true));
}

TEST(PlanBuilder, AViewKeepsItsTensorAlive) {
  PlanBuilder builder;
  int64_t c = builder.constant(floats({1, 2, 3}));
  int64_t a = builder.call({.kernel = "add", .args = {c, c}, .results = {kThree}})[0];
  int64_t view = builder.view(a, {3, 1});
  int64_t b = builder.call({.kernel = "twice", .args = {c}, .results = {kThree}, .workspace_bytes = 12})[0];
  builder.output("view", view);
  Plan plan = builder.finish().plan;
  EXPECT_NE(plan.values[view].at, plan.values[b].at);
  EXPECT_NE(plan.values[view].at, plan.steps[1].workspace_at);
  EXPECT_EQ(plan.arena_bytes, 192);
  EXPECT_EQ(plan.arena_lower_bound, 192);
}

TEST(PlanBuilder, KeepsTheSameDataOnce) {
  PlanBuilder builder;
  Tensor data = floats({1, 2, 3});
  int64_t a = builder.constant(data), b = builder.constant(data.reshaped({3, 1})),
          c = builder.constant(data.clone()), d = builder.constant(floats({1, 2, 4}));
  builder.output("a", a);
  Plan plan = builder.finish().plan;
  EXPECT_EQ(plan.values[a].at, plan.values[b].at);
  EXPECT_EQ(plan.values[a].at, plan.values[c].at);
  EXPECT_NE(plan.values[a].at, plan.values[d].at);
  EXPECT_EQ(plan.constant_bytes, 128);
}

}  // namespace
}  // namespace lathe::runtime
