// Plans with open dimensions: sizes, binding, memory, and plans that lie.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/runtime/executor.h"
#include "core/runtime/plan_dims.h"
#include "core/runtime/thread_pool.h"
#include "tests/runtime/test_module.h"
#include "tests/thrown_by.h"

namespace lathe::runtime {
namespace {

Tensor ones(int64_t n) { return full({n}, kFloat32, 1); }

TEST(Sizes, AreEvaluatedInOrderAndSharedWhenEqual) {
  SizeTable table;
  const Size n = table.add(SizeOp::kDim, 0), m = table.add(SizeOp::kDim, 1);
  const Size sum = table.add(SizeOp::kAdd, n, m);
  EXPECT_EQ(table.add(SizeOp::kAdd, n, m), sum);
  EXPECT_EQ(table.add(SizeOp::kMul, 3, 5), 15) << "numbers need no entry";
  const Size below = table.add(SizeOp::kSub, n, m), half = table.add(SizeOp::kFloorDiv, below, 2);
  const Size rest = table.add(SizeOp::kFloorMod, below, 2), aligned = table.add(SizeOp::kAlign, sum, 64);
  const Size clamped = table.add(SizeOp::kMax, 0, below);
  std::vector<int64_t> values(table.entries().size());
  evaluate_sizes(table.entries(), std::vector<int64_t>{4, 9}, values);
  auto value = [&](Size size) { return values[entry_of(size)]; };
  EXPECT_EQ(value(sum), 13);
  EXPECT_EQ(value(half), -3);
  EXPECT_EQ(value(rest), 1);
  EXPECT_EQ(value(aligned), 64);
  EXPECT_EQ(value(clamped), 0);
  const std::vector<int64_t> huge{INT64_MAX, 1};
  EXPECT_THROW(evaluate_sizes(table.entries(), huge, values), Error);
}

/// By powers of two as by others, toward minus infinity.
TEST(Sizes, DivisionsRoundDown) {
  SizeTable table;
  const Size n = table.add(SizeOp::kDim, 0);
  for (int64_t divisor : {1, 2, 3, 7, 8, 64, 1000})
    for (SizeOp op : {SizeOp::kFloorDiv, SizeOp::kFloorMod, SizeOp::kAlign})
      table.add(op, table.add(SizeOp::kSub, n, 50), divisor);
  std::vector<int64_t> values(table.entries().size());
  for (int64_t size = 0; size <= 200; ++size) {
    evaluate_sizes(table.entries(), std::vector<int64_t>{size}, values);
    auto value = [&](Size size) { return is_open(size) ? values[entry_of(size)] : size; };
    for (const SizeEntry& entry : table.entries()) {
      if (entry.op != SizeOp::kFloorDiv && entry.op != SizeOp::kFloorMod && entry.op != SizeOp::kAlign)
        continue;
      const auto dividend = static_cast<double>(value(entry.a)), divisor = static_cast<double>(entry.b);
      const double down = std::floor(dividend / divisor), up = std::ceil(dividend / divisor);
      const double wanted = entry.op == SizeOp::kFloorDiv   ? down
                            : entry.op == SizeOp::kFloorMod ? dividend - down * divisor
                                                            : up * divisor;
      EXPECT_EQ(static_cast<double>(values[static_cast<size_t>(&entry - table.entries().data())]), wanted);
    }
  }
}

TEST(Sizes, TablesThatLookAheadAreRefused) {
  const std::vector<SizeEntry> ahead{{SizeOp::kAdd, -2, 1}, {SizeOp::kDim, 0}};
  EXPECT_THROW(check_sizes(ahead, 1), Error);
  const std::vector<SizeEntry> itself{{SizeOp::kAdd, -1, 1}};
  EXPECT_THROW(check_sizes(itself, 1), Error);
  const std::vector<SizeEntry> least{{SizeOp::kAdd, INT64_MIN, 1}};
  EXPECT_THROW(check_sizes(least, 1), Error);
  const std::vector<SizeEntry> no_dim{{SizeOp::kDim, 1}};
  EXPECT_THROW(check_sizes(no_dim, 1), Error);
}

/// Of each step that runs its result and workspace, n floats and 4 n bytes.
TEST(OpenPlan, SaysWhatItsTensorsTakeWithoutReuse) {
  const Plan open = open_image(3).plan;
  Plan bound = open;
  bind_dims(open, std::vector<int64_t>{1000}, bound);
  EXPECT_EQ(tensor_bytes(bound), 3 * (4000 + 4000));
  EXPECT_LT(bound.arena_bytes, tensor_bytes(bound));
  bound.steps[1].when = 0;
  EXPECT_EQ(tensor_bytes(bound), 2 * (4000 + 4000));
}

TEST(OpenPlan, RunsAtAnySizeAndSurvivesAFile) {
  const std::string path = ::testing::TempDir() + "/open.lathe";
  write_module(path, open_image(3));
  Executor executor(Module::open(path), serial_parallel());
  for (int64_t n : {5, 1, 1000, 7, 100000}) {
    executor.set_input(0, ones(n));
    for (int repeat = 0; repeat < 2; ++repeat) executor.run();
    const Tensor y = executor.output(0);
    ASSERT_EQ(y.shape(), std::vector<int64_t>{n});
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.as<float>()[i], 8.0f);
  }
}

TEST(OpenPlan, ReusesMemoryWhateverTheSize) {
  const Plan plan = open_image(10).plan;
  Plan bound = plan;
  for (int64_t n : {1, 100, 100000}) {
    bind_dims(plan, std::vector<int64_t>{n}, bound);
    // An operand, a result and a workspace live at a time.
    EXPECT_EQ(bound.arena_bytes, 3 * ((4 * n + 63) / 64 * 64));
  }
}

/// Of x: (2 * k + m) and w: (m).
TEST(OpenPlan, AnExpressionTellsItsDimension) {
  PlanBuilder builder;
  const Size m = builder.dimension({.name = "m", .input = 1}, 64), k = builder.dimension({.name = "k"}, 64);
  const Size all = builder.size(SizeOp::kAdd, builder.size(SizeOp::kMul, 2, k), m);
  const int64_t x = builder.input("x", {{all}, kFloat32});
  builder.input("w", {{m}, kFloat32});
  builder.output("y", builder.call({.kernel = "twice_open",
                                    .args = {x},
                                    .results = {{{all}, kFloat32}},
                                    .workspace_bytes = builder.size(SizeOp::kMul, 4, all),
                                    .dims = {all}})[0]);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  ASSERT_EQ(parse_plan(plan_text(image.plan)).dims[1].name, "k");
  EXPECT_EQ(told_dimension(image.plan, 1, 13, std::vector<int64_t>{3, 0}), 5);
  EXPECT_EQ(told_dimension(image.plan, 1, 2, std::vector<int64_t>{3, 0}), 0) << "no size is negative";
  image.plan.dims[1].max = 100;
  Executor executor(Module::from_image(image), serial_parallel());
  for (int64_t few : {1, 4})
    for (int64_t pairs : {0, 1, 7, 100}) {
      executor.set_input(0, ones(2 * pairs + few));
      executor.set_input(1, ones(few));
      executor.run();
      ASSERT_EQ(executor.output(0).shape(), std::vector<int64_t>{2 * pairs + few});
      EXPECT_EQ(executor.output(0).as<float>()[2 * pairs], 2.0f);
    }
  executor.set_input(0, ones(9));
  EXPECT_EQ(thrown_by([&] { executor.run(); }),
            "input `x` is float32 (9), must be float32 (8), which is ((2 * k + m))");
  executor.set_input(0, ones(206));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "dimension k is 101, the model was compiled for 0 to 100");
}

