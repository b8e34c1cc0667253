#include "db/store.h"

#include "core/support/digest.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
};

TEST_F(StoreTest, CatalogueRowsAreFoundAgain) {
  EXPECT_EQ(store_.add_target({.name = "cpu:x", .architecture = "x86_64"}), farm_.target);
  EXPECT_NE(store_.add_target({.name = "cpu:y", .architecture = "x86_64"}), farm_.target);
  EXPECT_EQ(store_.find_target("cpu:x"), farm_.target);
  EXPECT_EQ(store_.find_target("cpu:z"), std::nullopt);
  EXPECT_EQ(store_.target(farm_.target).features, "avx2,fma");
  EXPECT_EQ(store_.find_workload(sha256("mm")), farm_.workload);
  EXPECT_EQ(store_.workload(farm_.workload).flops, 100);
  EXPECT_EQ(thrown_by([&] { store_.workload(99); }), "the database has no workload 99");
}

TEST_F(StoreTest, DeviceIsTheSameAfterAKernelUpdate) {
  Device device = store_.device(farm_.device);
  device.system = "Linux 6.9";
  EXPECT_EQ(store_.add_device(device), farm_.device);
  EXPECT_EQ(store_.device(farm_.device).system, "Linux 6.9");
  device.cores = 4;
  EXPECT_NE(store_.add_device(device), farm_.device);
  EXPECT_EQ(store_.devices().size(), 2u);
}

TEST_F(StoreTest, MachineOfATargetIsTheLatestThatADeviceTold) {
  EXPECT_FALSE(farm_.store.find_machine("cpu:x"));
  DeviceId other = farm_.store.add_device({.host = "other", .model = "m", .architecture = "x86_64"});
  farm_.store.set_machine({.device = farm_.device, .target = "cpu:x", .numbers = "latency=4"});
  farm_.store.set_machine({.device = farm_.device, .target = "cpu:y", .numbers = "latency=5"});
  farm_.now_ms += 1000;
  farm_.store.set_machine({.device = other, .target = "cpu:x", .numbers = "latency=3"});
  EXPECT_EQ(farm_.store.find_machine("cpu:x")->numbers, "latency=3");
  EXPECT_EQ(farm_.store.find_machine("cpu:x")->device, other);
  farm_.now_ms += 1000;
  farm_.store.set_machine({.device = farm_.device, .target = "cpu:x", .numbers = "latency=4.5"});
  EXPECT_EQ(farm_.store.find_machine("cpu:x")->numbers, "latency=4.5") << "in place of what it told before";
  EXPECT_EQ(farm_.store.find_machine("cpu:x")->measured_ms, farm_.now_ms);
  EXPECT_EQ(farm_.store.find_machine("cpu:y")->numbers, "latency=5");
  EXPECT_TRUE(farm_.store.problems().empty());
}

TEST_F(StoreTest, ModelTasksKeepTheirOrder) {
  ModelId model = store_.add_model("resnet18", "d1");
  WorkloadId other = store_.add_workload({.digest = "o", .text = "o"});
  std::vector<ModelTask> tasks = {{.workload = other, .name = "b", .calls = 3},
                                  {.workload = farm_.workload, .name = "a", .calls = 1}};
  store_.set_model_tasks(model, farm_.target, tasks);
  store_.set_model_tasks(model, farm_.target, tasks);
  std::vector<ModelTask> found = store_.model_tasks(model, farm_.target);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].workload, other);
  EXPECT_EQ(found[0].calls, 3);
  EXPECT_EQ(found[1].name, "a");
  farm_.now_ms += 5;
  ModelId newer = store_.add_model("resnet18", "d2");
  EXPECT_EQ(store_.find_model("resnet18"), newer);
  EXPECT_THAT(store_.model_names(), ElementsAre("resnet18"));
}

