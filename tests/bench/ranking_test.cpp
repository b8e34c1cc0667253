#include "bench/ranking.h"

#include <gtest/gtest.h>

#include "bench/speed_reached.h"

namespace lathe::bench {
namespace {

/// A candidate of one store with one feature.
tuner::Sample sample(int task, float feature, double seconds) {
  tuner::Sample result;
  result.task = task;
  result.features.width = 1;
  result.features.values = {feature};
  result.seconds = seconds;
  return result;
}

TEST(Ranking, OfCandidatesThatRan) {
  std::vector<tuner::Sample> seen, unseen;
  for (int i = 1; i <= 20; ++i) {
    seen.push_back(sample(0, static_cast<float>(i), i));
    unseen.push_back(sample(1, static_cast<float>(i), i % 2 ? i : INFINITY));
  }
  std::optional<Ranking> ranking = rank_unseen(seen, unseen);
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->candidates, 10u);
  EXPECT_GT(ranking->spearman, 0.8);
  EXPECT_EQ(ranking->top1_in_10, 1);
}

TEST(Ranking, NothingWhenAllFailed) {
  std::vector<tuner::Sample> seen{sample(0, 1, 1), sample(0, 2, 2)}, unseen{sample(1, 1, INFINITY)};
  EXPECT_FALSE(rank_unseen(seen, unseen));
}

TEST(SpeedReached, IsOfTheBestSoFar) {
  const double seconds[] = {INFINITY, 4, 8, 2};
  EXPECT_EQ(speed_reached(seconds, 1, 1), 0);
  EXPECT_EQ(speed_reached(seconds, 3, 1), 0.25);
  EXPECT_EQ(speed_reached(seconds, 4, 1), 0.5);
  EXPECT_EQ(speed_reached(seconds, 9, 1), 0.5) << "it ended after 4";
  EXPECT_EQ(speed_reached({}, 9, 1), 0) << "it has no answer";
  EXPECT_EQ(speed_reached({}, 9, INFINITY), 0) << "nor has any other";
}

}  // namespace
}  // namespace lathe::bench
