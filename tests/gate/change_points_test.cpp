#include "gate/change_points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lathe::gate {
namespace {

/// Nights at these levels, so many of each, with scatter of 1% and now and then a bad night.
std::vector<double> nights(const std::vector<std::pair<int, double>>& levels, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, 0.01);
  std::uniform_real_distribution<double> uniform;
  std::vector<double> series;
  for (const auto& [count, level] : levels)
    for (int i = 0; i < count; ++i)
      series.push_back(level * std::exp(normal(random) + (uniform(random) < 0.03 ? 0.05 : 0)));
  return series;
}

TEST(ChangePoints, FindsAStep) {
  const std::vector<ChangePoint> points = change_points(nights({{60, 0.002}, {40, 0.0021}}, 1));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_NEAR(static_cast<double>(points[0].at), 60, 1);
  EXPECT_NEAR(points[0].before, 0.002, 2e-5);
  EXPECT_NEAR(points[0].after / points[0].before, 1.05, 0.01);
  EXPECT_LT(points[0].p, 1e-9);
}

TEST(ChangePoints, FindsARegressionThatWasMended) {
  const std::vector<ChangePoint> points = change_points(nights({{50, 1}, {10, 1.04}, {50, 1}}, 2));
  ASSERT_EQ(points.size(), 2u);
  EXPECT_NEAR(static_cast<double>(points[0].at), 50, 2);
  EXPECT_NEAR(static_cast<double>(points[1].at), 60, 2);
}

TEST(ChangePoints, ASeriesOfNoiseHasHardlyAny) {
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !change_points(nights({{100, 1}}, seed)).empty();
  EXPECT_LE(found, 10);
}

TEST(ChangePoints, ASmallChangeIsNone) {
  std::vector<double> series(20, 1.0);
  series.insert(series.end(), 20, 1.004);
  EXPECT_TRUE(change_points(series).empty());
  EXPECT_EQ(change_points(series, {.least_change = 0.003}).size(), 1u);
}

TEST(ChangePoints, ShortAndConstantSeriesHaveNone) {
  EXPECT_TRUE(change_points({}).empty());
  EXPECT_TRUE(change_points(std::vector<double>{1}).empty());
  EXPECT_TRUE(change_points(std::vector<double>{1, 2, 1, 2, 1, 2, 1}).empty());
  EXPECT_TRUE(change_points(std::vector<double>(50, 0.003)).empty());
}

TEST(ChangePoints, TheTestIsWelchs) {
  // R: t.test(log(c(1.00, 1.02, 0.99, 1.01)), log(c(1.10, 1.13, 1.09, 1.16)))$p.value
  const std::vector<ChangePoint> points =
      change_points(std::vector<double>{1.00, 1.02, 0.99, 1.01, 1.10, 1.13, 1.09, 1.16}, {.alpha = 0.1});
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].at, 4u);
  EXPECT_NEAR(points[0].p, 0.00183022392366, 1e-9);
}

}  // namespace
}  // namespace lathe::gate
