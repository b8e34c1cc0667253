#include "tracker/work_shares.h"

#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

TEST(WorkShares, WhoAsksForTooMuchWaitsAndNobodyElse) {
  WorkShares shares(0.5, 2);
  double now = 100;
  EXPECT_EQ(shares.wait("greedy", now), 0);
  // A burst, and one long question more, which is paid for afterwards.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(shares.wait("greedy", now), 0) << i;
    shares.charge("greedy", 0.9, now);
  }
  EXPECT_NEAR(shares.wait("greedy", now), 1.4, 1e-9);  // 0.7 too much, at half a second a second
  EXPECT_EQ(shares.wait("modest", now), 0);
  now += 1.5;
  EXPECT_EQ(shares.wait("greedy", now), 0);
}

TEST(WorkShares, InTheLongRunEachHasItsPart) {
  WorkShares shares(0.5, 2);
  double worked = 0;
  for (double now = 0; now < 1000; now += 0.01) {
    if (shares.wait("greedy", now) > 0) continue;
    shares.charge("greedy", 0.1, now);
    worked += 0.1;
  }
  EXPECT_NEAR(worked, 500, 5);
}

TEST(WorkShares, WhatIsSavedUpIsBoundedAndTimeDoesNotRunBack) {
  WorkShares shares(0.5, 2);
  shares.charge("user", 1, 0);
  shares.charge("user", 3, 1'000'000);
  EXPECT_NEAR(shares.wait("user", 1'000'000), 2, 1e-9);
  EXPECT_NEAR(shares.wait("user", 5), 2, 1e-9);
  EXPECT_NEAR(shares.wait("user", 1'000'001), 1, 1e-9);
}

}  // namespace
}  // namespace lathe::tracker