TEST_F(StoreTest, IdempotencyKeyGivesTheSameJob) {
  NewJob request{.target = farm_.target, .idempotency_key = "key"};
  JobId first = store_.create_job(request);
  EXPECT_EQ(store_.create_job(request), first);
  request.idempotency_key = "other";
  EXPECT_NE(store_.create_job(request), first);
}

TEST_F(StoreTest, JobIsFoundByTheBeginningOfItsName) {
  Job job = store_.job(farm_.job);
  EXPECT_EQ(job.uuid.size(), 36u);
  EXPECT_EQ(store_.find_job(job.uuid.substr(0, 12))->id, farm_.job);
  EXPECT_FALSE(store_.find_job("zzzz"));
  const ServedJob served = store_.add_served_job({.owner = "o", .model_name = "m"});
  EXPECT_EQ(store_.find_served_job(served.uuid.substr(0, 4))->id, served.id);
  for (const size_t letters : {1, 3}) {
    const std::string begin = served.uuid.substr(0, letters);
    EXPECT_EQ(thrown_by([&] { store_.find_served_job(begin); }),
              fmt::format("`{}` may be the beginning of any job; give 4 letters at least", begin));
  }
  EXPECT_NE(thrown_by([&] { store_.find_job(job.uuid.substr(0, 3)); }), "no error");
  EXPECT_FALSE(store_.find_job(""));
  EXPECT_EQ(job.target_name, "cpu:x");
}

TEST_F(StoreTest, FinalJobStateNeverChanges) {
  EXPECT_TRUE(store_.set_job_state(farm_.job, JobState::kRunning));
  EXPECT_TRUE(store_.set_job_state(farm_.job, JobState::kStopped));
  EXPECT_TRUE(store_.set_job_state(farm_.job, JobState::kDone, "all trials done"));
  EXPECT_FALSE(store_.set_job_state(farm_.job, JobState::kRunning));
  EXPECT_EQ(store_.job(farm_.job).state, JobState::kDone);
  EXPECT_EQ(store_.job(farm_.job).message, "all trials done");
}

TEST_F(StoreTest, SearchStateSurvives) {
  std::string bytes("a\0b", 3);
  store_.checkpoint_task(farm_.job, farm_.workload, 7, bytes);
  store_.add_job_seconds(farm_.job, 1.5);
  store_.add_job_seconds(farm_.job, 2);
  JobTask task = store_.job_tasks(farm_.job).at(0);
  EXPECT_EQ(task.round, 7);
  EXPECT_EQ(task.checkpoint, bytes);
  EXPECT_EQ(task.best_seconds, std::nullopt);
  EXPECT_EQ(store_.job(farm_.job).seconds_used, 3.5);
}

TEST_F(StoreTest, CandidateIsNeverMeasuredTwice) {
  std::vector<NewTrial> trials = {{.workload = farm_.workload, .trace = "t1", .program = "p"},
                                  {.workload = farm_.workload, .trace = "t2", .program = "p"},
                                  {.workload = farm_.workload, .trace = "t3"}};
  auto enqueued = store_.add_trials(farm_.job, trials);
  EXPECT_EQ(enqueued[0].status, Enqueued::kQueued);
  EXPECT_EQ(enqueued[1].status, Enqueued::kDuplicate);  // another trace of the same program
  EXPECT_EQ(enqueued[1].trial, enqueued[0].trial);
  EXPECT_EQ(enqueued[2].status, Enqueued::kQueued);

  TrialResult result{
      .lease = store_.grant(enqueued[0].trial, "w", 1)->id, .device = farm_.device, .samples = {1e-3f}};
  EXPECT_THAT(store_.record(std::span(&result, 1)), ElementsAre(Recorded::kRecorded));
  JobId next = farm_.add_job(farm_.target, 1);
  auto again = store_.add_trials(next, trials, farm_.device);
  EXPECT_EQ(again[0].status, Enqueued::kMeasured);
  EXPECT_EQ(again[0].measurement, farm_.best(true)->measurement.id);
  EXPECT_EQ(again[2].status, Enqueued::kQueued);
  // Other threads, or another device, is another measurement.
  auto threads = store_.add_trials(farm_.add_job(farm_.target, 2), trials, farm_.device);
  EXPECT_EQ(threads[0].status, Enqueued::kQueued);
}

