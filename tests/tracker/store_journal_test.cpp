// What the database says of a result is what its worker hears.
#include "tracker/store_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/record_limits.h"
#include "core/support/temporary_folder.h"
#include "core/tir/roofline.h"
#include "db/pack.h"
#include "db/store.h"
#include "tests/tracker/memory_journal.h"
#include "tests/tracker/passing_journal.h"
#include "tracker/evaluation_json.h"
#include "tracker/tracker.h"
#include "tracker/weak_cache.h"

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

/// Devices, each of one worker: what HELLO lets through is no reason that an export cannot be imported.
TEST_F(StoreJournals, WhatWorkersSayMayTravel) {
  nlohmann::json features, numbers, deep = 1;
  for (int i = 0; i < 3000; ++i) features.push_back("avx512_and_something_long"), numbers.push_back(1e9);
  for (int i = 0; i < 12; ++i) deep = {{"deeper", deep}};
  const std::string escape = "\x1b]0;owned\x07";
  const std::vector<nlohmann::json> devices = {
      {{"host", "honest"}, {"driver", "Linux 6.1"}, {"compiler", "g++ 12"}},
      {{"host", "a"}, {"driver", escape}},
      {{"host", "b"}, {"compiler", "<script>alert(1)</script>"}},
      {{"host", "c"}, {"compiler", escape}},
      {{"host", "d"},
       {"revision",
        "\xe2\x80\xae"
        "reversed"}},
      {{"host", "e"}, {"kernel", std::string(60'000, '6')}},
      {{"host", "f"}, {"driver", std::string(60'000, '.')}},
      {{"host", "g"}, {"architecture", "\n"}},
      {{"host", escape}},
      {{"host", "h"}, {"memory_bytes", -1}, {"cores", -5}},
      {{"host", "i"}, {"memory_bytes", UINT64_MAX}},
      {{"host", "j"}, {"features", features}},
      {{"host", "k"}, {"numbers", numbers}},
      {{"host", "l"}, {"all", deep}},
      nlohmann::json::array(),
      "a text",
  };
  const std::string text = "the program";
  const db::WorkloadId workload = store_.add_workload({.digest = sha256(text), .text = text, .flops = 1});
  const db::TargetId target = store_.add_target({.name = kTarget, .architecture = "a"});
  const auto job =
      static_cast<JobId>(store_.create_job({.target = target, .tasks = {{.workload = workload}}}));
  auto journal = open_store_journal(folder_ / "t.db", job);
  journal->start();
  int64_t measured = 0;
  for (const nlohmann::json& device : devices) {
    wire::Message hello = wire::Hello{.worker = "w", .device = device.dump()};
    try {
      hello = wire::decode(wire::encode(hello));
    } catch (const Error& error) {
      EXPECT_NE(&device, devices.data()) << error.what();
      continue;
    }
    const std::string& said = std::get<wire::Hello>(hello).device;
    const std::string trace = std::to_string(++measured);
    const std::vector<Candidate> one = {{.workload = workload, .trace = trace, .program = trace}};
    const TrialId trial = journal->add(job, one).at(0).trial;
    const wire::Result result{.lease = trial, .trial = trial, .samples = {1}};
    const std::vector<Record> records = {Leased{trial, {.lease = trial, .worker = "w"}, said},
                                         Finished{trial, job, "w", said, result}};
    EXPECT_THAT(journal->commit(records), IsEmpty());
  }
  EXPECT_GE(measured, 4);
  export_pack(store_, folder_ / "pack", {});
  db::Store other(folder_ / "other.db");
  const auto report = db::import_pack(
      other, folder_ / "pack",
      {.target =
           [](const std::string& name) {
             return db::Target{name, "a", ""};
           },
       .workload =
           [](const std::string& of) {
             return db::Workload{sha256(of), of, 1, 0};
           },
       .model_digest = [](const db::TaskList&) { return std::string(64, '0'); },
       .program = [](const db::Workload&, const std::string& trace) { return std::optional(trace); },
       .fastest_seconds = [](double, const std::string&, int) { return 0.0; }});
  EXPECT_EQ(report.bad, 0) << (report.reasons.empty() ? "" : report.reasons[0]);
  EXPECT_EQ(report.added.measurements, measured);
}

/// A database that somebody has edited, or a program that knows other properties.
TEST_F(StoreJournals, ADamagedRequestIsForNobody) {
  const db::ServedJob served = store_.add_served_job({.owner = "o", .model_name = "m"});
  const db::JobId job =
      store_.create_job({.target = store_.add_target({.name = kTarget, .architecture = "a"}),
                         .tasks = {{.workload = workload_}}});
  store_.database().run("UPDATE served_job SET job = ? WHERE id = ?", {job, served.id});
  {
    const std::vector<Candidate> one = {candidate("a")};
    auto journal = open_store_journal(folder_ / "t.db", static_cast<JobId>(job));
    journal->start();
    journal->add(static_cast<JobId>(job), one);
  }
  for (const char* request :
       {R"({"needs": 5})", R"({"needs": {"memory": 5}})", R"({"needs": {"memory": "lots"}})",
        R"({"needs": {"colour": "red"}})", R"({"needs": ["memory"]})", R"({"needs": null})"}) {
    store_.database().run("UPDATE served_job SET request = ? WHERE id = ?", {request, served.id});
    const JournalState state = open_store_journal(folder_ / "t.db", std::nullopt)->start();
    ASSERT_EQ(state.open.size(), 1u);
    const Properties& needs = state.open.front().spec->needs;
    EXPECT_FALSE(has_at_least({{"memory", {INT64_MAX}}, {"driver", {INT64_MAX}}}, needs)) << request;
    EXPECT_EQ(describe_needs(needs), "what its job's request says, which this program cannot read");
  }
}

/// Of an older release, or somebody's: one such trial, and nobody's were served.
TEST_F(StoreJournals, ATargetThatCannotBeReadKeepsNobodyOut) {
  const db::JobId job =
      store_.create_job({.target = store_.add_target({.name = "cpu:x", .architecture = "a"}),
                         .tasks = {{.workload = workload_}}});
  const db::NewTrial trial{.workload = workload_, .trace = "t", .program = "p"};
  store_.add_trials(job, std::span(&trial, 1));
  const JournalState state = open_store_journal(folder_ / "t.db", std::nullopt)->start();
  ASSERT_EQ(state.open.size(), 1u);
  EXPECT_EQ(state.open.front().spec->target, "cpu:x");
  EXPECT_EQ(state.open.front().spec->fastest_seconds, 0);
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
    again.purpose = db::Purpose::kConfirm;
    EXPECT_EQ(journal->add(static_cast<JobId>(job_), std::span(&again, 1)).at(0).said.at(0).worker, "w");
  }
  const JournalState state = open_store_journal(folder_ / "t.db")->start();
  EXPECT_THAT(state.drained, ElementsAre("w"));
  ASSERT_EQ(state.health.size(), 1u);
  EXPECT_EQ(state.health[0].suspect, "why");
  EXPECT_EQ(state.health[0].compute, row.compute);
  EXPECT_EQ(state.health[0].memory, row.memory);
  ASSERT_EQ(state.open.at(0).said.size(), 1u);
  EXPECT_EQ(state.open.at(0).said[0].worker, "w");
  EXPECT_EQ(state.open.at(0).said[0].seconds, 1.0);
  const std::vector<db::Measurement> left = store_.history(workload_, store_.job(job_).target);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].trace, "before the good canary");
}

TEST_F(StoreJournals, KeepWhatAWorkerSaysOfItsConditions) {
  auto journal = open();
  journal->start();
  LeaseId lease = 0;
  const auto measured = [&](const std::string& device, const wire::Result& said) {
    const Candidate one = candidate(device + std::to_string(lease));
    const Submission trial = journal->add(static_cast<JobId>(job_), std::span(&one, 1)).at(0);
    wire::Result result = said;
    result.lease = ++lease;
    result.trial = trial.trial;
    result.samples = {1.0f};
    const Record records[] = {Leased{trial.trial, {.lease = lease, .worker = "w"}, device},
                              Finished{trial.trial, static_cast<JobId>(job_), "w", device, result}};
    journal->commit(records);
    return store_.trial_life(static_cast<db::TrialId>(trial.trial))->conditions;
  };
  const db::Conditions all =
      measured(R"({"host":"h","kernel":"Linux 6.1.0"})",
               {.disturbance = {.taken = 4, .disturbed = 1, .canary = 1.5, .clock_hz = 3e9},
                .celsius = 51.5,
                .timer_seconds = 25e-9});
  EXPECT_EQ(all, (db::Conditions{.clock_hz = 3e9,
                                 .disturbed = 0.25,
                                 .canary = 1.5,
                                 .celsius = 51.5,
                                 .timer_seconds = 25e-9,
                                 .driver = "Linux 6.1.0"}));
  EXPECT_EQ(measured(R"({"host":"h","kernel":"Linux 6.1.0","driver":"NVIDIA 550.54"})", {}).driver,
            "NVIDIA 550.54");
  EXPECT_EQ(measured(R"({"host":"h"})", {}), db::Conditions()) << "an old worker's";
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

TEST_F(StoreJournals, SayWhatIsToBeMeasured) {
  Candidate one = candidate("a");
  one.evaluation = {.threads = 7, .warmup = 3, .budget_seconds = 0.5};
  auto journal = open();
  journal->start();
  const TrialId id = journal->add(static_cast<JobId>(job_), std::span(&one, 1)).at(0).trial;
  const Recipe recipe = journal->recipes(std::span(&id, 1)).at(0);
  EXPECT_EQ(recipe.problem, "");
  EXPECT_EQ(recipe.trace, "a");
  EXPECT_EQ(recipe.evaluation.threads, 1u) << "as many as its measurement is kept with";
  EXPECT_EQ(recipe.evaluation.warmup, 3u);
  EXPECT_EQ(recipe.evaluation.budget_seconds, 0.5);
  EXPECT_EQ(recipe.seed, 1u);
}

/// Threads beside each other on one core measure nothing, and workers refuse them.
TEST_F(StoreJournals, AskForAsManyCoresAsThereAreThreads) {
  const db::JobId wide = store_.create_job(
      {.target = store_.job(job_).target, .threads = 4, .tasks = {{.workload = workload_}}});
  auto journal = open();
  journal->start();
  const Candidate one = candidate("a");
  const auto needs = [&](db::JobId job) {
    return journal->add(static_cast<JobId>(job), std::span(&one, 1)).at(0).spec->needs;
  };
  EXPECT_EQ(needs(wide), (Properties{{"cores", {4}}}));
  EXPECT_EQ(needs(job_), Properties());
}

TEST_F(StoreJournals, SayWhatCannotBeRead) {
  auto journal = open();
  journal->start();
  std::vector<Candidate> candidates;
  for (const char* trace : {"a", "b", "c", "d", "e", "f", "g"}) candidates.push_back(candidate(trace));
  std::vector<TrialId> ids;
  for (const Submission& one : journal->add(static_cast<JobId>(job_), candidates)) ids.push_back(one.trial);
  db::Database& database = store_.database();
  database.run("PRAGMA foreign_keys = OFF");
  const auto damage = [&](size_t i, const std::string& sql) {
    ASSERT_EQ(database.run(sql, {static_cast<int64_t>(ids[i])}), 1);
  };
  damage(1, "DELETE FROM candidate WHERE id = (SELECT candidate FROM trial WHERE id = ?)");
  damage(2, "UPDATE trial SET settings = '{\"threads\":' WHERE id = ?");
  damage(3, "UPDATE trial SET settings = '[[[[[[]]]]]]' WHERE id = ?");
  damage(4,
         "UPDATE candidate SET trace = CAST(zeroblob(9000000) AS TEXT) WHERE id = "
         "(SELECT candidate FROM trial WHERE id = ?)");
  damage(5, "UPDATE trial SET settings = '{\"relative_interval\": -1}' WHERE id = ?");
  ids.push_back(4711);
  std::vector<std::string> problems;
  for (const Recipe& recipe : journal->recipes(ids)) problems.push_back(recipe.problem);
  using testing::HasSubstr;
  EXPECT_THAT(problems, ElementsAre("", HasSubstr("no trial"), HasSubstr("settings"), HasSubstr("settings"),
                                    HasSubstr("trace has 9000000 bytes"),
                                    "its settings cannot be: evaluation.relative_interval is -1, must be a "
                                    "finite number, at least 0",
                                    "", HasSubstr("no trial 4711")));
}

/// The trial whose row is damaged fails, and the tracker serves the next.
TEST_F(StoreJournals, FailsTrialsThatItCannotRead) {
  Tracker tracker({.endpoint = "ipc://" + (folder_ / "t"), .open_journal = [&] { return open(); }});
  const std::vector<Candidate> two = {candidate("a"), candidate("b")};
  const auto job = static_cast<JobId>(job_);
  const std::vector<Submission> trials = tracker.submit(job, two);
  store_.database().run("UPDATE trial SET settings = 'x' WHERE id = ?",
                        {static_cast<int64_t>(trials[0].trial)});
  wire::Client worker(tracker.endpoint(), "w", std::nullopt);
  const std::string device = R"({"host":"h","architecture":"x86_64"})";
  worker.send(wire::encode(wire::Hello{.worker = "w", .device = device, .backends = {"cpu"}}));
  worker.send(wire::encode(wire::Credit{1}));
  std::optional<wire::Lease> leased;
  std::vector<Finished> ended;
  for (int i = 0; i < 500 && (!leased || ended.empty()); ++i) {
    if (const auto frame = worker.receive())
      if (const wire::Message message = wire::decode(*frame); std::holds_alternative<wire::Lease>(message))
        leased = std::get<wire::Lease>(message);
    for (Finished& finished : tracker.poll(job, 10ms)) ended.push_back(std::move(finished));
  }
  ASSERT_TRUE(leased);
  EXPECT_EQ(leased->trial, trials[1].trial) << "the other was never sent";
  EXPECT_EQ(leased->trace, "b");
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].trial, trials[0].trial);
  EXPECT_THAT(ended[0].result.message, testing::HasSubstr("settings"));
  const db::Trial row = store_.trial(static_cast<db::TrialId>(trials[0].trial));
  EXPECT_EQ(row.state, db::TrialState::kFailed);
  EXPECT_EQ(row.error, ended[0].result.message);
}

TEST(WeakCache, ForgetsWhatNobodyHolds) {
  WeakCache<int, int> cache;
  const auto held = cache.get(-1, [] { return 1; });
  for (int i = 0; i < 10'000; ++i) cache.get(i, [&] { return i; });
  EXPECT_LE(cache.size(), 128u);
  EXPECT_EQ(cache.get(-1, [] { return 2; }), held);
}

/// Writes down nothing that it is given.
class Forgetful final : public PassingJournal {
 public:
  Forgetful() : PassingJournal(memory_) {}
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
class Shared final : public PassingJournal {
 public:
  Shared(MemoryJournal& memory, bool& full) : PassingJournal(memory), full_(full) {}
  std::vector<LeaseId> commit(std::span<const Record> records) override {
    if (full_) fail("the disk is full");
    return PassingJournal::commit(records);
  }

 private:
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
    candidates[1].trace = std::string(limits::kText + 1, 't');
    EXPECT_THROW(tracker.submit(1, candidates), Error);
    EXPECT_EQ(tracker.in_flight(1), 0u);
    candidates[1].trace = "t";
    candidates[1].evaluation.incumbent_seconds = -1;
    EXPECT_THROW(tracker.submit(1, candidates), Error);
    EXPECT_EQ(tracker.in_flight(1), 0u);
  }
  EXPECT_TRUE(memory.start().open.empty());
}

/// Nobody collects for a job that is over, or waits for its next searcher.
TEST(Tracker, KeepsNoResultsForNobody) {
  TemporaryFolder folder;
  Tracker tracker({.endpoint = "ipc://" + (folder / "t"),
                   .open_journal = [] { return std::make_unique<MemoryJournal>(); }});
  wire::Client worker(tracker.endpoint(), "w", std::nullopt);
  worker.send(wire::encode(wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}));
  worker.send(wire::encode(wire::Credit{8}));
  const auto measure = [&](JobId job) {
    tracker.submit(job, std::vector<Candidate>(4));
    for (int i = 0; i < 500 && tracker.in_flight(job) > 0; ++i) {
      const auto frame = worker.receive();
      if (!frame) {
        std::this_thread::sleep_for(5ms);
        continue;
      }
      const wire::Message message = wire::decode(*frame);
      if (const auto* lease = std::get_if<wire::Lease>(&message))
        worker.send(wire::encode(wire::Result{
            .lease = lease->lease, .trial = lease->trial, .attempt = lease->attempt, .samples = {1.0f}}));
    }
    return tracker.in_flight(job);
  };
  ASSERT_EQ(measure(1), 0u);
  ASSERT_EQ(measure(2), 0u);
  tracker.leave(1);
  EXPECT_EQ(tracker.poll(1, 0ms).size(), 0u);
  EXPECT_EQ(tracker.poll(2, 0ms).size(), 4u);
}

/// A race's module that its searcher has cut short: its worker would ask for the rest until the race's time
/// is over.
TEST(Tracker, EndsARaceWhoseModuleIsCutShort) {
  TemporaryFolder folder;
  write_file(folder / "untuned", "untuned");
  write_file(folder / "tuned", std::string(defaults::kChunkBytes + 10, 't'));
  Tracker tracker({.endpoint = "ipc://" + (folder / "t"),
                   .open_journal = [] { return std::make_unique<MemoryJournal>(); }});
  wire::Client worker(tracker.endpoint(), "w", std::nullopt);
  worker.send(wire::encode(wire::Hello{.worker = "w", .device = "{}", .backends = {"cpu"}}));
  worker.send(wire::encode(wire::Credit{1}));
  TrialSpec spec{.job = 1, .target = "cpu"};
  spec.race =
      std::make_shared<const RaceModules>(RaceModules{std::make_shared<const ModuleFile>(folder / "untuned"),
                                                      std::make_shared<const ModuleFile>(folder / "tuned")});
  tracker.race(std::move(spec));
  std::filesystem::resize_file(folder / "tuned", 100);
  std::vector<Finished> finished;
  for (int i = 0; i < 1000 && finished.empty(); ++i) {
    if (const auto frame = worker.receive()) {
      const wire::Message message = wire::decode(*frame);
      if (const auto* lease = std::get_if<wire::Lease>(&message))
        worker.send(wire::encode(wire::BlobGet{lease->lease, lease->artifact.digest, 100}));
    }
    finished = tracker.poll(1, 5ms);
  }
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].result.outcome, Outcome::kInvalidTrace);
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
