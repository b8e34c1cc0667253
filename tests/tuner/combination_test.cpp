// The choice over a whole model, on models that are formulas.
#include "tuner/combination.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/support/error.h"
#include "schedules/random.h"

namespace lathe::tuner {
namespace {

struct Implementation {
  double seconds = 0, megabytes = 0;  // alone; of constants
};

/// A machine with one cache: when the constants of all tasks together do not fit, each task reads its own
/// from memory. A build takes half a second.
class FakeModel final : public ModelTimer {
 public:
  FakeModel(std::vector<std::vector<Implementation>> tasks, Combination start)
      : tasks_(std::move(tasks)), incumbent_(std::move(start)), noise_(1) {}

  void challenge(const Combination& challenger) override {
    challenges.push_back(elapsed_);
    elapsed_ += 0.5;
    if (challenger == broken) fail("cannot be built");
    challenger_ = challenger;
  }
  void accept() override {
    incumbent_ = challenger_;
    accepted.push_back(incumbent_);
  }
  Turn turn() override {
    Turn times{noisy(seconds(incumbent_)), noisy(seconds(challenger_))};
    if (elapsed_ < deceived_until) times.challenger *= 0.9;
    elapsed_ += times.incumbent + times.challenger;
    return times;
  }
  Profile profile() override {
    Profile profile;
    for (size_t i = 0; i < tasks_.size(); ++i) {
      profile.incumbent.push_back(seconds_of(incumbent_, i));
      profile.challenger.push_back(seconds_of(challenger_, i));
    }
    elapsed_ += 0.1;
    return profile;
  }
  double elapsed() const override { return elapsed_; }

  double seconds(const Combination& combination) const {
    double sum = 0;
    for (size_t i = 0; i < tasks_.size(); ++i) sum += seconds_of(combination, i);
    return sum;
  }
  std::vector<size_t> counts() const {
    std::vector<size_t> counts;
    for (const auto& task : tasks_) counts.push_back(task.size());
    return counts;
  }

  double cache_megabytes = 1e9, second_per_megabyte = 0;
  double noise = 0, disturbed = 0;  // of a time, relative; the share of times that take half as long again
  double deceived_until = 0;        // until then challengers look faster than they are
  Combination broken;
  std::vector<double> challenges;  // when they were begun
  std::vector<Combination> accepted;

 private:
  double seconds_of(const Combination& combination, size_t i) const {
    double megabytes = 0;
    for (size_t j = 0; j < tasks_.size(); ++j) megabytes += tasks_[j].at(combination[j]).megabytes;
    const Implementation& own = tasks_[i].at(combination[i]);
    return own.seconds + (megabytes > cache_megabytes ? own.megabytes * second_per_megabyte : 0);
  }
  double noisy(double seconds) {
    seconds *= 1 + noise * (noise_.unit() - 0.5);
    return noise_.unit() < disturbed ? 1.5 * seconds : seconds;
  }

