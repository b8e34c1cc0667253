#include "bench/ranking.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lathe::bench
