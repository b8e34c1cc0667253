// Which schedules are measured again before one is called the best, on a farm that is a formula.
#include "tracker/confirm.h"

#include <gtest/gtest.h>

#include <map>

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
    for (size_t i = 0; i < candidates.size(); ++i) finish(job, answers[i].trial, candidates[i].trace);
    return answers;
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return std::exchange(ended_, {}); }
  size_t in_flight(JobId) override { return ended_.size(); }
  FarmStatus status() override { return {}; }
  void cancel(JobId) override {}

  std::map<std::string, float> seconds;  // by trace
  std::map<std::string, int> failing;    // how often more its trials time out

 private:
  void finish(JobId job, TrialId trial, const std::string& trace) {
    wire::Result result{.lease = ++leases_, .trial = trial, .samples = {seconds.at(trace)}};
    if (failing[trace]-- > 0) result.outcome = Outcome::kTimeout, result.samples.clear();
    const std::string device = R"({"host":"h"})";
    const Record records[] = {Leased{trial, {.lease = leases_, .worker = "w"}, device},
                              Finished{trial, job, "w", device, result}};
    journal_->commit(records);
    ended_.push_back(std::get<Finished>(records[1]));
  }

  std::unique_ptr<Journal> journal_;
  std::vector<Finished> ended_;
  LeaseId leases_ = 0;
};

class Confirm : public ::testing::Test {
 protected:
  Confirm() {
    workload_ = store_.add_workload({.digest = "d", .text = "t"});
    target_ = store_.add_target({.name = "cpu", .architecture = "a"});
    job_ = store_.create_job({.target = target_, .tasks = {{.workload = workload_}}});
  }

  /// As the search measures it.
  void search(const std::string& trace, float seconds) {
    farm_.seconds[trace] = seconds;
    Candidate candidate{workload_, trace, trace};
    farm_.submit(static_cast<JobId>(job_), std::span(&candidate, 1));
    farm_.poll(static_cast<JobId>(job_), {});
  }

  db::BestQuery query() const { return {.workload = workload_, .target = target_, .threads = 1}; }

  /// Confirms all leaders; `default_trace` is one that was searched.
  void confirm(const std::string& default_trace = "") {
    tuner::DefaultRecords defaults;
    for (const db::Measurement& known : store_.history(workload_, target_))
      if (known.trace == default_trace) defaults[workload_] = known;
    std::vector<Leader> leaders = find_leaders(
        store_, std::span(&workload_, 1), [&](db::WorkloadId) { return query(); }, defaults);
    Patience patience({});
    confirm_leaders(leaders, static_cast<JobId>(job_), {}, farm_, patience);
  }

  /// Confirmations by trace.
  std::map<std::string, int64_t> confirmations() {
    std::map<std::string, int64_t> counts;
    for (db::Query row = store_.database().query(
             "SELECT candidate.trace, count(*) FROM confirmation c JOIN measurement m ON m.id = "
             "c.measurement JOIN candidate ON candidate.id = m.candidate GROUP BY 1");
         row.step();) {
      std::string trace = row.text();
      counts[trace] = row.integer();
    }
    return counts;
  }
  std::string best() { return store_.best(query()).value().measurement.trace; }

  using Counts = std::map<std::string, int64_t>;
  TemporaryFolder folder_;
  db::Store store_{folder_ / "t.db"};
  TableFarm farm_{folder_ / "t.db"};
  db::WorkloadId workload_ = 0;
  db::TargetId target_ = 0;
  db::JobId job_ = 0;
};

TEST_F(Confirm, TheLeadersAreThoseOfTheBeginning) {
  search("a", 1.0f);
  search("b", 1.1f);
  search("c", 1.2f);
  search("lucky", 1.3f);
  // The search was kind to all; measured again the three are slower than the fourth was once.
  farm_.seconds = {{"a", 1.6f}, {"b", 1.4f}, {"c", 1.5f}, {"lucky", 1.7f}};
  confirm();
  EXPECT_EQ(confirmations(), (Counts{{"a", 2}, {"b", 2}, {"c", 2}}));
  EXPECT_EQ(best(), "b");
}

TEST_F(Confirm, TheDefaultScheduleIsMeasuredAsOften) {
  search("default", 2.0f);
  search("a", 1.0f);
  search("b", 1.1f);
  search("c", 1.2f);
  farm_.seconds = {{"a", 2.3f}, {"b", 2.2f}, {"c", 2.1f}, {"default", 2.0f}};
  confirm("default");
  EXPECT_EQ(confirmations(), (Counts{{"a", 2}, {"b", 2}, {"c", 2}, {"default", 2}}));
  EXPECT_EQ(best(), "default") << "no task is worse than untuned";
}

TEST_F(Confirm, ADefaultAmongTheLeadersIsNotMeasuredTwiceAsOften) {
  search("default", 1.0f);
  search("a", 1.1f);
  confirm("default");
  EXPECT_EQ(confirmations(), (Counts{{"a", 2}, {"default", 2}}));
}

TEST_F(Confirm, WhatWasNotMeasuredHasAnotherChance) {
  search("a", 1.0f);
  search("b", 1.1f);
  farm_.failing["a"] = 1;
  confirm();
  EXPECT_EQ(confirmations(), (Counts{{"a", 2}, {"b", 2}}));
  EXPECT_EQ(best(), "a");
  // But not for ever.
  farm_.failing["a"] = 1000;
  confirm();
  EXPECT_EQ(confirmations(), (Counts{{"a", 2}, {"b", 4}}));
}

}  // namespace
}  // namespace lathe::tracker
