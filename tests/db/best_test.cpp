// What `best` may and may not answer.
#include <time.h>

#include "db/database.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BestTest : public ::testing::Test {
 protected:
  /// Measures `trace` on another farm of rows and confirms it.
  Measurement confirmed(const std::string& trace, float seconds) {
    farm_.measured(trace, {seconds});
    Measurement added = store_.history(farm_.workload, farm_.target).back();
    store_.confirm(added.id, std::vector<float>{seconds});
    return added;
  }

  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
};

/// What many jobs have measured grows without end; what a search learns of it does not.
TEST_F(BestTest, HistoryIsOfTheNewestAndTheFastest) {
  std::vector<MeasurementId> ids;
  for (const float seconds : {5.0f, 1.0f, 3.0f, 2.0f, 9.0f, 8.0f}) {
    farm_.measured(fmt::format("{}", seconds), {seconds});
    ids.push_back(store_.latest(farm_.workload, farm_.target, 1).at(0).id);
  }
  const auto history = [&](int limit) { return store_.history_ids(farm_.workload, farm_.target, limit); };
  EXPECT_EQ(history(6), ids);
  EXPECT_EQ(history(4), (std::vector{ids[1], ids[3], ids[4], ids[5]}));
  EXPECT_EQ(history(3), (std::vector{ids[1], ids[3], ids[5]}));
  EXPECT_TRUE(history(0).empty());
  std::vector<double> seconds;
  for (const Measurement& known : store_.history(farm_.workload, farm_.target, 4))
    seconds.push_back(known.seconds);
  EXPECT_EQ(seconds, (std::vector{1.0, 2.0, 9.0, 8.0}));
  // An end that is no measurement of theirs changes nothing.
  EXPECT_FALSE(store_.measurement(farm_.workload, farm_.target + 1, ids[0]));
  EXPECT_EQ(store_.measurements(farm_.workload, farm_.target, ids, 1).size(), 1u);
}

/// Hosts of a kind are many, and a faster kind may have measured most of what there is.
TEST_F(BestTest, OfOneKindOfDevices) {
  const DeviceId two_cores = farm_.device;
  const auto on = [&](const char* host, int cores, const std::string& trace, float seconds) {
    farm_.device = store_.add_device({.host = host, .model = "m", .architecture = "x86_64", .cores = cores});
    return confirmed(trace, seconds).id;
  };
  const MeasurementId mine = on("a", 1, "slow", 5), also_mine = on("b", 1, "slower", 6);
  for (int i = 0; i < 3; ++i) on("h", 2, fmt::format("fast {}", i), 1);
  farm_.measured("unconfirmed", {0.5f});
  ASSERT_EQ(farm_.device, two_cores);
  const auto kind = [](int cores) { return DeviceKind{.model = "m", .cores = cores}; };
  BestQuery query{.workload = farm_.workload, .target = farm_.target, .threads = 1, .kind = kind(1)};
  for (const int threads : {1, 0}) {
    query.threads = threads;
    const std::vector<Measurement> top = store_.top(query, 9);
    ASSERT_EQ(top.size(), 2u);
    EXPECT_EQ(top[0].id, mine);
    EXPECT_EQ(top[1].id, also_mine);
    EXPECT_EQ(store_.top(query, 1).size(), 1u);
    EXPECT_EQ(store_.best(query)->measurement.id, mine);
  }
  query.kind = kind(4);
  EXPECT_FALSE(store_.best(query)) << "nor a compatible target's";
  query.kind = kind(2);
  query.accept_unconfirmed = true;
  EXPECT_EQ(store_.best(query)->measurement.trace, "fast 0");
  EXPECT_EQ(store_.top(query, 9).size(), 4u);
  const std::vector<MeasurementId> all = store_.history_ids(farm_.workload, farm_.target);
  EXPECT_EQ(all.size(), 6u);
  EXPECT_EQ(store_.history_ids(farm_.workload, farm_.target, 9, kind(1)), (std::vector{mine, also_mine}));
  EXPECT_EQ(store_.measurements(farm_.workload, farm_.target, all, SIZE_MAX, kind(1)).size(), 2u);
  EXPECT_EQ(store_.measurements(farm_.workload, farm_.target, all, SIZE_MAX, kind(2)).size(), 4u);
  const std::string program = store_.measurement(farm_.workload, farm_.target, mine)->program;
  EXPECT_EQ(store_.measured(farm_.workload, farm_.target, program, kind(1)).size(), 1u);
  EXPECT_TRUE(store_.measured(farm_.workload, farm_.target, program, kind(2)).empty());
  store_.set_suspect(farm_.worker, 0);
  query.kind = kind(1);
  query.threads = 1;
  EXPECT_EQ(store_.top_suspect(query, 9).size(), 2u);
}