TEST(OpenPlan, BoundOutputsAreWrittenInPlaceAndHaveToFit) {
  Executor executor(Module::from_image(open_image(1)), serial_parallel());
  Tensor y({6}, kFloat32);
  executor.set_input(0, ones(6));
  executor.set_output(0, y);
  executor.run();
  EXPECT_EQ(y.as<float>()[5], 2.0f);
  executor.set_input(0, ones(7));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "output `y` is float32 (6), must be float32 (7)");
}

TEST(OpenPlan, WithUpperBoundsTheArenaIsAllocatedOnce) {
  EXPECT_EQ(bounded_arena(open_image(3).plan), 0);
  EXPECT_EQ(bounded_arena(open_image(3, 1024).plan), 3 * 4096);
  Executor executor(Module::from_image(open_image(3, 1024)), serial_parallel());
  executor.set_input(0, ones(1));
  executor.run();
  const void* first = executor.output(0).data();
  executor.set_input(0, ones(1024));
  executor.run();
  executor.set_input(0, ones(1));
  executor.run();
  EXPECT_EQ(executor.output(0).data(), first);
  executor.set_input(0, ones(1025));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "dimension n is 1025, the model was compiled for 1 to 1024");
  executor.set_input(0, ones(2));
  executor.run();
  EXPECT_EQ(executor.output(0).shape(), std::vector<int64_t>{2});
}

/// Doubles n floats, with a workspace of n * n KiB.
ModuleImage hungry_image(int64_t max) {
  PlanBuilder builder;
  const Size n = builder.dimension({.name = "n", .min = 1, .max = max}, 64);
  const Size square = builder.size(SizeOp::kMul, n, n);
  const int64_t x = builder.input("x", {{n}, kFloat32});
  builder.output("y", builder.call({.kernel = "twice_open",
                                    .args = {x},
                                    .results = {{{n}, kFloat32}},
                                    .workspace_bytes = builder.size(SizeOp::kMul, 1024, square),
                                    .dims = {n}})[0]);
  ModuleImage image = builder.finish();
  image.library = test_kernels();
  return image;
}

