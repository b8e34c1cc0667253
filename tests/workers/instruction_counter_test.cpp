#include "workers/instruction_counter.h"

#include <gtest/gtest.h>

namespace lathe::worker {
namespace {

/// Four instructions or so a round, which no compiler takes out.
void work(int64_t rounds) {
  for (int64_t i = 0; i < rounds; ++i) asm volatile("" : "+r"(i));
}

TEST(InstructionCounter, CountsTheSameEachTimeOrSaysWhyNot) {
  InstructionCounter counter;
  if (!counter.missing().empty()) GTEST_SKIP() << counter.missing();
  const int64_t once = counter.count([] { work(100000); }), again = counter.count([] { work(100000); }),
                twice = counter.count([] { work(200000); });
  EXPECT_GE(once, 100000);
  EXPECT_NEAR(static_cast<double>(again), static_cast<double>(once), 0.01 * static_cast<double>(once));
  EXPECT_NEAR(static_cast<double>(twice), 2 * static_cast<double>(once), 0.01 * static_cast<double>(once));
}

}  // namespace
}  // namespace lathe::worker
