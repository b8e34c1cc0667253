#include "core/runtime/executor.h"

#include <gmock/gmock.h>

#include "core/runtime/output_arguments.h"
#include "core/runtime/thread_pool.h"
#include "tests/runtime/test_module.h"
#include "tests/thrown_by.h"

namespace lathe::runtime {
namespace {

using ::testing::ElementsAre;

std::vector<float> values(const Tensor& tensor) {
  auto span = tensor.span<float>();
  return {span.begin(), span.end()};
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

TEST(Executor, ReadsMisalignedInputsAnewInEachRun) {
  Tensor memory = floats({0, 10, 20, 30});
  Executor executor(Module::from_image(test_image()), serial_parallel());
  executor.set_input(0, Tensor({3}, kFloat32, nullptr, memory.as<float>() + 1));
  executor.run();
  memory.as<float>()[1] = 0;
  executor.run();
  EXPECT_THAT(values(executor.output(3)), ElementsAre(5, 90, 135));
  executor.set_input(0, floats({0, 0, 0}));
  executor.run();
  EXPECT_THAT(values(executor.output(3)), ElementsAre(5, 10, 15));
}

TEST(Executor, WorksInAlignedMemoryOfTheCallers) {
  Executor executor(Module::from_image(places_image()), serial_parallel());
  Tensor x = floats({1, 2, 3, 4}), out({4}, kInt64);
  auto place = [](const Tensor& tensor, size_t bytes) {
    return reinterpret_cast<int64_t>(static_cast<char*>(tensor.data()) + bytes);
  };
  executor.set_input(0, Tensor({3}, kFloat32, nullptr, x.data()));
  executor.set_output(0, Tensor({2}, kInt64, nullptr, out.data()));
  executor.run();
  EXPECT_EQ(out.integer(0), place(x, 0));
  EXPECT_EQ(out.integer(1), place(out, 0));
  EXPECT_EQ(executor.output(0).data(), out.data());

  executor.set_input(0, Tensor({3}, kFloat32, nullptr, x.as<float>() + 1));
  executor.set_output(0, Tensor({2}, kInt64, nullptr, out.as<int64_t>() + 1));
  executor.run();
  EXPECT_NE(out.integer(1), place(x, 4)) << "kernels may rely on the alignment";
  EXPECT_NE(out.integer(2), place(out, 8));

  executor.set_output(0, Tensor());
  executor.run();
  EXPECT_EQ(executor.output(0).integer(1), place(executor.output(0), 0));
  EXPECT_NE(executor.output(0).data(), out.data());
}

TEST(Executor, WritesBoundOutputsThatAreInputsConstantsOrGivenTwice) {
  Executor executor(Module::from_image(test_image()), serial_parallel());
  executor.set_input(0, floats({10, 20, 30}));
  Tensor column({3, 1}, kFloat32), x({3}, kFloat32), c({3}, kFloat32), y({3}, kFloat32);
  for (int bound = 0; bound < 16; ++bound) {  // all ways of binding some of the four
    const Tensor* outputs[] = {&column, &x, &c, &y};
    for (size_t i = 0; i < 4; ++i) executor.set_output(i, bound >> i & 1 ? *outputs[i] : Tensor());
    for (Tensor tensor : {column, x, c, y}) std::fill_n(tensor.as<float>(), 3, -1.0f);
    executor.run();
    EXPECT_THAT(values(executor.output(0)), ElementsAre(45, 90, 135)) << bound;
    EXPECT_THAT(values(executor.output(1)), ElementsAre(10, 20, 30)) << bound;
    EXPECT_THAT(values(executor.output(2)), ElementsAre(1, 2, 3)) << bound;
    EXPECT_THAT(values(executor.output(3)), ElementsAre(45, 90, 135)) << bound;
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(executor.output(i).data() == outputs[i]->data(), (bound >> i & 1) != 0) << bound << " " << i;
  }
}

TEST(Executor, RefusesOutputsThatOverlap) {
  Executor executor(Module::from_image(test_image()), serial_parallel());
  Tensor x = floats({10, 20, 30}), y = floats({0, 0, 0, 0, 0, 0});
  executor.set_input(0, x);
  executor.set_output(3, x);
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "the memory of output `y` overlaps that of input `x`");
  executor.set_output(3, Tensor({3}, kFloat32, nullptr, y.as<float>() + 2));
  executor.set_output(2, Tensor({3}, kFloat32, nullptr, y.data()));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "the memory of output `y` overlaps that of output `c`");
  executor.set_output(3, Tensor({3}, kFloat32, nullptr, y.as<float>() + 3));
  executor.run();
  EXPECT_THAT(values(y), ElementsAre(1, 2, 3, 45, 90, 135));
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
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "input `x` is not set");
  EXPECT_EQ(thrown_by([&] {
              executor.set_input(0, floats({1, 2}));
            }),
            "input `x` is float32 (2), must be float32 (3)");
  EXPECT_EQ(thrown_by([&] {
              executor.set_output(0, floats({1, 2}));
            }),
            "output `column` is float32 (2), must be float32 (3, 1)");
  EXPECT_EQ(thrown_by([&] { find_input(executor.plan(), "xs"); }),
            "the model has no input `xs`; did you mean `x`?");
  EXPECT_EQ(thrown_by([&] { find_input(executor.plan(), "image"); }),
            "the model has no input `image`; it has x");
  EXPECT_EQ(thrown_by([&] { find_output(executor.plan(), "colum"); }),
            "the model has no output `colum`; did you mean `column`?");