  std::vector<std::vector<Implementation>> tasks_;
  Combination incumbent_, challenger_;
  schedule::Random noise_;
  double elapsed_ = 0;
};

/// Four layers; alone, the fat one is the fastest.
FakeModel layers() {
  return FakeModel(std::vector(4, std::vector<Implementation>{{1.45e-3, 2}, {1e-3, 10}}), {1, 1, 1, 1});
}

TEST(ChooseCombination, FindsWhatIsFasterTogetherThoughNoSingleExchangeIs) {
  FakeModel model = layers();
  model.cache_megabytes = 9;
  model.second_per_megabyte = 5e-5;
  ASSERT_GT(model.seconds({0, 1, 1, 1}), model.seconds({1, 1, 1, 1}));
  model.noise = 0.02;
  model.disturbed = 0.2;
  Chosen chosen = choose_combination(model.counts(), {1, 1, 1, 1}, {}, model, {.seconds = 60});
  EXPECT_EQ(chosen.combination, Combination({0, 0, 0, 0}));
  EXPECT_NEAR(chosen.before, 6.0e-3, 0.4e-3);
  EXPECT_NEAR(chosen.after / chosen.before, model.seconds({0, 0, 0, 0}) / model.seconds({1, 1, 1, 1}), 0.01);
}

TEST(ChooseCombination, FindsTheSinglesThatPay) {
  FakeModel model({{{1.0e-3, 1}, {0.97e-3, 2}, {1.1e-3, 3}}, {{2e-3, 1}}, {{1e-3, 1}, {0.9e-3, 5}}},
                  {0, 0, 0});
  model.noise = 0.01;
  model.disturbed = 0.1;
  Chosen chosen = choose_combination(model.counts(), {0, 0, 0}, {}, model, {.seconds = 60});
  EXPECT_EQ(chosen.combination, Combination({1, 0, 1}));
}

TEST(ChooseCombination, KeepsTheFatWhereTheyFit) {
  FakeModel model = layers();
  model.noise = 0.02;
  Chosen chosen = choose_combination(model.counts(), {1, 1, 1, 1}, {}, model, {.seconds = 60});
  EXPECT_EQ(chosen.combination, Combination({1, 1, 1, 1}));
  EXPECT_EQ(chosen.before, chosen.after);
}

TEST(ChooseCombination, NoiseIsNoReason) {
  for (int tasks = 1; tasks <= 20; ++tasks) {
    std::vector<Implementation> equals{{1e-3, 1}, {1e-3, 2}, {1e-3, 3}};
    Combination start(static_cast<size_t>(tasks), 1);
    FakeModel model(std::vector(static_cast<size_t>(tasks), equals), start);
    model.noise = 0.1;
    model.disturbed = 0.3;
    Chosen chosen = choose_combination(model.counts(), start, {}, model, {.seconds = 60});
    EXPECT_EQ(chosen.combination, start);
    EXPECT_GT(chosen.challengers, 1);
  }
}

TEST(ChooseCombination, WhatWasAcceptedByLuckIsGivenBack) {
  FakeModel model({{{1e-3, 1}, {1e-3, 2}}}, {0});
  model.noise = 0.02;
  model.deceived_until = 1.2;
  Chosen chosen =
      choose_combination(model.counts(), {0}, std::vector<Combination>{{1}}, model, {.seconds = 0.4});
  ASSERT_EQ(model.accepted, std::vector<Combination>{{1}});
  EXPECT_EQ(chosen.combination, Combination({0}));
  EXPECT_EQ(chosen.before, chosen.after);
}

TEST(ChooseCombination, ProposalsComeFirst) {
  FakeModel model({{{1e-3, 1}, {0.9e-3, 2}}, {{1e-3, 1}, {0.9e-3, 2}}}, {0, 0});
  Chosen chosen =
      choose_combination(model.counts(), {0, 0}, std::vector<Combination>{{1, 0}}, model, {.seconds = 0.4});
  EXPECT_EQ(chosen.combination, Combination({1, 0}));  // and no time for more
}

TEST(ChooseCombination, KeepsToItsTime) {
  std::vector<Implementation> near{{1e-3, 1}, {0.999e-3, 2}, {0.998e-3, 3}, {1.001e-3, 4}};
  for (double seconds : {0.0, 0.7, 3.0}) {
    FakeModel model(std::vector(30, near), Combination(30, 3));
    model.noise = 0.05;
    Chosen chosen = choose_combination(model.counts(), Combination(30, 3), {}, model, {.seconds = seconds});
    bool compared = chosen.combination != Combination(30, 3) || !model.accepted.empty();
    for (size_t i = 0; i + compared < model.challenges.size(); ++i) EXPECT_LT(model.challenges[i], seconds);
    EXPECT_EQ(chosen.challengers == 0, seconds == 0);
  }
  FakeModel model(std::vector(30, near), Combination(30, 3));
  int looks = 0;
  Chosen chosen = choose_combination(model.counts(), Combination(30, 3), {}, model,
                                     {.seconds = 60, .stop = [&] { return ++looks > 2; }});
  EXPECT_LE(chosen.challengers, 2);
}

TEST(ChooseCombination, WhatCannotBeBuiltIsPassedOver) {
  FakeModel model({{{1e-3, 1}, {0.8e-3, 2}}, {{1e-3, 1}, {0.9e-3, 2}}}, {0, 0});
  model.broken = {1, 1};
  Chosen chosen = choose_combination(model.counts(), {0, 0}, {}, model, {.seconds = 60});
  EXPECT_EQ(chosen.combination, Combination({0, 0}));  // all rounds and compositions are the broken one

  FakeModel other({{{1e-3, 1}, {0.8e-3, 2}, {0.9e-3, 3}}, {{1e-3, 1}}}, {0, 0});
  other.broken = {1, 0};
  EXPECT_EQ(choose_combination(other.counts(), {0, 0}, {}, other, {.seconds = 60}).combination,
            Combination({2, 0}));
}

TEST(ChooseCombination, NothingToChooseFrom) {
  FakeModel model({{{1e-3, 1}}, {{1e-3, 1}}}, {0, 0});
  Chosen chosen = choose_combination(model.counts(), {0, 0}, {}, model, {.seconds = 60});
  EXPECT_EQ(chosen.combination, Combination({0, 0}));
  EXPECT_EQ(chosen.challengers, 0);
}

}  // namespace
}  // namespace lathe::tuner
