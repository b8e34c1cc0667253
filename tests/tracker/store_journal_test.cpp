// What the database says of a result is what its worker hears.
#include "tracker/store_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/tir/roofline.h"
#include "db/store.h"
#include "tracker/evaluation_json.h"
#include "tracker/tracker.h"

namespace lathe::tracker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;

class StoreJournals : public testing::Test {
 protected:
  StoreJournals() {
    workload_ = store_.add_workload({.digest = "d", .text = "t", .flops = 1e12});
    const db::TargetId target = store_.add_target({.name = kTarget, .architecture = "a"});
    job_ = store_.create_job({.target = target, .tasks = {{.workload = workload_}}});
  }

  Candidate candidate(const std::string& trace) const { return {workload_, trace, trace}; }
  std::unique_ptr<Journal> open() const { return open_store_journal(folder_ / "t.db", JobId{0}); }

  static constexpr const char* kTarget = "cpu:triple=x86_64-pc-linux-gnu,mcpu=znver4,vector=512";
  TemporaryFolder folder_;
  db::Store store_{folder_ / "t.db"};
  db::WorkloadId workload_ = 0;
  db::JobId job_ = 0;
};

TEST_F(StoreJournals, SayWhatWasNotWrittenDown) {
  auto journal = open();
  journal->start();
  const std::vector<Candidate> two = {candidate("a"), candidate("b")};
  const std::vector<Submission> trials = journal->add(static_cast<JobId>(job_), two);
  const auto end = [&](size_t i, LeaseId lease) {
    const wire::Result result{.lease = lease, .trial = trials[i].trial, .samples = {1.0f}};
    const Record record = Finished{trials[i].trial, static_cast<JobId>(job_), "w", R"({"host":"h"})", result};
    return journal->commit(std::span(&record, 1));
  };
  for (size_t i = 0; i < 2; ++i) {
    const Record record = Leased{trials[i].trial, {.lease = 7 + i, .worker = "w"}, R"({"host":"h"})"};
    EXPECT_THAT(journal->commit(std::span(&record, 1)), IsEmpty());
  }
  EXPECT_THAT(end(0, 7), IsEmpty());
  EXPECT_THAT(end(0, 7), IsEmpty()) << "it is there";
  EXPECT_THAT(end(1, 99), ElementsAre(99)) << "a lease that was never granted";
  store_.cancel_trial(static_cast<db::TrialId>(trials[1].trial));
  EXPECT_THAT(end(1, 8), ElementsAre(8)) << "another ended its trial";
}

TEST_F(StoreJournals, KeepSuspectsAndWhoIsDrained) {
  const db::WorkerHealth row{.worker = "w",
                             .device_class = "c",
                             .kernels = 1,
                             .compute = {.seconds = 1e-5, .tolerance = 0.05, .drift = 0.2},
                             .memory = {.seconds = 2e-5, .tolerance = 0.1, .drift = -0.01},
                             .suspect = "why"};
  LeaseId lease = 0;
  {
    auto journal = open();
    journal->start();
    const auto commit = [&](const Record& record) { journal->commit(std::span(&record, 1)); };
    const auto measure = [&](const std::string& trace) {
      const Candidate one = candidate(trace);
      const Submission trial = journal->add(static_cast<JobId>(job_), std::span(&one, 1)).at(0);
      const std::string device = R"({"host":"h"})";
      commit(Leased{trial.trial, {.lease = ++lease, .worker = "w"}, device});
      commit(Finished{trial.trial,
                      static_cast<JobId>(job_),
                      "w",
                      device,
                      {.lease = lease, .trial = trial.trial, .samples = {1.0f}}});
    };
    measure("before the good canary");
    std::this_thread::sleep_for(5ms);
    commit(Examined{.health = row, .good = true});
    std::this_thread::sleep_for(5ms);
    measure("after it");
    commit(Examined{.health = row, .distrust = true, .unproven = 1h});
    commit(Drained{"w", true});
    commit(Drained{"v", true});
    commit(Drained{"v", false});
    Candidate again = candidate("before the good canary");
    again.confirm = true;
    EXPECT_EQ(journal->add(static_cast<JobId>(job_), std::span(&again, 1)).at(0).spec->measured_by, "w");
  }
  const JournalState state = open_store_journal(folder_ / "t.db")->start();
  EXPECT_THAT(state.drained, ElementsAre("w"));
  ASSERT_EQ(state.health.size(), 1u);
  EXPECT_EQ(state.health[0].suspect, "why");
  EXPECT_EQ(state.health[0].compute, row.compute);
  EXPECT_EQ(state.health[0].memory, row.memory);
  EXPECT_EQ(state.open.at(0).spec->measured_by, "w");
  const std::vector<db::Measurement> left = store_.history(workload_, store_.job(job_).target);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].trace, "before the good canary");
}

