#include "core/runtime/timing.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

namespace lathe::runtime {
namespace {

TEST(Timing, SummarizesASteadyRun) {
  int64_t runs = 0;
  auto sleep = [&] {
    ++runs;
    usleep(2000);
  };
  Timing timing =
      time_runs(sleep, {.warm_up_seconds = 0.01, .most_seconds = 1, .least_runs = 5, .wanted_width = 0.5});
  EXPECT_GE(timing.runs, 5);
  EXPECT_GT(runs, timing.runs) << "warm-up runs do not count";
  EXPECT_GE(timing.least, 0.002);
  EXPECT_LE(timing.least, timing.low);
  EXPECT_LE(timing.low, timing.median);
  EXPECT_LE(timing.median, timing.high);
}

TEST(Timing, EndsWhenTheTimeIsSpent) {
  int64_t runs = 0;
  auto uneven = [&] { usleep(runs++ % 2 ? 100 : 5000); };
  auto start = std::chrono::steady_clock::now();
  Timing timing =
      time_runs(uneven, {.warm_up_seconds = 0, .most_seconds = 0.1, .least_runs = 3, .wanted_width = 0.001});
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_LT(timing.low, timing.high);
}

TEST(Timing, RunsAsOftenAsAskedWhateverItTakes) {
  auto sleep = [] { usleep(1000); };
  Timing timing =
      time_runs(sleep, {.warm_up_seconds = 0, .most_seconds = 0, .least_runs = 7, .wanted_width = 0});
  EXPECT_EQ(timing.runs, 7);
}

}  // namespace
}  // namespace lathe::runtime
