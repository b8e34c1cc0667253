#include "core/support/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lathe {
namespace {

TEST(Statistics, SummaryOfSamples) {
  Summary summary = summarize(std::vector<float>{4, 1, 2, 100, 3});
  EXPECT_EQ(summary.median, 3);
  EXPECT_EQ(summary.p25, 2);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.mad, 1);
  EXPECT_EQ(summarize(std::vector<float>{1, 2}).median, 1.5);
  EXPECT_EQ(summarize(std::vector<float>{7}).p25, 7);
}

TEST(Statistics, SpearmanSeesOrderOnly) {
  EXPECT_DOUBLE_EQ(spearman(std::vector<float>{1, 2, 3}, std::vector<float>{1, 10, 1000}), 1);
  EXPECT_DOUBLE_EQ(spearman(std::vector<float>{1, 2, 3}, std::vector<float>{5, 4, 3}), -1);
  EXPECT_DOUBLE_EQ(spearman(std::vector<float>{1, 1, 1}, std::vector<float>{5, 4, 3}), 0);
  // Ties share their mean rank: ranks 0.5 0.5 2 against 0 1 2.
  EXPECT_NEAR(spearman(std::vector<float>{1, 1, 2}, std::vector<float>{1, 2, 3}), 1.5 / std::sqrt(3.0),
              1e-12);
}

}  // namespace
}  // namespace lathe