TEST_F(BestTest, NeedsConfirmation) {
  farm_.measured("fast", {1e-3f});
  EXPECT_FALSE(farm_.best());
  EXPECT_EQ(farm_.best(true)->measurement.trace, "fast");
  confirmed("slow", 5e-3f);
  EXPECT_EQ(farm_.best()->measurement.trace, "slow");
  EXPECT_EQ(farm_.best(true)->measurement.trace, "slow");  // a confirmed one comes first
}

TEST_F(BestTest, RanksByTheConfirmedTime) {
  Measurement lucky = confirmed("lucky", 1e-3f);
  confirmed("steady", 2e-3f);
  EXPECT_EQ(farm_.best()->measurement.trace, "lucky");
  // The median of 1, 3, 3, whichever of them had more samples: it had only been lucky.
  store_.confirm(lucky.id, std::vector<float>{3e-3f});
  store_.confirm(lucky.id, std::vector<float>{3e-3f, 3e-3f});
  EXPECT_EQ(farm_.best()->measurement.trace, "steady");
  Measurement kept = store_.top({.workload = farm_.workload, .target = farm_.target}, 2).at(1);
  EXPECT_FLOAT_EQ(kept.seconds, 3e-3f);
  EXPECT_FLOAT_EQ(kept.summary.median, 1e-3f);  // the first samples stay
}

TEST_F(BestTest, IsToldByWhatDoesNotRankIt) {
  const MeasurementId id = confirmed("a", 1e-3f).id;
  confirmed("b", 2e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.told_seconds, 1e-3f) << "by what ranks it, for want of others";
  store_.confirm(id, std::vector<float>{3e-3f}, {}, /*tells=*/true);
  EXPECT_EQ(farm_.best()->measurement.trace, "a");
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 1e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.told_seconds, 3e-3f);
  EXPECT_THAT(store_.told_medians(id), testing::ElementsAre(testing::DoubleEq(3e-3f)));
  // Of a worker that is no longer believed neither counts; what is left does both.
  farm_.now_ms += 1000;
  const WorkerId other = store_.add_worker("v", farm_.device);
  store_.confirm(id, std::vector<float>{1.5e-3f}, other, /*tells=*/true);
  store_.set_suspect(farm_.worker, 0);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 1.5e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.told_seconds, 1.5e-3f);
}

/// A file may come from anywhere.
TEST_F(BestTest, SamplesThatAreNoTimesAreADamagedDatabase) {
  const MeasurementId id = confirmed("a", 1e-3f).id;
  const std::string message =
      fmt::format("database {} is damaged: the samples of measurement {} are no times",
                  database_in(folder_, "lathe.db"), id);
  for (const std::vector<float>& samples : {std::vector<float>(), {NAN}, {-1}}) {
    for (const char* table : {"confirmation", "measurement"})
      store_.database().run(fmt::format("UPDATE {} SET samples = ?", table), {as_blob(samples)});
    try {
      store_.told_medians(id);
      ADD_FAILURE() << samples.size();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), message);
    }
  }
}

/// 2^32 is 0 as an int, of which each number of threads is: the best was looked for until the stack was full.
TEST_F(BestTest, ThreadsThatCannotBeAreADamagedDatabase) {
  confirmed("a", 1e-3f);
  store_.database().run("UPDATE measurement SET threads = 4294967296");
  EXPECT_THAT(thrown_by([&] { store_.top({.workload = farm_.workload, .target = farm_.target}, 2); }),
              HasSubstr(" holds a measurement by 4294967296 threads; do not trust it"));
}

TEST_F(BestTest, SuspectResultsAreOut) {
  confirmed("old", 2e-3f);
  farm_.now_ms += 1000;
  confirmed("new", 1e-3f);
  EXPECT_EQ(store_.set_suspect(farm_.worker, farm_.now_ms), 1);
  EXPECT_EQ(farm_.best()->measurement.trace, "old");
  EXPECT_EQ(farm_.best(true)->measurement.trace, "old");
  EXPECT_EQ(store_.history(farm_.workload, farm_.target).size(), 1u);
  EXPECT_EQ(
      store_.top_suspect({.workload = farm_.workload, .target = farm_.target, .threads = 1}, 3).at(0).trace,
      "new");
}

