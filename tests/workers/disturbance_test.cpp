#include "workers/disturbance.h"

#include <gmock/gmock.h>

#include <deque>
#include <random>

#include "core/support/statistics.h"
#include "workers/jobs.h"
#include "workers/sampler.h"

namespace lathe::worker {
namespace {
using testing::ElementsAre;
using testing::SizeIs;

class FakeLoad final : public LoadProbe {
 public:
  explicit FakeLoad(std::deque<LoadReading> readings) : readings_(std::move(readings)) {}
  LoadReading read() override {
    const LoadReading next = readings_.front();
    readings_.pop_front();
    return next;
  }

 private:
  std::deque<LoadReading> readings_;
};

bool sample(LoadWatch& watch) {
  watch.begin();
  return watch.end();
}

TEST(LoadWatch, SeesWhoWasSwitchedOutAndASlowCanary) {
  FakeLoad load({{7, 5e-6},
                 {7, 5.1e-6},  // nothing
                 {7, 5e-6},
                 {8, 5e-6},  // another process had a core
                 {8, 5e-6},
                 {8, 5.6e-6},  // the canary sings late
                 {8, 5.6e-6},
                 {8, 5e-6},  // it did before
                 {9, 5e-6},
                 {9, 5e-6}});  // switches between samples do no harm
  LoadWatch watch(load, /*best_canary=*/0);
  EXPECT_FALSE(sample(watch));
  EXPECT_TRUE(sample(watch));
  EXPECT_TRUE(sample(watch));
  EXPECT_TRUE(sample(watch));
  EXPECT_FALSE(sample(watch));
  EXPECT_EQ(watch.seen().taken, 5u);
  EXPECT_EQ(watch.seen().disturbed, 3u);
  EXPECT_NEAR(watch.seen().canary, 1.12, 1e-9);
}

TEST(LoadWatch, KnowsTheBestOfEarlierMeasurements) {
  // Slow all the time: only who knew better times can tell.
  FakeLoad load({{0, 6e-6}, {0, 6e-6}, {0, 6e-6}, {0, 6e-6}});
  LoadWatch stranger(load, 0), old_hand(load, 5e-6);
  EXPECT_FALSE(sample(stranger));
  EXPECT_EQ(stranger.best_canary(), 6e-6);
  EXPECT_TRUE(sample(old_hand));
  EXPECT_EQ(old_hand.best_canary(), 5e-6);
}

TEST(LoadWatch, ReadsThisMachine) {
  const auto load = system_load();
  const LoadReading first = load->read(), second = load->read();
  EXPECT_GT(first.canary, 0);
  EXPECT_LT(first.canary, 0.1);
  EXPECT_GE(second.switches, first.switches);
  EXPECT_GE(stolen_seconds(std::vector{0}), 0);
}

TEST(Stolen, IsTheEighthColumnOfTheCpusAsked) {
  const std::string stat =
      "cpu  1 2 3 4 5 6 7 900 9 10\n"
      "cpu0 1 2 3 4 5 6 7 100 9 10\n"
      "cpu1 1 2 3 4 5 6 7 250 9 10\n"
      "cpu11 1 2 3 4 5 6 7 400 9 10\n"
      "intr 1 2 3\n";
  const double tick = stolen_seconds(stat, std::vector{0}) / 100;
  EXPECT_GT(tick, 0);
  EXPECT_DOUBLE_EQ(stolen_seconds(stat, std::vector{1}), 250 * tick);
  EXPECT_DOUBLE_EQ(stolen_seconds(stat, std::vector{0, 11}), 500 * tick);
  EXPECT_EQ(stolen_seconds(stat, std::vector{5}), 0);
  EXPECT_EQ(stolen_seconds("cpu0 1 2 3\n", std::vector{0}), 0);  // a kernel that does not tell
  EXPECT_EQ(stolen_seconds("", std::vector{0}), 0);
}

constexpr wire::Evaluation kThree{
    .min_samples = 3, .max_samples = 4, .budget_seconds = 1, .relative_interval = 0};

TEST(Sampler, ADisturbedSampleIsTakenAgain) {
  Sampler sampler(kThree);
  for (double seconds : {1.0, 2.0, 3.0}) {
    sampler.add(9, true);
    EXPECT_FALSE(sampler.done(0.1));
    sampler.add(seconds, false);
  }
  sampler.add(4, false);
  EXPECT_TRUE(sampler.done(0.1));
  EXPECT_THAT(sampler.samples(), ElementsAre(1, 2, 3, 4));
}

TEST(Sampler, WhereAllIsDisturbedThatIsTheMachine) {
  Sampler sampler(kThree);
  int taken = 0;
  for (; !sampler.done(0.1); ++taken) sampler.add(taken, true);
  EXPECT_EQ(taken, 8);  // four again, four that count
  EXPECT_THAT(sampler.samples(), ElementsAre(4, 5, 6, 7));
}

TEST(Sampler, TakesTheFastestOfTheDisturbedWhenTimeIsOver) {
  Sampler sampler(kThree);
  for (double seconds : {9.0, 5.0, 7.0}) sampler.add(seconds, true);
  sampler.add(6, false);
  EXPECT_FALSE(sampler.done(2));
  EXPECT_TRUE(sampler.done(3.1));
  EXPECT_THAT(sampler.samples(), ElementsAre(6, 5, 7));
  Sampler one(kThree);
  one.add(8, true);
  EXPECT_THAT(one.samples(), SizeIs(1));
}

TEST(Sampler, WhatAProcessTakesBeforeItIsWarmDoesNotCount) {
  Sampler sampler(kThree);
  for (double seconds : {16.0, 9.0, 7.0, 6.9}) sampler.add(seconds, false);
  EXPECT_FALSE(sampler.done(0.1));
  EXPECT_THAT(sampler.samples(), ElementsAre(7, 6.9f));
  sampler.add(6, false);
  EXPECT_THAT(sampler.samples(), ElementsAre(7, 6.9f, 6)) << "whatever comes later does";
}

/// Samples taken of a candidate until it is given up, of at most 20.
int taken(const std::vector<double>& seconds, double incumbent) {
  const wire::Evaluation evaluation{.max_samples = 20,
                                    .budget_seconds = 1,
                                    // Equal samples are never precise enough.
                                    .relative_interval = -1,
                                    .incumbent_seconds = incumbent};
  Sampler sampler(evaluation);
  int count = 0;
  for (; !sampler.done(0.1); ++count)
    sampler.add(seconds[static_cast<size_t>(count) % seconds.size()], false);
  return count;
}

TEST(Sampler, GivesUpALoserTheSoonerTheMoreItHasLost) {
  EXPECT_EQ(taken({3.1}, 1), 1);
  EXPECT_EQ(taken({1.4, 1.3}, 1), 2);
  EXPECT_EQ(taken({1.15}, 1), 3);
  EXPECT_EQ(taken({1.05}, 1), 6) << "once its interval is clear of the incumbent";
  EXPECT_EQ(taken({1.02}, 1), 10);
  EXPECT_EQ(taken({1.005}, 1), 20) << "as good as the incumbent: it may be a leader";
  EXPECT_EQ(taken({9}, 0), 20) << "without an incumbent there are no losers";
  EXPECT_EQ(taken({9}, wire::kNoIncumbent), 20);
}

TEST(Sampler, NeverGivesUpAWinner) {
  EXPECT_EQ(taken({1.4, 1.19, 0.9, 0.9, 0.9}, 1), 22) << "after two runs it is warm";
  // As a kernel was measured that is the best of its search.
  EXPECT_EQ(taken({163.1, 86.9, 78.3, 72.0, 70.5, 70.3, 69.9, 70.0, 70.2, 70.4, 70.0,
                   70.2,  70.5, 70.3, 70.4, 69.9, 70.1, 70.1, 70.1, 70.1, 70.1, 70.1},
                  71.5),
            21);
  // One that is given up is never measured as faster than the incumbent.
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.1);
  for (int i = 0; i < 500; ++i) {
    const wire::Evaluation evaluation{.max_samples = 20, .budget_seconds = 1, .incumbent_seconds = 1};
    Sampler sampler(evaluation);
    while (!sampler.done(0.1)) sampler.add((1 + i / 1000.0) * noise(random), false);
    if (sampler.samples().size() < 20) {
      EXPECT_GT(summarize(sampler.samples()).median, 1) << i;
    }
  }
}

TEST(Jobs, CarryTheDisturbance) {
  Reply reply{.samples = {1},
              .disturbance = {.taken = 3, .disturbed = 2, .canary = 1.5, .clock_hz = 3e9},
              .canary_seconds = 5e-6};
  reply.artifact.prologue.reset();
  const Reply read = decode_reply(encode(reply));
  EXPECT_EQ(read.disturbance, reply.disturbance);
  EXPECT_EQ(read.canary_seconds, 5e-6);
  EXPECT_EQ(decode_run_job(encode(RunJob{.canary_seconds = 4e-6})).canary_seconds, 4e-6);
}

}  // namespace
}  // namespace lathe::worker
