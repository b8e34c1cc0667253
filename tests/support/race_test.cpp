// Races between builds that are formulas.
#include "core/support/race.h"

#include <gtest/gtest.h>

#include <cmath>

#include "schedules/random.h"

namespace lathe {
namespace {

/// A machine on which others run at times: a disturbed side takes half as long again.
class FakeTurns final : public TurnTimer {
 public:
  FakeTurns(double incumbent, double challenger, uint64_t seed = 1)
      : incumbent_(incumbent), challenger_(challenger), random_(seed) {}
  Turn turn() override {
    double machine = 1 + drift * std::sin(elapsed_);  // of both
    Turn times{machine * noisy(incumbent_), machine * noisy(challenger_)};
    elapsed_ += times.incumbent + times.challenger;
    return times;
  }
  double elapsed() const override { return elapsed_; }

  double noise = 0.02, disturbed = 0, drift = 0;

 private:
  double noisy(double seconds) {
    seconds *= 1 + noise * (random_.unit() - 0.5);
    return random_.unit() < disturbed ? 1.5 * seconds : seconds;
  }
  double incumbent_, challenger_, elapsed_ = 0;
  schedule::Random random_;
};

TEST(Race, ALargeDifferenceIsClearAtTheFirstLook) {
  FakeTurns faster(0.020, 0.015), slower(0.020, 0.0228);
  RaceResult won = race(faster, {}), lost = race(slower, {});
  EXPECT_EQ(won.verdict, RaceVerdict::kFaster);
  EXPECT_EQ(won.turns, 10);
  EXPECT_NEAR(won.ratio, 4 / 3.0, 0.03);
  EXPECT_NEAR(won.incumbent / won.challenger, won.ratio, 1e-12);
  EXPECT_EQ(lost.verdict, RaceVerdict::kSlower);
  EXPECT_LT(lost.high, 1);
  EXPECT_LE(lost.low, lost.ratio);
  EXPECT_LE(lost.ratio, lost.high);
}

TEST(Race, ASmallDifferenceIsFoundInNoise) {
  FakeTurns turns(0.0100, 0.0097);
  turns.noise = 0.1;
  turns.drift = 0.3;
  RaceResult result = race(turns, {});
  EXPECT_EQ(result.verdict, RaceVerdict::kFaster);
  EXPECT_GT(result.turns, 10);
}

TEST(Race, EqualsAreSaidToBe) {
  FakeTurns turns(0.01, 0.01);
  RaceResult result = race(turns, {});
  EXPECT_EQ(result.verdict, RaceVerdict::kEqual);
  EXPECT_GT(result.low, 0.99);
  EXPECT_LT(result.high, 1.0101);
}

TEST(Race, SaysWhenTheTimeIsOverFirst) {
  FakeTurns turns(0.1, 0.1);
  turns.disturbed = 0.5;
  RaceResult result = race(turns, {.seconds = 5});
  EXPECT_EQ(result.verdict, RaceVerdict::kUndecided);
  EXPECT_LT(result.low, 1);
  EXPECT_GT(result.high, 1);
  EXPECT_LT(turns.elapsed(), 5.5);
  // A model that is too slow for its time has its first look all the same.
  FakeTurns slow(10, 5);
  result = race(slow, {.seconds = 1});
  EXPECT_EQ(result.turns, 10);
  EXPECT_EQ(result.verdict, RaceVerdict::kFaster);
  // Ctrl-C ends it at once.
  FakeTurns stopped(0.01, 0.005);
  EXPECT_EQ(race(stopped, {.stop = [] { return true; }}).turns, 0);
}

TEST(Race, IsRarelyWrongThoughItLooksAgainAndAgain) {
  int wrong = 0, missed = 0;
  constexpr int kRaces = 200;
  for (int i = 0; i < kRaces; ++i) {
    FakeTurns turns(0.01, 0.01, static_cast<uint64_t>(i));
    turns.noise = 0.2;
    turns.disturbed = 0.3;
    RaceResult result = race(turns, {.seconds = 4});
    wrong += result.verdict == RaceVerdict::kFaster || result.verdict == RaceVerdict::kSlower;
    missed += result.low > 1 || result.high < 1;
  }
  EXPECT_LE(wrong, 0.05 * kRaces);
  EXPECT_LE(missed, 0.05 * kRaces);
}

TEST(Race, WhatIsUndecidedGoesByOtherEvidence) {
  EXPECT_TRUE(prefers_challenger(RaceVerdict::kFaster, false));
  EXPECT_FALSE(prefers_challenger(RaceVerdict::kSlower, true));
  for (RaceVerdict open : {RaceVerdict::kEqual, RaceVerdict::kUndecided})
    for (bool favoured : {false, true}) EXPECT_EQ(prefers_challenger(open, favoured), favoured);
}

}  // namespace
}  // namespace lathe
