// Which schedules become kernels, by times that are made up.
#include "tuner/family_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace lathe::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

SizedTimes along(const std::vector<int64_t>& values, std::vector<std::vector<double>> seconds) {
  SizedTimes times{.seconds = std::move(seconds)};
  for (int64_t value : values) times.sizes.push_back({{value}});
  return times;
}

/// The first member that has the values, as a plan asks.
size_t member_for(const std::vector<ChosenMember>& members, const std::vector<int64_t>& values) {
  for (size_t m = 0; m < members.size(); ++m) {
    bool has = true;
    for (size_t d = 0; d < values.size(); ++d)
      has &= values[d] >= members[m].dims[d].min && values[d] <= members[m].dims[d].max;
    if (has) return m;
  }
  ADD_FAILURE() << "no member";
  return 0;
}

TEST(FamilyChoice, OneScheduleServesAllWhereOthersGainLittle) {
  const auto members = choose_members(along({4, 64, 512}, {{1.00, 5.05, 40}, {1.02, 5.00, 40.5}}));
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].schedule, 0u);
  EXPECT_THAT(members[0].sizes, ElementsAre(0, 1, 2));
  EXPECT_EQ(members[0].dims[0].min, 0);
  EXPECT_EQ(members[0].dims[0].max, kEnd);
}

TEST(FamilyChoice, CutsAtTheGeometricMean) {
  const auto members = choose_members(along({4, 16, 256}, {{1, 2, 60}, {3, 6, 30}}));
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].dims[0], (schedule::DimValues{0, 64, 16}));
  EXPECT_EQ(members[0].schedule, 0u);
  EXPECT_EQ(members[1].schedule, 1u);
  EXPECT_THAT(members[1].sizes, ElementsAre(2));
  EXPECT_EQ(member_for(members, {64}), 0u);
  EXPECT_EQ(member_for(members, {65}), 1u);
}

TEST(FamilyChoice, NeighboursAreToldApart) {
  const auto members = choose_members(along({2, 3}, {{1, 9}, {9, 1}}));
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(member_for(members, {2}), 0u);
  EXPECT_EQ(member_for(members, {3}), 1u);
}

TEST(FamilyChoice, WeightsDecide) {
  SizedTimes times = along({4, 64}, {{1.0, 1.1}, {1.1, 1.0}});
  times.sizes[0].weight = 99;
  const auto members = choose_members(times);
  ASSERT_EQ(members.size(), 1u) << "a tenth of a hundredth is worth no kernel";
  EXPECT_EQ(members[0].schedule, 0u);
  EXPECT_EQ(members[0].dims[0].typical, 4);
  times.sizes[0].weight = 1;
  EXPECT_EQ(choose_members(times).size(), 2u);
}

TEST(FamilyChoice, NobodyServesWhereItWasNotMeasured) {
  const auto members = choose_members(along({4, 64}, {{1, 0}, {0, 2}}));
  ASSERT_EQ(members.size(), 2u);
  EXPECT_THAT(members[0].sizes, ElementsAre(0));
  EXPECT_THAT(members[1].sizes, ElementsAre(1));
}

TEST(FamilyChoice, SizesWithoutTimesAreTheNeighbours) {
  const auto members = choose_members(along({4, 64, 512}, {{1, 2, 0}}));
  ASSERT_EQ(members.size(), 1u);
  EXPECT_THAT(members[0].sizes, ElementsAre(0, 1));
  EXPECT_EQ(member_for(members, {512}), 0u);
  EXPECT_THAT(choose_members(along({4}, {{0}})), IsEmpty());
  EXPECT_THAT(choose_members({}), IsEmpty());
}

TEST(FamilyChoice, OneSizeOfNoDimensionIsAMember) {
  const auto members = choose_members({.sizes = {{{}}}, .seconds = {{2}, {1}}});
  ASSERT_EQ(members.size(), 1u);
  EXPECT_EQ(members[0].schedule, 1u);
  EXPECT_THAT(members[0].dims, IsEmpty());
}

// At random: all values have a member, at the sizes it is the one that says so, and no single schedule costs
// less than what was chosen.
TEST(FamilyChoice, CoversAllValuesAndBeatsOneSchedule) {
  std::mt19937 random(7);
  const auto below = [&](uint32_t n) { return static_cast<int64_t>(random() % n); };
  for (int round = 0; round < 100; ++round) {
    const std::vector<int64_t> a = {2, 16, 100}, b = {3, 5, 512};
    SizedTimes times;
    for (int64_t x : a)
      for (int64_t y : b)
        if (below(8) != 0) times.sizes.push_back({{x, y}, 1.0 + static_cast<double>(below(4))});
    const size_t count = times.sizes.size();
    times.seconds.assign(5, std::vector<double>(count));
    for (auto& of_schedule : times.seconds)
      for (double& seconds : of_schedule) seconds = 1 + static_cast<double>(below(100)) / 100;
    const auto members = choose_members(times);
    const auto loss = [&](size_t size, size_t schedule) {
      double best = 1e9;
      for (const auto& of_schedule : times.seconds) best = std::min(best, of_schedule[size]);
      return times.sizes[size].weight * (times.seconds[schedule][size] / best - 1);
    };
    double all = 0, weight = 0;
    size_t served = 0;
    for (size_t m = 0; m < members.size(); ++m)
      for (size_t size : members[m].sizes) {
        EXPECT_EQ(member_for(members, times.sizes[size].values), m);
        all += loss(size, members[m].schedule);
        ++served;
      }
    EXPECT_EQ(served, count);
    for (const auto& size : times.sizes) weight += size.weight;
    for (size_t s = 0; s < times.seconds.size(); ++s) {
      double alone = 0;
      for (size_t size = 0; size < count; ++size) alone += loss(size, s);
      EXPECT_LE(all / weight + kMemberGain * static_cast<double>(members.size()),
                alone / weight + kMemberGain + 1e-9);
    }
    for (int i = 0; i < 20; ++i) member_for(members, {below(2000), below(2000)});
  }
}

}  // namespace
}  // namespace lathe::tuner
