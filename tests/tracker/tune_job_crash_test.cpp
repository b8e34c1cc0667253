// A job whose process dies at any moment goes on as if nothing had happened. The farm and the store are the
// real ones but for the workers, whose answers are a function of the trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "tests/schedules/programs.h"
#include "tracker/mailbox.h"
#include "tracker/store_journal.h"
#include "tracker/tune_job.h"

namespace lathe::tracker {
namespace {

constexpr int64_t kTrials = 48;
constexpr int kForEver = std::numeric_limits<int>::max();

struct Crash {};

/// Counts the calls that a life has left; each may be its last, before it was done or right after.
class Fuse {
 public:
  explicit Fuse(int calls) : left_(calls) {}
  template <typename T>
  T burn(const std::function<T()>& call) {
    if (--left_ == 0) throw Crash();
    T result = call();
    if (--left_ == 0) throw Crash();
    return result;
  }

 private:
  int left_;
};

/// Measures when it is polled, the last submitted first: answers never come in order.
class FormulaFarm final : public FarmClient {
 public:
  FormulaFarm(const std::string& database, Fuse& fuse, size_t mailbox_bytes)
      : journal_(open_store_journal(database, std::nullopt)), fuse_(fuse), mailbox_(mailbox_bytes) {
    for (const OpenTrial& open : journal_->start().open)
      waiting_.push_back({open.trial, journal_->recipes(std::span(&open.trial, 1)).at(0).trace});
    leases_ = 1'000'000 * lives_++;
  }
  std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) override {
    return fuse_.burn<std::vector<Submission>>([&] {
      std::vector<Submission> answers = journal_->add(job, candidates);
      for (size_t i = 0; i < answers.size(); ++i)
        if (answers[i].status == Submission::Status::kQueued)
          waiting_.push_back({answers[i].trial, candidates[i].trace});
      return answers;
    });
  }
  std::vector<Finished> poll(JobId job, std::chrono::milliseconds) override {
    return fuse_.burn<std::vector<Finished>>([&] {
      for (int i = 0; i < 3 && !waiting_.empty(); ++i) {
        mailbox_.put(measure(job, waiting_.back().first, waiting_.back().second));
        waiting_.pop_back();
      }
      return mailbox_.take();
    });
  }
  size_t in_flight(JobId) override { return waiting_.size(); }
  FarmStatus status() override { return {.slots = 2}; }
  void cancel(JobId) override { FAIL() << "nobody cancels"; }

 private:
  Finished measure(JobId job, TrialId trial, const std::string& trace) {
    const size_t hash = std::hash<std::string>()(trace);
    wire::Result result{.lease = ++leases_, .trial = trial};
    if (hash % 9 == 0)
      result.outcome = Outcome::kTimeout;
    else
      result.samples.assign(4, 1e-3f + 1e-6f * static_cast<float>(hash % 9973));
    const std::string device = R"({"host":"h"})";
    const Finished finished{trial, job, "w", device, result};
    const Record records[] = {Leased{trial, {.lease = leases_, .worker = "w"}, device}, finished};
    EXPECT_TRUE(journal_->commit(records).empty());
    return finished;
  }

  static inline LeaseId lives_ = 1;
  std::unique_ptr<Journal> journal_;
  Fuse& fuse_;
  Mailbox mailbox_;
  std::vector<std::pair<TrialId, std::string>> waiting_;
  LeaseId leases_ = 0;
};

/// Writes as the job's process does, until it dies.
class FusedWriter final : public JobWriter {
 public:
  FusedWriter(db::Store& store, Fuse& fuse) : writer_(store), fuse_(fuse) {}
  JobRows begin(const JobStart& start) override { return writer_.begin(start); }
  void checkpoint(const JobCheckpoint& checkpoint) override {
    fuse_.burn<int>([&] { return writer_.checkpoint(checkpoint), 0; });
  }
  void add_event(db::JobId job, const std::string& kind, const std::string& body) override {
    writer_.add_event(job, kind, body);
  }
  void end(db::JobId job, db::JobState state, double seconds) override { writer_.end(job, state, seconds); }
  void choose(const db::Choice& choice) override { writer_.choose(choice); }
  void add_model_latency(const db::ModelLatency& latency) override { writer_.add_model_latency(latency); }

 private:
  StoreJobWriter writer_;
  Fuse& fuse_;
};

struct JobOutcome {
  std::vector<std::string> search;   // its trials in order: the candidate, how it ended
  std::vector<std::string> confirm;  // sorted
  std::vector<double> winners;
  int64_t told = 0;          // trials, in the report
  double model_seconds = 0;  // as the search knows it
  int lives = 1;

