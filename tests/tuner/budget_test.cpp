#include "tuner/budget.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lathe::tuner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr BudgetOptions kNoChance{.random_choice = 0};

std::optional<size_t> choose(const std::vector<TaskProgress>& tasks) {
  schedule::Random random(1);
  return next_task(tasks, random, kNoChance);
}

TEST(Budget, EachTaskHasAFirstRound) {
  std::vector<TaskProgress> tasks(3);
  EXPECT_EQ(choose(tasks), 0u);
  tasks[0].best_after = {1000};
  EXPECT_EQ(choose(tasks), 1u);
  tasks[1].best_after = {1000};
  EXPECT_EQ(choose(tasks), 2u);
}

TEST(Budget, GainIsTheGradientOfThePaperDownToTheLimit) {
  // alpha * slope + (1 - alpha) * headroom / rounds, times the weight; the slope over the last three rounds
  // is 2.
  std::vector<TaskProgress> tasks = {
      {.weight = 3, .limit = 1, .family = 1, .best_after = {20, 12, 10, 8, 6}}};
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 3 * (0.2 * 2 + 0.8 * 5.0 / 5));
  // Its family reaches its own limit: at half of that the task would take 2 seconds, 4 less than now.
  tasks.push_back({.limit = 7, .family = 1, .best_after = {7}});
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 3 * (0.2 * 2 + 0.8 * 4));
  // A third of it: no hope from there.
  tasks[1].best_after = {21};
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 3 * (0.2 * 2 + 0.8 * 5.0 / 5));
  tasks[1] = {.limit = 7, .family = 2, .best_after = {7}};
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 3 * (0.2 * 2 + 0.8 * 5.0 / 5));
}

TEST(Budget, RoundsInVainTakeFromHopeAndTheLimitBoundsIt) {
  std::vector<TaskProgress> tasks = {{.limit = 2, .best_after = {10, 10, 10, 10}}};
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 0.8 * 8.0 / 4 / 4);
  // It fell by 90 in three rounds and can fall by 1 more.
  tasks = {{.limit = 9, .best_after = {100, 70, 40, 10}}};
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 1);
  // Faster than the limit: another algorithm. A twentieth is taken to be left.
  tasks = {{.limit = 12, .best_after = {10}}};
  EXPECT_DOUBLE_EQ(headroom(tasks[0]), 0.5);
  EXPECT_DOUBLE_EQ(expected_gain(tasks, 0), 0.4);
}

TEST(Budget, TimeGoesWhereTheHeadroomIs) {
  // Equal in time; the second is at 90% of its limit.
  EXPECT_EQ(choose({{.limit = 1, .best_after = {10}}, {.limit = 9, .best_after = {10}}}), 0u);
  EXPECT_EQ(choose({{.limit = 9, .best_after = {10}}, {.limit = 1, .best_after = {10}}}), 1u);
  // Ten times the time and near the limit, or far from it.
  EXPECT_EQ(choose({{.limit = 99, .best_after = {100}}, {.limit = 1, .best_after = {20}}}), 1u);
}

TEST(Budget, EndsWhenNoRoundIsWorthIt) {
  std::vector<double> flat(400, 10.0);
  std::vector<TaskProgress> tasks = {{.limit = 1, .best_after = flat}, {.limit = 9, .best_after = flat}};
  EXPECT_TRUE(nothing_to_gain(tasks, 20));
  tasks[0].best_after.back() = 9.5;  // it has just become faster
  EXPECT_FALSE(nothing_to_gain(tasks, 19.5));
  tasks[0].exhausted = true;
  EXPECT_TRUE(nothing_to_gain(tasks, 19.5));
  tasks[1].best_after.clear();  // never tried
  EXPECT_FALSE(nothing_to_gain(tasks, 19.5));
}

TEST(Budget, WeightAndLatencyDecide) {
  EXPECT_EQ(choose({{.weight = 1, .best_after = {3}}, {.weight = 4, .best_after = {1}}}), 1u);
  EXPECT_EQ(choose({{.weight = 1, .best_after = {9}}, {.weight = 4, .best_after = {1}}}), 0u);
}

TEST(Budget, TaskThatStoppedImprovingYields) {
  std::vector<double> flat(20, 10.0);
  EXPECT_EQ(choose({{.best_after = flat}, {.best_after = {3, 2}}}), 1u);
  // Even when its family is ten times faster.
  EXPECT_EQ(choose({{.limit = 1, .family = 1, .best_after = flat},
                    {.limit = 3, .family = 1, .best_after = {10, 10}},
                    {.family = 2, .best_after = {3, 2}}}),
            1u);
}

TEST(Budget, FailingAndExhaustedTasksTakeNothing) {
  EXPECT_EQ(choose({{.weight = 100, .best_after = {kInfinity}}, {.best_after = {1e-6}}}), 1u);
  EXPECT_EQ(choose({{.weight = 100, .best_after = {1}, .exhausted = true}, {.best_after = {1e-6}}}), 1u);
  EXPECT_EQ(choose({{.best_after = {1}, .exhausted = true}}), std::nullopt);
  EXPECT_EQ(choose({}), std::nullopt);
  // A first success after failures has no slope yet.
  std::vector<TaskProgress> late = {{.best_after = {kInfinity, 4}}};
  EXPECT_DOUBLE_EQ(expected_gain(late, 0), 0.8 * 4 / 2);
}

TEST(Budget, ChanceVisitsEveryTaskAtTheRateAsked) {
  std::vector<TaskProgress> tasks = {
      {.weight = 100, .best_after = {1}}, {.best_after = {1}}, {.best_after = {1}}};
  schedule::Random random(1);
  int others = 0;
  for (int i = 0; i < 10'000; ++i) others += *next_task(tasks, random, {.random_choice = 0.3}) != 0;
  EXPECT_NEAR(others / 10'000.0, 0.2, 0.02);  // two of three of the 30%
}

TEST(Budget, BeatsEqualSharesOnADecayingProblem) {
  // Task i's latency after t rounds is floor_i + drop_i / (1 + t).
  struct Curve {
    double weight, floor, drop;
  };
  constexpr Curve kCurves[] = {{1, 1, 50},      {8, 2, 10}, {1, 0.01, 0.01},
                               {1, 0.02, 0.01}, {2, 1, 1},  {1, 0.1, 0}};
  auto latency = [&](size_t i, size_t rounds) { return kCurves[i].floor + kCurves[i].drop / rounds; };
  std::vector<TaskProgress> tasks;
  for (size_t i = 0; i < std::size(kCurves); ++i)
    tasks.push_back({.weight = kCurves[i].weight, .family = int(i)});
  schedule::Random random(1);
  constexpr int kRounds = 60;
  for (int round = 0; round < kRounds; ++round) {
    size_t i = *next_task(tasks, random);
    tasks[i].best_after.push_back(latency(i, tasks[i].best_after.size() + 1));
  }
  double ours = 0, equal = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    ours += kCurves[i].weight * tasks[i].best();
    equal += kCurves[i].weight * latency(i, kRounds / tasks.size());
  }
  EXPECT_LT(ours, 0.85 * equal);
}

TEST(Budget, RoundsFitTheBudget) {
  EXPECT_EQ(round_size(512, 16), 8);
  EXPECT_EQ(round_size(2000, 20), 25);
  EXPECT_EQ(round_size(100'000, 10), 64);
  EXPECT_EQ(round_size(10, 0), 8);
}

}  // namespace
}  // namespace lathe::tuner