TEST_F(StoreJournals, BoundTimesByTheWorkload) {
  const double least = fastest_believable(1e12, parse_target_text(kTarget), 1);
  EXPECT_GT(least, 1e-3);
  EXPECT_LT(least, 1) << "no machine does that in a second";
  const std::vector<Candidate> one = {candidate("a")};
  {
    auto journal = open();
    journal->start();
    EXPECT_EQ(journal->add(static_cast<JobId>(job_), one).at(0).spec->fastest_seconds, least);
  }
  EXPECT_EQ(open_store_journal(folder_ / "t.db")->start().open.at(0).spec->fastest_seconds, least);
}

TEST(Settings, OfAnotherTypeOrSizeStayAsTheyAre) {
  const wire::Evaluation usual;
  wire::Evaluation read;
  read_evaluation(nlohmann::json::parse(R"({"cold_cache": 1, "threads": 1e300, "warmup": -1,
                                            "max_samples": 4294967296, "min_samples": true, "tolerance": "x"})"),
                  read);
  EXPECT_EQ(evaluation_json(read), evaluation_json(usual));
  read_evaluation({{"cold_cache", true}, {"threads", 3u}, {"tolerance", 1}}, read);
  EXPECT_TRUE(read.cold_cache);
  EXPECT_EQ(read.threads, 3u);
  EXPECT_EQ(read.tolerance, 1);
}

/// Writes down nothing that it is given.
class Forgetful final : public Journal {
 public:
  JournalState start() override { return memory_.start(); }
  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override {
    return memory_.add(job, candidates);
  }
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    std::vector<LeaseId> forgotten;
    for (const Record& record : records)
      if (const auto* finished = std::get_if<Finished>(&record)) forgotten.push_back(finished->result.lease);
    memory_.commit(records);
    return forgotten;
  }

 private:
  MemoryJournal memory_;
};

TEST(Tracker, AcknowledgesWhatTheJournalSays) {
  for (bool forgetful : {false, true}) {
    TemporaryFolder folder;
    Tracker tracker(
        {.endpoint = "ipc://" + (folder / "t"), .open_journal = [&]() -> std::unique_ptr<Journal> {
           if (forgetful) return std::make_unique<Forgetful>();
           return std::make_unique<MemoryJournal>();
         }});
    wire::Client worker(tracker.endpoint(), "w", std::nullopt);
    worker.send(wire::encode(wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}));
    worker.send(wire::encode(wire::Credit{1}));
    tracker.submit(1, std::vector<Candidate>(1));
    std::optional<wire::ResultAck> ack;
    for (int i = 0; i < 500 && !ack; ++i) {
      const auto frame = worker.receive();
      if (!frame) {
        tracker.poll(1, 10ms);
        continue;
      }
      const wire::Message message = wire::decode(*frame);
      if (const auto* lease = std::get_if<wire::Lease>(&message))
        worker.send(wire::encode(wire::Result{
            .lease = lease->lease, .trial = lease->trial, .attempt = lease->attempt, .samples = {1.0f}}));
      if (const auto* heard = std::get_if<wire::ResultAck>(&message)) ack = *heard;
    }
    ASSERT_TRUE(ack);
    EXPECT_EQ(ack->verdict,
              forgetful ? wire::ResultAck::Verdict::kStale : wire::ResultAck::Verdict::kRecorded);
  }
}

/// A journal that outlives its tracker, and fails when it is told to.
class Shared final : public Journal {
 public:
  Shared(MemoryJournal& memory, bool& full) : memory_(memory), full_(full) {}
  JournalState start() override { return memory_.start(); }
  std::vector<Submission> add(JobId job, std::span<const Candidate> candidates) override {
    return memory_.add(job, candidates);
  }
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    if (full_) fail("the disk is full");
    return memory_.commit(records);
  }

 private:
  MemoryJournal& memory_;
  bool& full_;
};

TEST(Tracker, LeavesNothingOpenOfWhatItRefuses) {
  TemporaryFolder folder;
  MemoryJournal memory;
  bool full = false;
  {
    Tracker tracker({.endpoint = "ipc://" + (folder / "t"),
                     .open_journal = [&] { return std::make_unique<Shared>(memory, full); }});
    std::vector<Candidate> candidates(2);
    candidates[1].trace = std::string(defaults::kTextLimit + 1, 't');
    EXPECT_THROW(tracker.submit(1, candidates), Error);
    EXPECT_EQ(tracker.in_flight(1), 0u);
  }
  EXPECT_TRUE(memory.start().open.empty());
}

/// What the farm believes to be on disk must be.
TEST(Tracker, StopsWhenAnOrderCannotBeWrittenDown) {
  TemporaryFolder folder;
  MemoryJournal memory;
  bool full = false;
  Tracker tracker({.endpoint = "ipc://" + (folder / "t"),
                   .open_journal = [&] { return std::make_unique<Shared>(memory, full); }});
  wire::Client worker(tracker.endpoint(), "w", std::nullopt);
  worker.send(wire::encode(wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}));
  for (int i = 0; i < 500 && tracker.status().workers.empty(); ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(tracker.status().workers.size(), 1u);
  full = true;
  EXPECT_THROW(tracker.manage({.worker = "w"}), Error);
  EXPECT_THROW(tracker.status(), Error);
}

}  // namespace
}  // namespace lathe::tracker
