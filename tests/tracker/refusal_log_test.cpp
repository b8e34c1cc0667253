#include "tracker/refusal_log.h"

#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

TEST(RefusalLog, SaysEachOnce) {
  RefusalLog log;
  EXPECT_TRUE(log.is_news("w"));
  for (RefusalLog::Time now = 100h; now < 101h; now += 1min) {
    EXPECT_FALSE(log.is_news("w"));
    EXPECT_EQ(log.left_out(now), 0u) << "it was said";
  }
}

/// Whoever is refused under a thousand names leaves it neither full nor blind.
TEST(RefusalLog, IsNotBlindAfterManyTexts) {
  RefusalLog log;
  EXPECT_EQ(log.left_out(100h), 0u);
  size_t said = 0;
  for (int i = 0; i < 5000; ++i) said += log.is_news("stranger " + std::to_string(i));
  EXPECT_EQ(said, RefusalLog::kAMinute);
  EXPECT_EQ(log.left_out(100h + 59s), 0u);
  EXPECT_EQ(log.left_out(100h + 60s), 5000 - said);
  EXPECT_EQ(log.left_out(100h + 120s), 0u);
  EXPECT_TRUE(log.is_news("a worker of another release"));
  EXPECT_TRUE(log.is_news("stranger 4999")) << "it was not said before";
}

TEST(RefusalLog, ForgetsTheOldest) {
  RefusalLog log;
  RefusalLog::Time now = 100h;
  EXPECT_TRUE(log.is_news("first"));
  for (size_t i = 0; i < RefusalLog::kRemembered; ++i) {
    log.left_out(now += 1min);
    EXPECT_TRUE(log.is_news(std::to_string(i)));
  }
  EXPECT_FALSE(log.is_news("0"));
  EXPECT_TRUE(log.is_news("first"));
}

}  // namespace
}  // namespace lathe::tracker