TEST(OpenPlan, ARunThatIsRefusedItsMemoryLeavesTheNextOneAlone) {
  constexpr int64_t kHuge = 200000;  // 41 TB, which no machine here has
  // With a bound there is room for the largest only where there is memory for it.
  for (int64_t max : {kMostBytes, kHuge}) {
    Executor executor(Module::from_image(hungry_image(max)), serial_parallel());
    for (int64_t n : {int64_t{10}, kHuge, int64_t{10}, int64_t{20}}) {
      executor.set_input(0, ones(n));
      if (n == kHuge) {
        EXPECT_THROW(executor.run(), OutOfResources);
        continue;
      }
      executor.run();
      EXPECT_EQ(executor.output(0).as<float>()[n - 1], 2.0f);
    }
  }
}

TEST(OpenPlan, RequirementsAreChecked) {
  ModuleImage image = open_image(1);
  const Size n = image.plan.values[0].shape[0];
  image.plan.sizes.push_back({SizeOp::kFloorMod, n, 4});
  image.plan.sizes.push_back({SizeOp::kEqual, -static_cast<Size>(image.plan.sizes.size()), 0});
  image.plan.requirements.push_back({-static_cast<Size>(image.plan.sizes.size()), "n % 4 == 0"});
  check_plan(image.plan);
  Executor executor(Module::from_image(std::move(image)), serial_parallel());
  executor.set_input(0, ones(8));
  executor.run();
  executor.set_input(0, ones(9));
  EXPECT_EQ(thrown_by([&] { executor.run(); }), "the model needs n % 4 == 0, which does not hold for n = 9");
}

TEST(OpenPlan, PlansThatLieAreRefusedWhenTheyAreReadOrBound) {
  const Plan good = open_image(2).plan;
  auto refused = [&](auto&& change) {
    Plan plan = good;
    change(plan);
    return thrown_by([&] {
      check_plan(plan);
      Plan bound = plan;
      bind_dims(plan, std::vector<int64_t>{63}, bound);
    });
  };
  EXPECT_EQ(refused([](Plan&) {}), "no error");
  EXPECT_NE(refused([](Plan& p) { p.arena_bytes = 64; }), "no error") << "tensors beyond the arena";
  EXPECT_NE(refused([](Plan& p) { p.values[1].at = -1; }), "no error")
      << "an offset that is no multiple of 64";
  EXPECT_NE(refused([](Plan& p) { p.values[1].at = -1000; }), "no error") << "a size that is not there";
  EXPECT_NE(refused([](Plan& p) { p.values[1].at = INT64_MIN; }), "no error");
  EXPECT_NE(refused([](Plan& p) { p.steps[0].workspace_bytes = int64_t{1} << 40; }), "no error");
  EXPECT_NE(refused([](Plan& p) { p.dims[0].input = 1; }), "no error");
  EXPECT_NE(refused([](Plan& p) { p.dims[0].axis = 1; }), "no error");
  EXPECT_NE(refused([](Plan& p) { p.dims.clear(); }), "no error") << "sizes without dimensions";
  EXPECT_NE(refused([](Plan& p) { p.values[0].shape[0] = 3; }), "no error")
      << "a dimension read from a number";
  EXPECT_NE(refused([](Plan& p) {
              for (SizeEntry& entry : p.sizes)
                if (entry.op == SizeOp::kAlign) entry = {SizeOp::kSub, 0, entry.a};
            }),
            "no error")
      << "negative sizes";
}

TEST(OpenPlan, ATextOfSizesHasAnEnd) {
  Plan plan = open_image(1).plan;
  Size size = plan.values[0].shape[0];
  for (int i = 0; i < 200; ++i) {
    plan.sizes.push_back({SizeOp::kAdd, size, size});
    size = -static_cast<Size>(plan.sizes.size());
  }
  EXPECT_LT(size_text(plan, size).size(), 2000u);
}

/// For random lifetimes and two lots of sizes: what is stacked by the first does not overlap with the second.
TEST(OpenPlan, StacksHoldForOtherSizes) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(random() % 40);
    for (Block& block : blocks) {
      block.first = static_cast<int64_t>(random() % 30);
      block.last = block.first + static_cast<int64_t>(random() % 6);
      block.bytes = 1 + static_cast<int64_t>(random() % 5000);
    }
    const Stack stack = stack_of(blocks, plan_memory(blocks));
    std::vector<int64_t> at(blocks.size()), bytes(blocks.size());
    for (int64_t& each : bytes) each = static_cast<int64_t>(random() % 100000);
    for (size_t block : stack.order)
      for (size_t other : stack.below[block]) at[block] = std::max(at[block], at[other] + bytes[other]);
    for (size_t i = 0; i < blocks.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const bool together = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        const bool apart = at[i] + bytes[i] <= at[j] || at[j] + bytes[j] <= at[i];
        ASSERT_TRUE(!together || apart) << i << " and " << j;
      }
  }
}

}  // namespace
}  // namespace lathe::runtime