  Executor refusing(Module::from_image(refusing_image()), serial_parallel());
  EXPECT_EQ(thrown_by([&] { refusing.run(); }), "kernel refuse reports that its check 7 failed");
}

std::vector<size_t> arguments_of_output(const Plan& plan, const Value& output) {
  std::vector<size_t> found{99};  // of an earlier plan
  output_arguments(plan, output, found);
  return found;
}

/// add(sum, c) takes the place of `four`, which it reads: only what it writes is the output.
TEST(OutputArguments, AreThoseFromTheStepThatWritesItOn) {
  Plan plan = test_image().plan;  // add x c sum | twice sum two | twice two four | add four c y
  auto arguments_of = [&](size_t output) {
    return arguments_of_output(plan, plan.values[plan.outputs[output].value]);
  };
  EXPECT_THAT(arguments_of(3), ElementsAre(9));
  EXPECT_THAT(arguments_of(0), ElementsAre(9)) << "a view";
  EXPECT_THAT(arguments_of(1), ElementsAre()) << "an input";
  EXPECT_THAT(arguments_of(2), ElementsAre()) << "a constant";
  plan.outputs[3].value = plan.steps[2].args[1];  // `four`, which the last step overwrites
  EXPECT_THAT(arguments_of(3), ElementsAre(9));
  plan.outputs[3].value = plan.steps[1].args[1];  // `two`, which the third step reads
  EXPECT_THAT(arguments_of(3), ElementsAre(5, 4));
  plan.steps[2].workspace_at = plan.values[plan.outputs[3].value].at;
  EXPECT_THAT(arguments_of(3), ElementsAre()) << "scribbled over";
}

TEST(OutputArguments, StayWhereOtherTensorsShareTheirMemory) {
  Plan plan = test_image().plan;
  const int64_t y = plan.outputs[3].value;
  plan.values.push_back(plan.values[y]);
  plan.values.back().shape = {2};  // a part of y
  const auto part = static_cast<int64_t>(plan.values.size()) - 1;
  Plan with_output = plan;
  with_output.outputs.push_back({.name = "part", .value = part});
  EXPECT_THAT(arguments_of_output(with_output, with_output.values[y]), ElementsAre())
      << "a part of it is one";
  plan.steps.push_back({.kernel = "twice", .args = {part, 3}});
  EXPECT_THAT(arguments_of_output(plan, plan.values[y]), ElementsAre());
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

TEST(PlanBuilder, AViewMayBeginInsideATensor) {
  PlanBuilder builder;
  const TensorType rows{{4, 16}, kFloat32}, row{{16}, kFloat32};
  int64_t x = builder.input("x", rows);
  int64_t whole = builder.call({.kernel = "copy", .args = {x}, .results = {rows}})[0];
  int64_t part = builder.view(builder.view(whole, {4, 4, 4}), {16}, 2 * 64);
  // As large as the part, and yet not in its place: the rest of the tensor is there.
  int64_t sum = builder.call({.kernel = "add", .args = {part, x}, .results = {row}, .reuse = {0}})[0];
  builder.output("sum", sum);
  const Plan plan = builder.finish().plan;
  EXPECT_EQ(plan.values[part].at, plan.values[whole].at + 128);
  EXPECT_NE(plan.values[sum].at, plan.values[part].at);
  EXPECT_EQ(plan.arena_bytes, 256 + 64);
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
