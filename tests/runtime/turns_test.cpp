#include "core/runtime/turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "core/runtime/thread_pool.h"

namespace lathe::runtime {
namespace {

using testing::ElementsAre;

/// Steps that read, by turns, 1 MiB of constants (two values of one place), 64 KiB, and 1 MiB elsewhere.
Plan plan_of_steps() {
  Plan plan;
  const auto value = [&](int64_t floats, Place place, int64_t at) {
    plan.values.push_back({{floats}, kFloat32, place, at});
    return static_cast<int64_t>(plan.values.size() - 1);
  };
  const int64_t result = value(16, Place::kArena, 0);
  for (int64_t constant :
       {value(1 << 18, Place::kConstant, 0), value(1 << 18, Place::kConstant, 0),
        value(1 << 14, Place::kConstant, 1 << 20), value(1 << 18, Place::kConstant, 1 << 21)}) {
    Step step;
    step.args = {constant, result};
    plan.steps.push_back(step);
  }
  return plan;
}

/// The iterations of a loop of five in the order in which one thread runs them.
std::vector<int64_t> order_of(const LatheParallel* parallel) {
  std::vector<int64_t> order;
  parallel->launch(
      parallel->pool,
      [](void* order, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) static_cast<std::vector<int64_t>*>(order)->push_back(i);
      },
      &order, 5);
  return order;
}

TEST(Turns, StepsOnTheSameLargeConstantsGoToAndFro) {
  Turns turns(plan_of_steps(), serial_parallel(), Turns::Runs::kOnce);
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(order_of(turns.next(0)), ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(order_of(turns.next(1)), ElementsAre(4, 3, 2, 1, 0));
    EXPECT_EQ(turns.next(2), serial_parallel()) << "what stays in a cache anyway";
    EXPECT_EQ(turns.next(3), serial_parallel()) << "read once a run";
  }
}

TEST(Turns, PlansThatRunAgainAndAgainGoToAndFroFromRunToRun) {
  Turns turns(plan_of_steps(), serial_parallel(), Turns::Runs::kAgainAndAgain);
  EXPECT_EQ(turns.next(3), serial_parallel());
  EXPECT_THAT(order_of(turns.next(3)), ElementsAre(4, 3, 2, 1, 0));
  EXPECT_EQ(turns.next(3), serial_parallel());
  EXPECT_EQ(turns.next(2), serial_parallel());
  EXPECT_EQ(turns.next(2), serial_parallel());
}

TEST(Turns, EachIterationIsRunOnceByAnyThreads) {
  for (int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Turns turns(plan_of_steps(), pool.parallel(), Turns::Runs::kOnce);
    turns.next(0);
    const LatheParallel* backwards = turns.next(1);
    for (int64_t iterations : {0, 1, 7, 1000}) {
      std::vector<std::atomic<int>> times(1000);
      backwards->launch(
          backwards->pool,
          [](void* times, int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) ++static_cast<std::atomic<int>*>(times)[i];
          },
          times.data(), iterations);
      for (int64_t i = 0; i < 1000; ++i)
        ASSERT_EQ(times[static_cast<size_t>(i)], i < iterations ? 1 : 0) << i;
    }
  }
}

}  // namespace
}  // namespace lathe::runtime