/// What was learnt from them is out with them: later jobs would begin with it.
TEST_F(BestTest, SuspectResultsTeachNothing) {
  const TargetId other = store_.add_target({.name = "another", .architecture = "x86_64"});
  store_.add_cost_model({.target = farm_.target, .model = "of before"});
  farm_.now_ms += 1000;
  confirmed("new", 1e-3f);
  store_.add_cost_model({.job = farm_.job, .target = farm_.target, .model = "of the liar"});
  store_.add_cost_model({.target = farm_.target, .model = "of whoever knew of it"});
  store_.add_cost_model({.target = other, .model = "of others"});
  store_.set_suspect(farm_.worker, farm_.now_ms);
  EXPECT_FALSE(store_.cost_model_of(farm_.job));
  EXPECT_EQ(store_.latest_cost_model(farm_.target).value().model, "of before");
  EXPECT_EQ(store_.latest_cost_model(other).value().model, "of others");
}

/// By a clock that was an hour ahead until it was set: nothing measured since would ever be suspect.
TEST_F(BestTest, AGoodCanaryOfTomorrowIsNone) {
  farm_.now_ms += 3'600'000;
  store_.set_worker_health({.worker = "w", .device_class = "c"}, /*good=*/true);
  EXPECT_EQ(store_.last_good_canary("w", "c"), farm_.now_ms);
  farm_.now_ms -= 3'600'000;
  EXPECT_EQ(store_.last_good_canary("w", "c"), std::nullopt);
}

TEST_F(BestTest, SuspectResultsAreInAgainOnceMeasuredAgain) {
  confirmed("new", 1e-3f);
  store_.set_suspect(farm_.worker, farm_.now_ms);
  ASSERT_FALSE(farm_.best(true));
  // The job that measured it does not search it twice; another one does, and is not told that it is known.
  farm_.job = farm_.add_job(farm_.target, 1);
  farm_.measured("new", {3e-3f});
  ASSERT_TRUE(farm_.best(true));
  EXPECT_FALSE(farm_.best(true)->measurement.confirmed) << "what confirmed it is suspect too";
  EXPECT_FLOAT_EQ(farm_.best(true)->measurement.seconds, 3e-3f);
}

/// Results of two workers of one class.
class ElsewhereTest : public BestTest {
 protected:
  /// A trial to confirm `trace` that `worker` measured on `device`.
  void confirm_on(const std::string& worker, DeviceId device, const std::string& trace, float seconds) {
    NewTrial trial{.workload = farm_.workload, .trace = trace, .purpose = Purpose::kConfirm};
    const TrialId id = store_.add_trials(farm_.job, std::span(&trial, 1)).at(0).trial;
    EXPECT_EQ(store_.testimonies(id).back().worker, last_);
    TrialResult result{.lease = store_.grant(id, worker, 1)->id, .device = device, .samples = {seconds}};
    store_.record(std::span(&result, 1));
    last_ = worker;
    farm_.now_ms += 10;
  }

  DeviceId twin_ = store_.add_device({.host = "h2", .model = "m", .architecture = "x86_64", .cores = 2});
  DeviceId other_ = store_.add_device({.host = "h3", .model = "n", .architecture = "x86_64", .cores = 2});
  WorkerId v_ = store_.add_worker("v", twin_);
  std::string last_ = "w";  // who measured last
};

TEST_F(ElsewhereTest, AnotherWorkerOfTheClassConfirms) {
  farm_.measured("a", {1e-3f});
  confirm_on("w", farm_.device, "a", 1e-3f);
  EXPECT_TRUE(farm_.best()->measurement.confirmed);
  EXPECT_FALSE(farm_.best()->measurement.confirmed_elsewhere);
  confirm_on("v", twin_, "a", 1.2e-3f);
  EXPECT_TRUE(farm_.best()->measurement.confirmed_elsewhere);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 1.1e-3f) << "the median of both";
}

