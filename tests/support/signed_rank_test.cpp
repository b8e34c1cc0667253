#include "core/support/signed_rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lathe {
namespace {

TEST(SignedRank, AgreesWithTheTables) {
  // For n = 10 the sum of ranks is 8 at most with a chance of 2.44%, 9 with 3.22% (Hollander and Wolfe, table
  // A.4): the interval begins at the ninth of the 55 means.
  std::vector<double> values;
  for (int i = 0; i < 10; ++i) values.push_back(std::pow(2, i));
  const std::vector<double> smallest = {1, 1.5, 2, 2.5, 3, 4, 4.5, 5, 6};  // of the means
  Location found = hodges_lehmann(values, 0.95);
  EXPECT_DOUBLE_EQ(found.low, smallest[8]);
  EXPECT_LT(found.low, found.centre);
  EXPECT_LT(found.centre, found.high);
  EXPECT_DOUBLE_EQ(hodges_lehmann(std::vector<double>{1, 2, 4}, 0.9).centre, 2.25);
}

// R: wilcox.test(x, conf.int = TRUE, conf.level = 0.95, exact = TRUE), and with 0.996.
TEST(SignedRank, AgreesWithR) {
  const std::vector<double> x = {0.031, -0.012, 0.044, 0.018, 0.027,  -0.003, 0.052,
                                 0.011, 0.036,  0.009, 0.023, -0.021, 0.015,  0.047};
  const Location wide = hodges_lehmann(x, 0.996), narrow = hodges_lehmann(x, 0.95);
  EXPECT_NEAR(narrow.centre, 0.0205, 1e-12);
  EXPECT_NEAR(narrow.low, 0.0075, 1e-12);
  EXPECT_NEAR(narrow.high, 0.0335, 1e-12);
  EXPECT_NEAR(wide.low, -0.0030, 1e-12);
  EXPECT_NEAR(wide.high, 0.0415, 1e-12);
}

/// A quantile as R's qsignrank(tail, n) gives it.
struct Quantile {
  int n;
  double tail;
  size_t critical;
};

class SignedRankQuantile : public ::testing::TestWithParam<Quantile> {};

TEST_P(SignedRankQuantile, IsTheRankOfTheMeanWhereTheIntervalBegins) {
  const auto [n, tail, critical] = GetParam();
  std::vector<double> values, means;
  for (int i = 0; i < n; ++i) values.push_back(std::sqrt(i));
  for (int i = 0; i < n; ++i)
    for (int j = i; j < n; ++j) means.push_back((values[i] + values[j]) / 2);
  std::sort(means.begin(), means.end());
  const Location found = hodges_lehmann(values, 1 - 2 * tail);
  EXPECT_DOUBLE_EQ(found.low, means[critical - 1]);
  EXPECT_DOUBLE_EQ(found.high, means[means.size() - critical]);
}

constexpr Quantile kQuantiles[] = {
    {10, 0.025, 9},     {10, 0.002, 2},    {14, 8e-5, 1},      {20, 0.005, 38},
    {20, 8e-5, 13},     {40, 0.002, 200},  {56, 0.025, 558},   {56, 8e-5, 350},
    {100, 0.025, 1956}, {100, 8e-5, 1446}, {150, 0.005, 4295}, {150, 8e-5, 3673},
};
INSTANTIATE_TEST_SUITE_P(, SignedRankQuantile, ::testing::ValuesIn(kQuantiles));

TEST(SignedRank, TooFewValuesSayNothing) {
  EXPECT_TRUE(std::isinf(hodges_lehmann(std::vector<double>(5, 1.0), 0.95).low));
  EXPECT_EQ(hodges_lehmann(std::vector<double>(6, 1.0), 0.95).low, 1);
  EXPECT_EQ(hodges_lehmann(std::vector<double>{7}, 0.95).centre, 7);
}

class SignedRankCoverage : public ::testing::TestWithParam<int> {};

TEST_P(SignedRankCoverage, OfTheCentreOfANoisySeries) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, 0.05);
  std::uniform_real_distribution<double> unit;
  int covered = 0;
  constexpr int kRounds = 500;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> values;
    for (int i = 0; i < GetParam(); ++i) {
      double value = 0.1 + noise(random);
      if (unit(random) < 0.2) value += unit(random) < 0.5 ? 0.5 : -0.5;  // a disturbance, of either side
      values.push_back(value);
    }
    Location found = hodges_lehmann(values, 0.95);
    covered += found.low <= 0.1 && 0.1 <= found.high;
  }
  EXPECT_GT(covered, 0.92 * kRounds);
  EXPECT_LT(covered, 0.99 * kRounds);
}

// Exact, and by the normal distribution.
INSTANTIATE_TEST_SUITE_P(Sizes, SignedRankCoverage, ::testing::Values(12, 24, 51, 120, 201));

}  // namespace
}  // namespace lathe
