#include "tracker/mailbox.h"

#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

Finished result(TrialId trial, Outcome outcome) {
  return {.trial = trial,
          .device = std::string(65536, ' '),
          .result = {.outcome = outcome,
                     .samples = std::vector<float>(outcome == Outcome::kOk ? 1000 : 0, 1.0f),
                     .message = std::string(outcome == Outcome::kOk ? 0 : 16384, 'x')}};
}

/// 100,000 of them were more than a gigabyte.
TEST(Mailbox, HoldsSoMuchOfWhatNobodyTakes) {
  constexpr TrialId kTrials = 8'000;
  Mailbox box;
  for (TrialId trial = 1; trial <= kTrials; ++trial)
    box.put(result(trial, trial % 2 == 0 ? Outcome::kOk : Outcome::kCrashed));
  box.put(result(kFirstRace, Outcome::kOk));
  const std::vector<Finished> all = box.take();
  EXPECT_TRUE(box.empty());
  ASSERT_EQ(all.size(), kTrials + 1);
  size_t bytes = 0;
  for (const Finished& one : all)
    bytes += 4 * one.result.samples.size() + one.result.message.size() + one.device.size();
  EXPECT_LE(bytes, Mailbox::kBytes + 4000);
  EXPECT_EQ(all[0].result.message.size(), 16384u);
  EXPECT_EQ(all[1].result.samples.size(), 1000u);
  EXPECT_EQ(all[kTrials - 2].result.outcome, Outcome::kCrashed) << "how it ended is kept";
  EXPECT_EQ(all[kTrials - 1].result.outcome, Outcome::kOk);
  EXPECT_EQ(all[kTrials].result.samples.size(), 1000u) << "of a race nothing is in the database";
  box.put(result(1, Outcome::kOk));
  EXPECT_EQ(box.take().at(0).result.samples.size(), 1000u) << "once they are taken there is room";
}

}  // namespace
}  // namespace lathe::tracker
