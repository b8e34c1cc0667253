#include "core/support/signed_rank.h"

#include <gtest/gtest.h>

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
INSTANTIATE_TEST_SUITE_P(Sizes, SignedRankCoverage, ::testing::Values(12, 24, 50, 51, 120));

}  // namespace
}  // namespace lathe