TEST_F(ElsewhereTest, OfTwoThatDisagreeTheSlowerCounts) {
  farm_.measured("a", {1e-3f});
  confirm_on("w", farm_.device, "a", 1e-3f);
  confirm_on("v", twin_, "a", 3e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 3e-3f);
  EXPECT_THAT(store_.told_medians(farm_.best()->measurement.id), testing::ElementsAre(3e-3f));
}

TEST_F(ElsewhereTest, OfThreeThatDisagreeTheMiddleOneCounts) {
  store_.add_worker("x", twin_);
  farm_.measured("a", {1e-3f});
  confirm_on("v", twin_, "a", 30e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 30e-3f) << "who measured it first was perhaps lucky";
  confirm_on("x", twin_, "a", 1.1e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 1.1e-3f);
  confirm_on("w", farm_.device, "a", 1.1e-3f);
  confirm_on("v", twin_, "a", 0.1e-3f);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 1.1e-3f);
}

TEST_F(ElsewhereTest, AnotherClassDoesNot) {
  farm_.measured("a", {1e-3f});
  confirm_on("v", other_, "a", 3e-3f);
  EXPECT_FALSE(farm_.best());
  EXPECT_EQ(store_.history(farm_.workload, farm_.target).size(), 2u) << "a measurement of its own";
}

TEST_F(ElsewhereTest, WhatAnotherWorkerConfirmedStays) {
  farm_.measured("a", {1e-3f});
  confirm_on("v", twin_, "a", 2e-3f);
  EXPECT_EQ(store_.set_suspect(farm_.worker, 0), 0);
  EXPECT_FLOAT_EQ(farm_.best()->measurement.seconds, 2e-3f);
  // And the other way round: without the confirmation, its own samples count again.
  EXPECT_EQ(store_.set_suspect(v_, 0), 1);
  EXPECT_FALSE(farm_.best());
  EXPECT_FLOAT_EQ(farm_.best(true)->measurement.seconds, 1e-3f);
}

TEST_F(ElsewhereTest, AnotherWorkerMeasuresASuspectResultAgain) {
  farm_.measured("a", {1e-3f});
  store_.set_suspect(farm_.worker, 0);
  confirm_on("v", twin_, "a", 2e-3f);
  last_ = "v";
  EXPECT_EQ(farm_.best(true)->rung, Rung::kTarget) << "it is of the other device now";
  BestQuery query{.workload = farm_.workload, .target = farm_.target, .accept_unconfirmed = true};
  EXPECT_FLOAT_EQ(store_.best(query)->measurement.seconds, 2e-3f);
  EXPECT_FALSE(store_.best(query)->measurement.confirmed);
  confirm_on("v", twin_, "a", 2e-3f);
  EXPECT_TRUE(store_.best(query)->measurement.confirmed);
  EXPECT_FALSE(store_.best(query)->measurement.confirmed_elsewhere);
}

TEST_F(BestTest, ResultsTooFarOffAreOut) {
  for (const auto& [trace, seconds, error] :
       {std::tuple("rough", 1e-3f, 1e-3), std::tuple("fine", 2e-3f, 1e-6)}) {
    TrialResult result{.lease = farm_.leased(trace).id,
                       .device = farm_.device,
                       .samples = {seconds},
                       .relative_error = error};
    store_.record(std::span(&result, 1));
  }
  BestQuery query{.workload = farm_.workload, .target = farm_.target, .accept_unconfirmed = true};
  EXPECT_EQ(store_.best(query)->measurement.trace, "rough");
  query.max_relative_error = 1e-4;
  EXPECT_EQ(store_.best(query)->measurement.trace, "fine");
  EXPECT_EQ(store_.top(query, 5).size(), 1u);
  query.max_relative_error = 1e-7;
  EXPECT_FALSE(store_.best(query));
}

