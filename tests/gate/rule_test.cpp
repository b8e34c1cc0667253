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
  for (size_t i = 0; !trial.verdict(); ++i) trial.add(0.002, 0.002 * ratios[i % ratios.size()]);
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

}  // namespace
}  // namespace lathe::gate