TEST_F(StoreTest, TwoJobsRacingOnOneCandidateLeaveOneMeasurement) {
  Lease first = farm_.leased("t");
  farm_.job = farm_.add_job(farm_.target, 1);
  Lease second = farm_.leased("t");
  std::vector<TrialResult> results = {{.lease = first.id, .device = farm_.device, .samples = {1e-3f}},
                                      {.lease = second.id, .device = farm_.device, .samples = {2e-3f}}};
  EXPECT_THAT(store_.record(results), ElementsAre(Recorded::kRecorded, Recorded::kRecorded));
  EXPECT_EQ(store_.trial(second.trial).state, TrialState::kDone);
  ASSERT_EQ(store_.history(farm_.workload, farm_.target).size(), 1u);
  EXPECT_FLOAT_EQ(farm_.best(true)->measurement.seconds, 1e-3f);
}

TEST_F(StoreTest, ResultSaidTwiceIsRecordedOnce) {
  Lease lease = farm_.leased("t");
  TrialResult result{.lease = lease.id, .device = farm_.device, .samples = {3e-3f, 1e-3f, 2e-3f}};
  std::vector<TrialResult> twice = {result, result};
  EXPECT_THAT(store_.record(twice), ElementsAre(Recorded::kRecorded, Recorded::kDuplicate));
  EXPECT_THAT(store_.record(twice), ElementsAre(Recorded::kDuplicate, Recorded::kDuplicate));
  JobTask task = store_.job_tasks(farm_.job).at(0);
  EXPECT_EQ(task.trials, 1);
  EXPECT_FLOAT_EQ(*task.best_seconds, 2e-3f);
  Measurement kept = store_.history(farm_.workload, farm_.target).at(0);
  EXPECT_THAT(kept.samples, ElementsAre(3e-3f, 1e-3f, 2e-3f));
  EXPECT_FLOAT_EQ(kept.summary.min, 1e-3f);
  EXPECT_FLOAT_EQ(kept.summary.mad, 1e-3f);
}

TEST_F(StoreTest, LateResultCountsWhileTheTrialIsOpen) {
  Lease lost = farm_.leased("t");
  EXPECT_TRUE(store_.end_lease(lost.id, LeaseEnd::kLost));
  EXPECT_FALSE(store_.end_lease(lost.id, LeaseEnd::kLost));
  EXPECT_EQ(store_.trial(lost.trial).state, TrialState::kPending);
  Lease second = store_.grant(lost.trial, "w", 1).value();
  EXPECT_EQ(second.attempt, 2);
  EXPECT_FALSE(store_.end_lease(lost.id, LeaseEnd::kLost));  // says nothing about the second lease
  EXPECT_EQ(store_.trial(lost.trial).state, TrialState::kLeased);
  std::vector<TrialResult> results = {{.lease = lost.id, .device = farm_.device, .samples = {1e-3f}},
                                      {.lease = second.id, .device = farm_.device, .samples = {9e-3f}}};
  EXPECT_THAT(store_.record(results), ElementsAre(Recorded::kRecorded, Recorded::kStale));
  EXPECT_FLOAT_EQ(farm_.best(true)->measurement.seconds, 1e-3f);
  store_.visit_open_trials([](const OpenTrial& open) { ADD_FAILURE() << open.id << " is open"; });
}

