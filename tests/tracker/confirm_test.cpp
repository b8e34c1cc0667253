// Which schedules are measured again before one is called the best, on a farm that is a formula.
#include "tracker/confirm.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "core/support/temporary_folder.h"
#include "tracker/store_journal.h"

namespace lathe::tracker {
namespace {

/// Every candidate takes the seconds that `seconds` has for its trace, and answers go to the store.
class TableFarm final : public FarmClient {
 public:
  explicit TableFarm(const std::string& database) : journal_(open_store_journal(database, std::nullopt)) {
    journal_->start();
  }
  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override {
    std::vector<Submission> answers = journal_->add(job, candidates);
    std::vector<Record> records;
    for (size_t i = 0; i < candidates.size(); ++i)
      finish(job, answers[i].trial, candidates[i].trace, records);
    journal_->commit(records);
    return answers;
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return std::exchange(ended_, {}); }
  size_t in_flight(JobId) override { return ended_.size(); }
  FarmStatus status() override { return {}; }
  void cancel(JobId) override {}

  std::map<std::string, float> seconds;  // by trace
  std::map<std::string, int> failing;    // how often more its trials time out
  double noise = 0;                      // of each sample, as a share
  double common_noise = 0;               // of a measurement: all its samples have it

 private:
  void finish(JobId job, TrialId trial, const std::string& trace, std::vector<Record>& records) {
    wire::Result result{.lease = ++leases_, .trial = trial, .samples = {seconds.at(trace)}};
    if (noise > 0 || common_noise > 0) {
      result.samples.clear();
      const double common = common_noise * normal_(random_);
      for (int i = 0; i < 20; ++i)
        result.samples.push_back(seconds.at(trace) *
                                 static_cast<float>(std::exp(common + noise * normal_(random_))));
    }
    if (failing[trace]-- > 0) result.outcome = Outcome::kTimeout, result.samples.clear();
    const std::string device = R"({"host":"h"})";
    ended_.push_back({trial, job, "w", device, result});
    records.emplace_back(Leased{trial, {.lease = leases_, .worker = "w"}, device});
    records.emplace_back(ended_.back());
  }

  std::unique_ptr<Journal> journal_;
  std::vector<Finished> ended_;
  LeaseId leases_ = 0;
  std::mt19937 random_{1};
  std::normal_distribution<double> normal_;
};

class Confirm : public ::testing::Test {
 protected:
  Confirm() {
    target_ = store_.add_target({.name = "cpu", .architecture = "a"});
    begin("t");
  }

  /// From here on another job, of a workload of its own.
  void begin(const std::string& text) {
    workload_ = store_.add_workload({.digest = text, .text = text});
    job_ = store_.create_job({.target = target_, .tasks = {{.workload = workload_}}});
  }

  /// As the search measures it.
  void search(const std::map<std::string, float>& seconds) {
    std::vector<Candidate> candidates;
    for (const auto& [trace, each] : seconds) {
      farm_.seconds[trace] = each;
      candidates.push_back({workload_, trace, trace});
    }
    farm_.submit(static_cast<JobId>(job_), candidates);
    farm_.poll(static_cast<JobId>(job_), {});
  }
  void search(const std::string& trace, float seconds) { search({{trace, seconds}}); }

  db::BestQuery query() const { return {.workload = workload_, .target = target_, .threads = 1}; }

  /// Confirms all leaders; `default_trace` is one that was searched.
  void confirm(const std::string& default_trace = "") {
    tuner::DefaultRecords defaults;
    for (const db::Measurement& known : store_.history(workload_, target_))
      if (known.trace == default_trace) defaults[workload_] = known;
    const auto of = [&](db::WorkloadId) { return query(); };
    std::vector<Leader> leaders =
        find_leaders(store_, std::span(&workload_, 1), of, std::span(&default_trace, 1), defaults);
    Patience patience({});
    const auto job = static_cast<JobId>(job_);
    EXPECT_TRUE(
        measure_again(leaders, db::Purpose::kConfirm, job, {}, farm_, patience, [] { return false; }));
    std::vector<Leader> told = find_told(store_, std::span(&workload_, 1), of, defaults);
    EXPECT_TRUE(measure_again(told, db::Purpose::kTell, job, {}, farm_, patience, [] { return false; }));
  }

