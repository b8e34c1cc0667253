// What canaries say of a worker, one after the other.
#include "tracker/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::tracker {
namespace {

using testing::HasSubstr;
using Change = Health::Change;

class HealthTest : public ::testing::Test {
 protected:
  /// The next canary of the worker, in multiples of 10 us.
  Change hear(double compute, double memory = 1) {
    const wire::Canary canary{++number_, 1, compute * 1e-5, memory * 1e-5};
    return health_.hear(canary).value();
  }
  void make_baseline() {
    for (int i = 0; i < 5; ++i) EXPECT_EQ(hear(1), Change::kNone);
    ASSERT_TRUE(health_.has_baseline());
  }

  uint32_t number_ = 0;
  Health health_{"w", "c"};
};

TEST_F(HealthTest, TwoCanariesInARowThatAreOffMakeItSuspect) {
  make_baseline();
  EXPECT_EQ(hear(1.06), Change::kNone);
  EXPECT_EQ(hear(1.04), Change::kNone) << "within 5%: the row is broken";
  EXPECT_EQ(hear(1.06), Change::kNone);
  EXPECT_EQ(hear(1.06), Change::kSuspect);
  EXPECT_THAT(health_.row().suspect,
              HasSubstr("2 canaries in a row were off its baseline: compute +6.0% (usual: within 5.0%)"));
  EXPECT_EQ(hear(1.06), Change::kNone) << "it is already";
}

TEST_F(HealthTest, FasterIsOffToo) {
  make_baseline();
  hear(1, 0.9);
  EXPECT_EQ(hear(1, 0.9), Change::kSuspect);
  EXPECT_THAT(health_.row().suspect, HasSubstr("memory -10.0%"));
}

TEST_F(HealthTest, TwoGoodOnesMakeItTrusted) {
  make_baseline();
  hear(1.2), hear(1.2);
  EXPECT_EQ(hear(1), Change::kNone);
  EXPECT_TRUE(health_.suspect());
  EXPECT_EQ(hear(1), Change::kTrusted);
  EXPECT_FALSE(health_.suspect());
}

TEST_F(HealthTest, ACopySaysNothing) {
  make_baseline();
  const wire::Canary off{++number_, 1, 1.2e-5, 1e-5};
  EXPECT_EQ(health_.hear(off), Change::kNone);
  EXPECT_EQ(health_.hear(off), std::nullopt);
  EXPECT_FALSE(health_.suspect());
}

TEST_F(HealthTest, ARestlessMachineIsJudgedByWhatIsUsualThere) {
  for (double memory : {1.0, 1.1, 0.95, 1.05, 1.0}) hear(1, memory);
  EXPECT_NEAR(health_.row().memory.tolerance, 0.2, 1e-9) << "twice the 10% seen";
  EXPECT_NEAR(health_.row().compute.tolerance, 0.05, 1e-9);
  hear(1, 1.15);
  EXPECT_EQ(hear(1, 1.15), Change::kNone);
  hear(1, 1.25);
  EXPECT_EQ(hear(1, 1.25), Change::kSuspect);
}

TEST_F(HealthTest, WhatStaysFasterIsTheNewBaseline) {
  make_baseline();
  for (int i = 0; i < 4; ++i) hear(0.8);
  EXPECT_TRUE(health_.suspect());
  EXPECT_EQ(hear(0.8), Change::kTrusted);
  EXPECT_DOUBLE_EQ(health_.row().compute.seconds, 0.8e-5);
}

TEST_F(HealthTest, WhatStaysSlowerDoesNot) {
  make_baseline();
  for (int i = 0; i < 50; ++i) hear(1.2, 0.8);
  EXPECT_TRUE(health_.suspect());
  EXPECT_DOUBLE_EQ(health_.row().compute.seconds, 1e-5);
  health_.trust();  // an administrator's word
  EXPECT_FALSE(health_.suspect());
  for (int i = 0; i < 7; ++i) EXPECT_EQ(hear(1.2, 0.8), Change::kNone);
  EXPECT_DOUBLE_EQ(health_.row().compute.seconds, 1.2e-5);
}

TEST_F(HealthTest, AWorkerThatCannotRunThemIsSuspect) {
  EXPECT_EQ(hear(0, 0), Change::kNone);
  EXPECT_EQ(hear(0, 0), Change::kSuspect);
  EXPECT_THAT(health_.row().suspect, HasSubstr("cannot run the canary kernels"));
}

TEST_F(HealthTest, OtherKernelsHaveAnotherBaseline) {
  make_baseline();
  EXPECT_EQ(health_.hear({++number_, 2, 9e-5, 9e-5}), Change::kNone);
  EXPECT_FALSE(health_.has_baseline());
}

TEST_F(HealthTest, ThreeDistinctCandidatesThatFailWithItAloneMakeItSuspect) {
  EXPECT_EQ(health_.blame(1), Change::kNone);
  EXPECT_EQ(health_.blame(1), Change::kNone);
  EXPECT_EQ(health_.blame(2), Change::kNone);
  EXPECT_EQ(health_.blame(3), Change::kSuspect);
  EXPECT_EQ(hear(1), Change::kNone);
  EXPECT_EQ(hear(1), Change::kTrusted);
  EXPECT_EQ(health_.blame(4), Change::kNone) << "it begins anew";
}

TEST_F(HealthTest, KnowsWhetherItSaidWhatCannotBe) {
  EXPECT_EQ(health_.blame(1, /*lied=*/true), Change::kNone);
  EXPECT_EQ(health_.blame(2, /*lied=*/false), Change::kNone);
  EXPECT_EQ(health_.blame(3, /*lied=*/false), Change::kSuspect);
  EXPECT_TRUE(health_.said_what_cannot_be());
  health_.trust();
  EXPECT_FALSE(health_.said_what_cannot_be());
}

TEST_F(HealthTest, WhoIsContradictedTwiceIsNotTrustedForItsCanaries) {
  make_baseline();
  EXPECT_EQ(health_.contradict(1, "why"), Change::kSuspect);
  EXPECT_EQ(health_.row().suspect, "why");
  hear(1);
  EXPECT_EQ(hear(1), Change::kTrusted) << "it may have been an accident";
  EXPECT_EQ(health_.contradict(1, "why"), Change::kSuspect) << "the same candidate is no other";
  hear(1);
  EXPECT_EQ(hear(1), Change::kTrusted);
  EXPECT_EQ(health_.contradict(2, "why"), Change::kSuspect);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(hear(1), Change::kNone);
  EXPECT_TRUE(health_.suspect());
  EXPECT_TRUE(health_.elsewhere("another class").elsewhere("this one").suspect()) << "nor for a new device";
  health_.trust();
  EXPECT_FALSE(health_.suspect());
  EXPECT_FALSE(health_.elsewhere("another class").suspect());
}

TEST_F(HealthTest, GoesOnFromWhatWasWrittenDown) {
  make_baseline();
  hear(1.2), hear(1.2);
  Health next(health_.row());
  EXPECT_TRUE(next.suspect());
  EXPECT_EQ(next.hear({1, 1, 1e-5, 1e-5}), Change::kNone);
  EXPECT_EQ(next.hear({2, 1, 1e-5, 1e-5}), Change::kTrusted);
}

}  // namespace
}  // namespace lathe::tracker