  bool operator==(const JobOutcome& other) const {
    return search == other.search && confirm == other.confirm && winners == other.winners &&
           told == other.told;
  }
};

std::vector<tuner::Task> tasks() {
  std::vector<tuner::Task> tasks;
  for (int64_t rows : {4, 12}) {
    tir::Func workload = tir::canonical(schedule::dense(rows, 32, 48, kFloat32));
    tasks.push_back({fmt::format("dense_{}", rows), workload, tir::print(workload),
                     tir::workload_digest(workload), 1, 1e6, 1e4});
  }
  return tasks;
}

/// A life of the job, which is the only one of its database, of so many calls.
TuneResult live(db::Store& store, const std::string& database, std::span<const tuner::Task> all, int calls,
                size_t mailbox_bytes, const std::function<void(const std::string&)>& say = {}) {
  Fuse fuse(calls);
  FusedWriter writer(store, fuse);
  FormulaFarm farm(database, fuse, mailbox_bytes);
  TuneRequest request{
      .model = "two", .target = to_text(schedule::avx512_target()), .trials = kTrials, .seed = 7};
  if (std::vector<db::Job> jobs = store.jobs(); !jobs.empty()) request.resume = jobs.front().id;
  request.say = say;
  return run_tune_job(
      request, all, {store, writer, farm}, [](const tuner::SessionStatus&) {}, [] { return false; });
}

/// The job in a database of its own, in lives of so many calls each.
JobOutcome tune(int calls, size_t mailbox_bytes = Mailbox::kBytes) {
  TemporaryFolder folder;
  const std::string database = folder / "tuning.db";
  const std::vector<tuner::Task> all = tasks();
  JobOutcome outcome;
  for (;; ++outcome.lives) {
    db::Store store(database);
    try {
      const TuneResult result = live(store, database, all, calls, mailbox_bytes);
      for (const TuneResult::Winner& winner : result.winners) outcome.winners.push_back(winner.seconds);
      outcome.told = result.status.trials;
      outcome.model_seconds = result.status.model_seconds;
      EXPECT_EQ(store.job_progress(result.job).ended(), kTrials);
      for (const db::TrialRow& row : store.trial_rows({.job = result.job}))
        (row.purpose == db::Purpose::kSearch ? outcome.search : outcome.confirm)
            .push_back(fmt::format("{} {}", static_cast<int>(row.state), store.trial(row.id).trace));
      std::sort(outcome.confirm.begin(), outcome.confirm.end());
      return outcome;
    } catch (const Crash&) {
      if (outcome.lives > 200) throw;
    }
  }
}

TEST(TuneJobCrash, IsAsIfItHadNotBeen) {
  const JobOutcome whole = tune(kForEver);
  EXPECT_EQ(whole.lives, 1);
  EXPECT_EQ(whole.told, kTrials);
  EXPECT_EQ(whole.search.size(), size_t{kTrials});
  EXPECT_GE(whole.confirm.size(), 6u);
  // A round is a submission, a checkpoint and some polls: these numbers hit each of them, before and after.
  for (const int calls : {15, 18, 23}) {
    const JobOutcome torn = tune(calls);
    EXPECT_GT(torn.lives, 4) << calls;
    EXPECT_TRUE(torn == whole) << "in lives of " << calls << " calls";
    EXPECT_EQ(torn.search, whole.search);
    EXPECT_EQ(torn.confirm, whole.confirm);
  }
}

TEST(TuneJobCrash, SaysWhatIsDamagedAndBeginsAnew) {
  TemporaryFolder folder;
  const std::string database = folder / "tuning.db";
  const std::vector<tuner::Task> all = tasks();
  db::Store store(database);
  EXPECT_THROW(live(store, database, all, 30, Mailbox::kBytes), Crash);
  const db::Job job = store.jobs().at(0);
  const db::JobProgress before = store.job_progress(job.id);
  EXPECT_GT(before.outcomes[static_cast<int>(Outcome::kTimeout)], 0)
      << "nothing has failed that could be proposed again";
  store.checkpoint_task(job.id, store.job_tasks(job.id).at(1).workload, 3, "half of one");
  std::string said;
  live(store, database, all, kForEver, Mailbox::kBytes, [&](const std::string& line) { said += line; });
  EXPECT_EQ(said,
            "job " + job.uuid +
                ": the checkpoint of dense_12 cannot be used: it is damaged: it is no object of JSON. Its "
                "search begins anew, with what it has measured; nothing else is lost");
  // Of both lives together: what has failed in the first is not proposed once more, which would be no trial.
  EXPECT_GT(kTrials, before.ended());
  EXPECT_EQ(store.job_progress(job.id).ended(), kTrials);
}

/// Where so many results wait for it that the tracker keeps no more than how they ended.
TEST(TuneJobCrash, WhatIsInTheDatabaseIsReadThere) {
  const JobOutcome whole = tune(kForEver), brief = tune(kForEver, /*mailbox_bytes=*/0);
  EXPECT_TRUE(brief == whole);
  EXPECT_EQ(brief.search, whole.search);
  EXPECT_GT(whole.model_seconds, 0);
  EXPECT_EQ(brief.model_seconds, whole.model_seconds);
}

}  // namespace
}  // namespace lathe::tracker