TEST_F(BestTest, LadderGoesFromDeviceToTargetToCompatibleTarget) {
  auto add_farm = [&](const std::string& host, const Target& target, const std::string& trace,
                      float seconds) {
    farm_.device = store_.add_device({.host = host});
    TargetId id = store_.add_target(target);
    farm_.job = farm_.add_job(id, 1);
    farm_.measured(trace, {seconds});
    store_.confirm(store_.history(farm_.workload, id).back().id, std::vector<float>{seconds});
  };
  DeviceId own = farm_.device;
  BestQuery query{.workload = farm_.workload, .target = farm_.target, .device = own};
  BestQuery strict = query;
  strict.strict = true;
  add_farm("wider", {"cpu:wide", "x86_64", "avx2,avx512f,fma"}, "needs avx512", 1e-4f);
  add_farm("arm", {"cpu:arm", "aarch64", ""}, "other architecture", 1e-4f);
  EXPECT_FALSE(store_.best(query));

  add_farm("narrow", {"cpu:sse", "x86_64", "fma"}, "narrow", 3e-3f);
  EXPECT_EQ(store_.best(query)->rung, Rung::kCompatible);
  EXPECT_EQ(store_.best(query)->measurement.trace, "narrow");

  add_farm("twin", {"cpu:x", "x86_64", "avx2,fma"}, "twin", 4e-3f);
  EXPECT_EQ(store_.best(query)->rung, Rung::kTarget);
  EXPECT_EQ(store_.best(query)->measurement.trace, "twin");
  EXPECT_FALSE(store_.best(strict));

  farm_.device = own;
  confirmed("own", 5e-3f);
  EXPECT_EQ(store_.best(query)->rung, Rung::kDevice);
  EXPECT_EQ(store_.best(query)->measurement.trace, "own");
  EXPECT_EQ(store_.best(strict)->measurement.trace, "own");
}

TEST_F(BestTest, ThreadsArePreferredUnlessStrict) {
  confirmed("one", 2e-3f);
  farm_.job = farm_.add_job(farm_.target, 2);
  confirmed("two", 1e-3f);
  BestQuery query{.workload = farm_.workload, .target = farm_.target, .device = farm_.device, .threads = 1};
  EXPECT_EQ(store_.best(query)->measurement.trace, "one");
  query.threads = 0;
  EXPECT_EQ(store_.best(query)->measurement.trace, "two");
  query.threads = 4;
  EXPECT_EQ(store_.best(query)->measurement.trace, "two");
  query.strict = true;
  EXPECT_FALSE(store_.best(query));
}

TEST_F(BestTest, CoverageOfAModel) {
  ModelId model = store_.add_model("net", "d");
  WorkloadId other = store_.add_workload({.digest = "o", .text = "o", .flops = 7});
  std::vector<ModelTask> tasks = {{.workload = farm_.workload, .name = "mm", .calls = 2},
                                  {.workload = other, .name = "o"}};
  store_.set_model_tasks(model, farm_.target, tasks);
  confirmed("t", 1e-3f);
  std::vector<Coverage> coverage = store_.coverage(model, {.target = farm_.target});
  ASSERT_EQ(coverage.size(), 2u);
  EXPECT_EQ(coverage[0].task.calls, 2);
  EXPECT_EQ(coverage[0].measured, 1);
  EXPECT_EQ(coverage[0].best->measurement.trace, "t");
  EXPECT_EQ(coverage[1].measured, 0);
  EXPECT_EQ(coverage[1].flops, 7);
  EXPECT_FALSE(coverage[1].best);
}

/// Inserts measurements by SQL, since a million calls of the store would take minutes.
void fill(Database& database, int candidates) {
  database.run(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
      "INSERT INTO candidate(digest, workload, target, program, trace) SELECT 'd' || i, 1, 1, 'p', 't' FROM "
      "n",
      {candidates});
  const float sample = 0;
  database.run(
      "INSERT INTO measurement(candidate, workload, target, device, threads, seconds, median, p25, min, mad, "
      "n, "
      "samples, relative_error, compiler, revision, recorded_ms, confirmed) "
      "SELECT id, 1, 1, 1, 1, 1.0 + (id * 7919 % 100003), 1, 1, 1, 0, 1, ?, 0, '', '', 0, "
      "CASE WHEN id % 100 = 0 THEN 1 ELSE 0 END FROM candidate",
      {as_blob(std::span(&sample, 1))});
}

double thread_cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

TEST_F(BestTest, IsIndexedOverAHundredThousandResults) {
  fill(store_.database(), 100'000);
  for (bool accept_unconfirmed : {false, true}) {
    farm_.best(accept_unconfirmed);
    double begin = thread_cpu_seconds();
    for (int i = 0; i < 20; ++i) farm_.best(accept_unconfirmed);
    double each = (thread_cpu_seconds() - begin) / 20;
    RecordProperty("best_us", std::to_string(each * 1e6));
    EXPECT_LT(each, 1e-3);
  }
}

}  // namespace
}  // namespace lathe::db
