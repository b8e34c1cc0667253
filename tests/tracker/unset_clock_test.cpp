#include "tracker/unset_clock.h"

#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

/// What was measured before a clock was set forward would else be older than its worker's connection, and
/// what was measured after it was set back older than its last good canary.
TEST(UnsetClock, GoesOnWhateverTheWallClockIsSetTo) {
  int64_t wall = 1'000'000, passed = 50;
  const auto now = unset_clock([&] { return wall; }, [&] { return passed; });
  EXPECT_EQ(now(), 1'000'000);
  passed += 10;
  for (const int64_t set : {2'000'000, 0}) {
    wall = set;
    EXPECT_EQ(now(), 1'000'010);
  }
}

TEST(UnsetClock, IsTheWallClock) {
  const int64_t seconds = unset_clock()() / 1000;
  EXPECT_NEAR(static_cast<double>(seconds), static_cast<double>(time(nullptr)), 2);
}

}  // namespace
}  // namespace lathe::tracker