  /// Of the job, by trace: how often each was measured again to rank it, and to tell its time.
  std::map<std::string, std::pair<int, int>> confirmations() {
    std::map<std::string, std::pair<int, int>> counts;
    for (const auto& [candidate, again] : store_.confirmations(job_))
      counts[candidate.second] = {again.ranked, again.told};
    return counts;
  }
  std::string best() { return store_.best(query()).value().measurement.trace; }

  using Counts = std::map<std::string, std::pair<int, int>>;
  TemporaryFolder folder_;
  db::Store store_{folder_ / "t.db"};
  TableFarm farm_{folder_ / "t.db"};
  db::WorkloadId workload_ = 0;
  db::TargetId target_ = 0;
  db::JobId job_ = 0;
};

TEST_F(Confirm, TheLeadersAreThoseOfTheBeginning) {
  search({{"a", 1.0f}, {"b", 1.1f}, {"c", 1.2f}, {"d", 1.3f}, {"e", 1.4f}, {"sixth", 1.5f}});
  // The search was kind to all; measured again the five are slower than the sixth was once.
  farm_.seconds = {{"a", 1.8f}, {"b", 1.6f}, {"c", 1.7f}, {"d", 1.9f}, {"e", 1.9f}, {"sixth", 1.9f}};
  confirm();
  EXPECT_EQ(confirmations(),
            (Counts{{"a", {2, 0}}, {"b", {2, 2}}, {"c", {2, 0}}, {"d", {2, 0}}, {"e", {2, 0}}}));
  EXPECT_EQ(best(), "b");
}

TEST_F(Confirm, TheDefaultScheduleIsMeasuredAsOften) {
  search({{"default", 2.0f}, {"a", 1.0f}, {"b", 1.1f}, {"c", 1.2f}, {"d", 1.3f}, {"e", 1.4f}});
  farm_.seconds = {{"a", 2.3f}, {"b", 2.2f}, {"c", 2.1f}, {"d", 2.1f}, {"e", 2.1f}, {"default", 2.0f}};
  confirm("default");
  EXPECT_EQ(
      confirmations(),
      (Counts{
          {"a", {2, 0}}, {"b", {2, 0}}, {"c", {2, 0}}, {"d", {2, 0}}, {"e", {2, 0}}, {"default", {2, 2}}}));
  EXPECT_EQ(best(), "default") << "no task is worse than untuned";
}

TEST_F(Confirm, ADefaultAmongTheLeadersIsNotMeasuredTwiceAsOften) {
  search({{"default", 1.0f}, {"a", 1.1f}});
  confirm("default");
  EXPECT_EQ(confirmations(), (Counts{{"a", {2, 0}}, {"default", {2, 2}}}));
}

/// Nothing could be compared with it else.
TEST_F(Confirm, ADefaultThatIsNotBelievedIsMeasuredAgain) {
  search({{"default", 2.0f}, {"s", 1.9f}});
  EXPECT_EQ(store_.set_suspect(store_.add_worker("w"), 0), 2);
  search({{"a", 1.0f}, {"b", 1.1f}, {"c", 1.2f}, {"d", 1.3f}, {"e", 1.4f}});
  confirm("default");
  EXPECT_EQ(
      confirmations(),
      (Counts{
          {"a", {2, 2}}, {"b", {2, 0}}, {"c", {2, 0}}, {"d", {2, 0}}, {"e", {2, 0}}, {"default", {2, 0}}}));
}

TEST_F(Confirm, WhatTheBestIsComparedWithIsToldAsOften) {
  search({{"default", 1.1f}, {"a", 1.0f}});
  confirm("default");
  EXPECT_EQ(confirmations(), (Counts{{"a", {2, 2}}, {"default", {2, 2}}}));
}

TEST_F(Confirm, WhatWasNotMeasuredHasAnotherChance) {
  search({{"a", 1.0f}, {"b", 1.1f}});
  farm_.failing["a"] = 1;
  confirm();
  EXPECT_EQ(confirmations(), (Counts{{"a", {2, 2}}, {"b", {2, 0}}}));
  EXPECT_EQ(best(), "a");
  // But not for ever.
  farm_.failing["a"] = 1000;
  confirm();
  EXPECT_EQ(confirmations(), (Counts{{"a", {2, 2}}, {"b", {4, 0}}}));
}

TEST_F(Confirm, WhatTellsDoesNotRank) {
  search({{"a", 1.0f}, {"b", 1.1f}});
  confirm();
  const db::MeasurementId id = store_.best(query()).value().measurement.id;
  const auto at = [&](float seconds) {
    store_.confirm(id, std::vector<float>(6, seconds), {}, /*tells=*/true);
  };
  at(3.0f), at(3.0f), at(3.0f);
  const db::Measurement told = store_.best(query()).value().measurement;
  EXPECT_EQ(told.trace, "a") << "what is learnt of a winner does not choose another";
  EXPECT_FLOAT_EQ(told.seconds, 1.0f);
  EXPECT_FLOAT_EQ(told.told_seconds, 3.0f) << "the median of five processes";
}

TEST_F(Confirm, WhoeverWantsAnEndWaitsForNoRound) {
  search({{"a", 1e-3F}, {"b", 2e-3F}});
  const auto of = [&](db::WorkloadId) { return query(); };
  const std::string none;
  std::vector<Leader> leaders = find_leaders(store_, std::span(&workload_, 1), of, std::span(&none, 1), {});
  ASSERT_EQ(leaders.size(), 2u);
  Patience patience({});
  int asked = 0;
  EXPECT_FALSE(measure_again(leaders, db::Purpose::kConfirm, static_cast<JobId>(job_), {}, farm_, patience,
                             [&] { return ++asked > 0; }));
  EXPECT_EQ(asked, 1);
  for (const Leader& leader : leaders) EXPECT_LE(leader.again.ranked, 1) << "no second round";
}

/// M2: who led after one measurement each was in part lucky, and so was who led after more of them; the time
/// that is told of the best is not.
struct Noise {
  const char* name;
  double of_samples, of_measurements;
};

class ToldWithoutLuck : public Confirm, public ::testing::WithParamInterface<Noise> {};

TEST_P(ToldWithoutLuck, OfManySearches) {
  constexpr int kSearches = 150, kCandidates = 40;
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  farm_.noise = GetParam().of_samples;
  farm_.common_noise = GetParam().of_measurements;
  double told = 0, ranked = 0, lucky = 0, place = 0;  // means
  for (int search_number = 0; search_number < kSearches; ++search_number) {
    begin(fmt::format("search {}", search_number));
    farm_.seconds.clear();
    std::map<std::string, float> seconds;
    for (int i = 0; i < kCandidates; ++i)
      seconds[fmt::format("{} of {}", i, search_number)] =
          static_cast<float>(1e-3 * std::exp(0.3 * std::abs(normal(random))));
    search(seconds);
    const auto best = [&] {
      db::BestQuery any = query();
      any.accept_unconfirmed = true;
      return store_.best(any).value().measurement;
    };
    const auto excess = [&](const db::Measurement& of, double said) {
      return (said / seconds.at(of.trace) - 1) / kSearches;
    };
    const db::Measurement before = best();
    lucky += excess(before, before.told_seconds);
    confirm();
    const db::Measurement chosen = best();
    told += excess(chosen, chosen.told_seconds);
    ranked += excess(chosen, chosen.seconds);
    for (const auto& [trace, faster] : seconds)
      place += (faster < seconds.at(chosen.trace)) / double{kSearches};
  }
  RecordProperty("bias_percent", fmt::format("{:.2f}", 100 * told));
  RecordProperty("bias_of_what_ranks_percent", fmt::format("{:.2f}", 100 * ranked));
  RecordProperty("bias_unconfirmed_percent", fmt::format("{:.2f}", 100 * lucky));
  RecordProperty("true_place", fmt::format("{:.2f}", 1 + place));
  EXPECT_LE(std::abs(told), 0.01);
  // Else there was no luck that could have been told.
  EXPECT_LT(lucky, -0.02);
  EXPECT_LT(place, 4) << "of " << kCandidates;
}

INSTANTIATE_TEST_SUITE_P(Confirm, ToldWithoutLuck,
                         ::testing::Values(Noise{"Samples", 0.1, 0}, Noise{"Measurements", 0, 0.1},
                                           Noise{"Both", 0.1, 0.1}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace lathe::tracker