TEST_F(StoreTest, TrackerFindsItsTrialsAndLeasesAgain) {
  EXPECT_EQ(store_.begin_epoch(), 1);
  NewTrial trial{.id = 40, .workload = farm_.workload, .trace = "t", .settings = "{\"threads\":1}"};
  EXPECT_EQ(store_.add_trials(farm_.job, std::span(&trial, 1)).at(0).trial, 40);
  store_.grant(40, "a", 1, 7'000'000'000);
  store_.end_lease(7'000'000'000, LeaseEnd::kLost);
  store_.grant(40, "b", 1);
  EXPECT_EQ(store_.begin_epoch(), 2);
  std::vector<OpenTrial> open;
  store_.visit_open_trials([&](const OpenTrial& trial) { open.push_back(trial); });
  ASSERT_EQ(open.size(), 1u);
  EXPECT_EQ(open[0].id, 40);
  EXPECT_TRUE(open[0].leased);
  EXPECT_EQ(store_.trial(40).settings, "{\"threads\":1}");
  const std::vector<Lease>& leases = open[0].leases;
  EXPECT_EQ(store_.leases(40).size(), leases.size());
  ASSERT_EQ(leases.size(), 2u);
  EXPECT_EQ(leases[0].id, 7'000'000'000);
  EXPECT_EQ(leases[0].worker, "a");
  EXPECT_EQ(leases[0].state, Lease::State::kLost);
  EXPECT_EQ(leases[1].attempt, 2);
  EXPECT_EQ(leases[1].state, Lease::State::kOpen);
}

/// Workers still hold leases of the epochs that a backup does not know.
TEST_F(StoreTest, AnEpochOfADatabaseThatWasPutBackIsAnother) {
  farm_.now_ms = 1'800'000'000'000;
  const int64_t before = store_.begin_epoch();
  farm_.now_ms += 1000;
  const int64_t lost = store_.begin_epoch();
  EXPECT_GT(lost, before);
  EXPECT_EQ(store_.begin_epoch(), lost + 1) << "within a second";
  store_.database().run("DELETE FROM epoch WHERE id > ?", {before});
  farm_.now_ms += 2000;
  EXPECT_GT(store_.begin_epoch(), lost + 1);
  farm_.now_ms = 0;
  EXPECT_GT(store_.begin_epoch(), lost + 2) << "whatever the clock says";
  store_.database().run("INSERT INTO epoch VALUES(?, 0)", {int64_t{1} << 31});
  EXPECT_EQ(thrown_by([&] { store_.begin_epoch(); }),
            "the database has used up the numbers of its epochs; do not trust it");
}

TEST_F(StoreTest, QuarantinedAndCancelledTrialsAreFinal) {
  Lease lease = farm_.leased("t");
  std::vector<TrialResult> results = {
      {.lease = lease.id, .outcome = Outcome::kWorkerLost, .error = "tail of stderr", .signal = 9},
      {.lease = lease.id, .device = farm_.device, .samples = {1e-3f}}};
  EXPECT_THAT(store_.record(results), ElementsAre(Recorded::kRecorded, Recorded::kDuplicate));
  Trial trial = store_.trial(lease.trial);
  EXPECT_EQ(trial.state, TrialState::kQuarantined);
  EXPECT_EQ(trial.outcome, Outcome::kWorkerLost);
  EXPECT_EQ(trial.signal, 9);
  EXPECT_EQ(trial.error, "tail of stderr");
  EXPECT_FALSE(store_.grant(lease.trial, "w", 1));

  Lease other = farm_.leased("u");
  EXPECT_TRUE(store_.cancel_trial(other.trial));
  EXPECT_FALSE(store_.cancel_trial(other.trial));
  TrialResult late{.lease = other.id, .device = farm_.device, .samples = {1e-3f}};
  EXPECT_THAT(store_.record(std::span(&late, 1)), ElementsAre(Recorded::kStale));
  EXPECT_EQ(store_.trial(other.trial).state, TrialState::kCancelled);
  EXPECT_FALSE(farm_.best(true));
}

TEST_F(StoreTest, ConfirmingTrialAddsToTheMeasurement) {
  farm_.measured("t", {1e-3f});
  NewTrial again{.workload = farm_.workload, .trace = "t", .purpose = Purpose::kConfirm};
  EnqueuedTrial trial = store_.add_trials(farm_.job, std::span(&again, 1), farm_.device).at(0);
  EXPECT_EQ(trial.status, Enqueued::kQueued);
  TrialResult result{
      .lease = store_.grant(trial.trial, "w", 1)->id, .device = farm_.device, .samples = {2e-3f}};
  store_.record(std::span(&result, 1));
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 2e-3f);
  EXPECT_EQ(store_.history(farm_.workload, farm_.target).size(), 1u);
  EXPECT_EQ(store_.job_progress(farm_.job).ended(), 1);
  EXPECT_EQ(store_.job_tasks(farm_.job).at(0).trials, 1);  // confirming is no trial of the search
}

TEST_F(StoreTest, FailuresAreDataAndUnknownLeasesHarmless) {
  std::optional<DeviceId> device = farm_.device;
  std::vector<TrialResult> results = {
      {.lease = farm_.leased("a").id,
       .outcome = Outcome::kCrashed,
       .error = std::string(10000, 'x'),
       .signal = 11},
      {.lease = farm_.leased("b").id,
       .outcome = Outcome::kWrongResult,
       .samples = {1e-9f},
       .relative_error = 0.5},
      {.lease = farm_.leased("c").id, .device = device, .outcome = Outcome::kOk},
      {.lease = farm_.leased("d").id, .device = device, .outcome = Outcome::kOk, .samples = {1e-3f, -1.f}},
      {.lease = farm_.leased("e").id, .outcome = Outcome::kOk, .samples = {1e-3f}},
      {.lease = 1234, .device = device, .samples = {1e-3f}}};
  EXPECT_THAT(store_.record(results),
              ElementsAre(Recorded::kRecorded, Recorded::kRecorded, Recorded::kRecorded, Recorded::kRecorded,
                          Recorded::kRecorded, Recorded::kUnknown));
  JobProgress progress = store_.job_progress(farm_.job);
  EXPECT_EQ(progress.ended(), 5);
  EXPECT_EQ(progress.outcomes[static_cast<int>(Outcome::kCrashed)], 4);
  EXPECT_EQ(progress.outcomes[static_cast<int>(Outcome::kWrongResult)], 1);
  EXPECT_FALSE(farm_.best(true));  // a wrong result is never best
  EXPECT_EQ(store_.history(farm_.workload, farm_.target).size(), 0u);
}

TEST_F(StoreTest, FinishedTrialCannotBeChangedEvenBySql) {
  farm_.measured("t", {1e-3f});
  EXPECT_THAT(thrown_by([&] { store_.database().run("UPDATE trial SET state = 'pending', outcome = NULL"); }),
              HasSubstr("a finished trial never changes"));
}

TEST_F(StoreTest, GroupIsAllOrNothing) {
  Lease lease = farm_.leased("t");
  TrialResult result{.lease = lease.id, .device = farm_.device, .samples = {1e-3f}};
  {
    Transaction group = store_.begin();
    store_.record(std::span(&result, 1));
    store_.add_event(farm_.job, "result", "{}");
  }
  EXPECT_EQ(store_.trial(lease.trial).state, TrialState::kLeased);
  EXPECT_TRUE(store_.events_after(0, 10).empty());
  Transaction group = store_.begin();
  EXPECT_THAT(store_.record(std::span(&result, 1)), ElementsAre(Recorded::kRecorded));
  {
    Transaction inner = store_.begin();
    store_.add_event({}, "lost", "{}");
  }
  int64_t event = store_.add_event(farm_.job, "result", "{}");
  group.commit();
  std::vector<Event> events = store_.events_after(0, 10);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, event);
  EXPECT_EQ(events[0].kind, "result");
}

/// Requests too: who submits and cancels, or pauses and resumes, would fill the database by that.
TEST_F(StoreTest, AJobKeepsItsRequestAndItsStates) {
  const ServedJob job =
      store_.add_served_job({.owner = "alice", .model_name = "net", .request = std::string(1000, 'x')});
  const int64_t queued = store_.kept_by_owner("alice");
  EXPECT_GT(queued, 1000);
  EXPECT_TRUE(store_.set_served_state(job.id, JobState::kStopped));
  EXPECT_TRUE(store_.set_served_state(job.id, JobState::kQueued));
  const int64_t resumed = store_.kept_by_owner("alice");
  EXPECT_GT(resumed, queued);
  EXPECT_GE(store_.stored_by(job.id).bytes, resumed) << "a search goes on from there";
  EXPECT_TRUE(store_.set_served_state(job.id, JobState::kCancelled));
  EXPECT_GT(store_.kept_by_owner("alice"), resumed);
}

/// Of all jobs that an owner ever had, what their searches stood at would be most of the database.
TEST_F(StoreTest, AFinalJobKeepsNoCheckpoint) {
  const ServedJob job = store_.add_served_job({.owner = "alice", .model_name = "net"});
  store_.set_served_search(job.id, farm_.job);
  store_.checkpoint_task(farm_.job, farm_.workload, 1, "\xff twelve bytes");
  const int64_t texts = store_.stored_by(job.id).bytes, kRow = 128;
  store_.add_served_event(job.id, "progress", "\"\xc3\xa9\"");
  EXPECT_EQ(store_.stored_by(job.id).bytes, texts + 4 + kRow) << "bytes, not letters";
  store_.set_served_kept(job.id, 100);
  EXPECT_TRUE(store_.set_served_state(job.id, JobState::kStopped));
  EXPECT_NE(store_.job_tasks(farm_.job).at(0).checkpoint, "");
  EXPECT_TRUE(store_.set_served_state(job.id, JobState::kFailed));
  EXPECT_EQ(store_.job_tasks(farm_.job).at(0).checkpoint, "");
  EXPECT_EQ(store_.kept_by_owner("alice"), 100 - 14 + 2 * kRow);
}

TEST_F(StoreTest, ServedJobsOfAState) {
  std::vector<ServedJobId> ids;
  for (const char* owner : {"alice", "bob", "alice"})
    ids.push_back(store_.add_served_job({.owner = owner, .model_name = "net"}).id);
  store_.set_served_state(ids[0], JobState::kDone);
  const auto found = [&](const ServedJobQuery& query) {
    std::vector<ServedJobId> found;
    for (const ServedJob& job : store_.served_jobs(query)) found.push_back(job.id);
    return found;
  };
  EXPECT_EQ(found({}), (std::vector{ids[2], ids[1], ids[0]}));
  EXPECT_EQ(found({.state = JobState::kQueued}), (std::vector{ids[2], ids[1]}));
  EXPECT_EQ(found({.state = JobState::kDone}), std::vector{ids[0]});
  EXPECT_EQ(found({.owner = "alice", .before = ids[2]}), std::vector{ids[0]});
  EXPECT_EQ(found({.state = JobState::kQueued, .owner = "bob", .model = "net"}), std::vector{ids[1]});
  EXPECT_TRUE(found({.model = "another"}).empty());
}

TEST_F(StoreTest, CostModels) {
  EXPECT_FALSE(store_.cost_model_of(farm_.job));
  store_.add_cost_model({.job = farm_.job, .target = farm_.target, .round = 1, .model = "old"});
  store_.add_cost_model(
      {.job = farm_.job, .target = farm_.target, .round = 2, .spearman = 0.9, .model = "new"});
  EXPECT_EQ(store_.cost_model_of(farm_.job)->model, "new");
  EXPECT_EQ(store_.cost_model_of(farm_.job)->spearman, 0.9);
  EXPECT_FALSE(store_.latest_cost_model(farm_.target)) << "its job still learns";
  store_.set_job_state(farm_.job, JobState::kDone);
  EXPECT_EQ(store_.latest_cost_model(farm_.target)->model, "new");
}

}  // namespace
}  // namespace lathe::db
