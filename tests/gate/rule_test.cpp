#include "gate/rule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe::gate {
namespace {

TEST(Looks, AreAsEarlyAsAgreeingPairsAreEvidence) {
  const auto one = looks_of({}, 1), many = looks_of({}, 25);
  EXPECT_EQ(one[0].pairs, 10);
  EXPECT_EQ(one[2].pairs, 40);
  EXPECT_EQ(many[0].pairs, 14);  // 2^-14 <= 0.2 * 0.01 / 25 < 2^-13
  EXPECT_EQ(many[1].pairs, 28);
  EXPECT_EQ(many[2].pairs, 56);
}

TEST(Looks, ShareAlphaOverLooksAndUnits) {
  double sum = 0;
  for (const Look& look : looks_of({.alpha = 0.05}, 7)) sum += 7 * look.tail;
  EXPECT_NEAR(sum, 0.05, 1e-12);
}

/// Feeds pairs whose candidate takes `ratios` of the baseline, in turn, until there is a verdict.
Trial judged(const std::vector<double>& ratios, const Rule& rule = {}) {
  Trial trial(rule, 1);
  for (size_t i = 0; !trial.verdict(); ++i) trial.add({{0.002}}, {{0.002 * ratios[i % ratios.size()]}});
  return trial;
}

TEST(Trial, DecidesAtTheFirstLookWhenPairsAgree) {
  EXPECT_EQ(judged({1.05}).verdict(), Verdict::kFail);
  EXPECT_EQ(judged({1.02}).verdict(), Verdict::kPass);
  EXPECT_EQ(judged({1.0}).verdict(), Verdict::kPass);
  EXPECT_EQ(judged({0.98}).verdict(), Verdict::kPass);
  EXPECT_EQ(judged({0.95}).verdict(), Verdict::kImproved);
  EXPECT_EQ(judged({1.05}).pairs(), 10);
}

TEST(Trial, TheMarginIsWhatMatters) {
  EXPECT_EQ(judged({1.03001}).verdict(), Verdict::kFail);
  EXPECT_EQ(judged({1.02999}).verdict(), Verdict::kPass);
  EXPECT_EQ(judged({1.02999}, {.margin = 0.02}).verdict(), Verdict::kFail);
}

TEST(Trial, ADisturbedPairDoesNotDecide) {
  EXPECT_EQ(judged({1.0, 1.001, 0.999, 1.0, 4.0, 1.0, 0.998, 1.0, 1.002, 1.0}).verdict(), Verdict::kPass);
}

TEST(Trial, LooksAgainAndEndsInconclusive) {
  const Trial trial = judged({0.8, 1.3, 0.9, 1.15});
  EXPECT_EQ(trial.verdict(), Verdict::kInconclusive);
  EXPECT_EQ(trial.pairs(), 40);
  EXPECT_LT(trial.ln_ratio().low, 0);
  EXPECT_GT(trial.ln_ratio().high, std::log(1.03));
}

TEST(Trial, SlowerByLessThanTheMarginNeedsMorePairsOrPasses) {
  // The lower bound is above 0, the estimate below the margin, the upper bound above it.
  const Trial trial = judged({1.005, 1.06, 1.01, 1.05, 1.02, 1.015, 1.012, 1.04, 1.008, 1.03});
  EXPECT_GT(trial.pairs(), 10);
  EXPECT_NE(trial.verdict(), Verdict::kFail);
}

TEST(Trial, KeepsWhatItWasFed) {
  const Trial trial = judged({1.05});
  EXPECT_EQ(trial.baseline(), std::vector<double>(10, 0.002));
  EXPECT_DOUBLE_EQ(trial.candidate()[9], 0.0021);
  EXPECT_NEAR(trial.ln_ratio().centre, std::log(1.05), 1e-12);
}

class ClockedTrial : public testing::Test {
 protected:
  /// Pairs until there is a verdict.
  static Trial judged(const Process& baseline, const Process& candidate) {
    Trial trial(kRule, 1);
    while (!trial.verdict()) trial.add(baseline, candidate);
    return trial;
  }
  static constexpr Rule kRule{.margin = 0.02, .in_cycles = true, .clock_floor = 0.75, .unfit_share = 0.2};
};

TEST_F(ClockedTrial, AChangeIsOneInCyclesToo) {
  EXPECT_EQ(judged({{1, 2e9}}, {{1.03, 2e9}}).verdict(), Verdict::kFail);
  EXPECT_EQ(judged({{1, 2e9}}, {{0.97, 2e9}}).verdict(), Verdict::kImproved);
  // As many cycles at a lower clock, and at a higher one.
  const Trial slower = judged({{1, 2e9}}, {{1.25, 1.6e9}});
  EXPECT_EQ(slower.verdict(), Verdict::kInconclusive);
  EXPECT_NEAR(slower.ln_cycles()->centre, 0, 1e-12);
  EXPECT_NEAR(slower.ln_ratio().centre, std::log(1.25), 1e-12);
  EXPECT_EQ(judged({{1.25, 1.6e9}}, {{1, 2e9}}).verdict(), Verdict::kPass);
}

TEST_F(ClockedTrial, WhatWasTakenAtALowClockIsDropped) {
  // At 75% of the median it stays, below it does not, however fast it was.
  const Process baseline = {{1, 2e9}, {1, 2e9}, {1, 2e9}, {0.9, 1.5e9}, {0.8, 1.49e9}, {1, 2e9}};
  const Trial trial = judged(baseline, {{1, 2e9}, {1, 2e9}, {1, 2e9}, {1, 2e9}, {1, 2e9}, {1, 2e9}});
  EXPECT_EQ(trial.verdict(), Verdict::kFail);
  EXPECT_EQ(trial.baseline(), std::vector<double>(10, 0.9));
  EXPECT_EQ(trial.clocks().dropped, 10);
  EXPECT_EQ(trial.clocks().taken, 120);
  EXPECT_EQ(trial.clocks().median_hz, 2e9);
}

TEST_F(ClockedTrial, APairOfWhichNothingIsLeftIsNone) {
  Trial trial(kRule, 1);
  const Process whole(10, {1, 2e9});
  trial.add(whole, whole);
  trial.add(whole, {{2, 1e9}});
  EXPECT_EQ(trial.pairs(), 1);
  while (!trial.verdict()) trial.add(whole, whole);
  EXPECT_EQ(trial.verdict(), Verdict::kPass);
  EXPECT_EQ(trial.pairs(), 10);
}

TEST_F(ClockedTrial, MoreThanItMayLoseIsUnfit) {
  const Process whole(5, {1, 2e9});
  // A fifth, and a little more.
  EXPECT_EQ(judged(whole, {{1, 2e9}, {1, 2e9}, {1, 2e9}, {1, 1e9}, {1, 1e9}}).verdict(), Verdict::kPass);
  const Trial unfit = judged(whole, {{2, 2e9}, {2, 2e9}, {2, 1e9}, {2, 1e9}, {2, 1e9}});
  EXPECT_EQ(unfit.verdict(), Verdict::kUnfit);  // before it fails
  EXPECT_EQ(unfit.clocks().dropped, 30);
}

TEST_F(ClockedTrial, WithoutClocksItEnds) {
  const Trial trial = judged({{1}}, {{1}});
  EXPECT_EQ(trial.verdict(), Verdict::kUnfit);
  EXPECT_EQ(trial.pairs(), 0);
  EXPECT_EQ(trial.clocks().taken, 20);
}

}  // namespace
}  // namespace lathe::gate
