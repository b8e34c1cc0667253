// Trials as people look at them.
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class ViewsTest : public ::testing::Test {
 protected:
  ViewsTest() {
    farm_.measured("a", {2e-3f, 2e-3f});
    fail("b");
    farm_.measured("c", {1e-3f, 1e-3f, 3e-3f});
    open_ = farm_.leased("d").trial;
  }

  void fail(const std::string& trace) {
    TrialResult result{
        .lease = farm_.leased(trace).id, .outcome = Outcome::kCrashed, .error = "it fell", .signal = 11};
    store_.record(std::span(&result, 1));
  }
  std::vector<TrialId> ids(TrialQuery query) {
    query.job = farm_.job;
    std::vector<TrialId> ids;
    for (const TrialRow& row : store_.trial_rows(query)) ids.push_back(row.id);
    return ids;
  }

  TemporaryFolder folder_;
  Farm farm_{database_in(folder_, "lathe.db")};
  Store& store_ = farm_.store;
  TrialId open_ = 0;
};

TEST_F(ViewsTest, RowsAreFilteredAndTurnedByPages) {
  EXPECT_THAT(ids({}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ids({.newest_first = true, .limit = 2}), ElementsAre(4, 3));
  EXPECT_THAT(ids({.before = 3, .newest_first = true}), ElementsAre(2, 1));
  EXPECT_THAT(ids({.after = 2}), ElementsAre(3, 4));
  EXPECT_THAT(ids({.outcome = Outcome::kCrashed}), ElementsAre(2));
  EXPECT_THAT(ids({.workload = farm_.workload}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(ids({.workload = farm_.workload + 1}), ElementsAre());
}

/// A list has up to 10,000 of them, each as long as a candidate makes it.
TEST_F(ViewsTest, OfALongErrorAListHasTheBeginning) {
  const std::string error = "\u00e9" + std::string(2000, 'e');
  TrialResult result{.lease = farm_.leased("e").id, .outcome = Outcome::kCrashed, .error = error};
  store_.record(std::span(&result, 1));
  const TrialRow listed = store_.trial_rows({.job = farm_.job}).back();
  EXPECT_TRUE(listed.error == error.substr(0, kListedError + 1)) << "no character is cut";
  EXPECT_TRUE(store_.trial_life(listed.id).value().row.error == error);
}

TEST_F(ViewsTest, PointsAreWhatWasMeasured) {
  const std::vector<TrialPoint> points = store_.trial_points(farm_.job, 0);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].id, 1);
  EXPECT_FLOAT_EQ(points[1].seconds, 1e-3f);
  EXPECT_TRUE(store_.trial_points(farm_.job, farm_.workload + 1).empty());
}

TEST_F(ViewsTest, ALifeHasLeasesSamplesAndFailure) {
  const TrialLife measured = store_.trial_life(3).value();
  EXPECT_EQ(measured.job, farm_.job);
  EXPECT_EQ(measured.trace, "c");
  EXPECT_THAT(measured.samples, ElementsAre(1e-3f, 1e-3f, 3e-3f));
  ASSERT_EQ(measured.leases.size(), 1u);
  EXPECT_EQ(measured.leases[0].ending, "result");
  const TrialLife failed = store_.trial_life(2).value();
  EXPECT_EQ(failed.signal, 11);
  EXPECT_EQ(failed.row.error, "it fell");
  EXPECT_TRUE(failed.samples.empty());
  EXPECT_FALSE(store_.trial_life(99));
}

TEST_F(ViewsTest, OpenLeasesAreThoseThatAWorkerHolds) {
  farm_.leased("e");
  EXPECT_EQ(store_.open_leases("w", 10).size(), 2u);
  EXPECT_TRUE(store_.open_leases("another", 10).empty());
  const std::vector<LeaseSpan> leases = store_.open_leases("w", 1);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].trial, open_);
  EXPECT_EQ(leases[0].worker, "w");
  EXPECT_EQ(leases[0].ended_ms, 0);
}

TEST_F(ViewsTest, AClockIsThatOfAWorkersNewestMeasurements) {
  EXPECT_FALSE(store_.worker_clock("w", 32));
  for (const double ghz : {1.0, 3.0, 2.9, 2.0}) {
    farm_.now_ms += 1000;
    TrialResult result{.lease = farm_.leased(fmt::format("at {}", ghz)).id,
                       .device = farm_.device,
                       .samples = {1e-3f},
                       .conditions = {.clock_hz = ghz * 1e9, .disturbed = ghz == 2.0 ? 0.6 : 0}};
    store_.record(std::span(&result, 1));
  }
  const WorkerClock clock = store_.worker_clock("w", 3).value();  // the first is too old
  EXPECT_EQ(clock.measurements, 3);
  EXPECT_EQ(clock.latest, 2e9);
  EXPECT_EQ(clock.lowest, 2e9);
  EXPECT_EQ(clock.highest, 3e9);
  EXPECT_TRUE(clock.is_throttled);
  EXPECT_DOUBLE_EQ(clock.throttled, 1.0 / 3);  // 2.9 GHz is near enough
  EXPECT_DOUBLE_EQ(clock.disturbed, 0.2);
  EXPECT_EQ(store_.trial_life(8)->conditions.clock_hz, 2e9);
  EXPECT_FALSE(store_.worker_clock("somebody else", 32));
}

TEST_F(ViewsTest, ATrialSaysWhatItWasMeasuredUnder) {
  const Conditions known{.clock_hz = 2e9,
                         .disturbed = 0,
                         .canary = 1.1,
                         .celsius = 55.5,
                         .timer_seconds = 25e-9,
                         .driver = "Linux 6.1.0"};
  const auto recorded = [&](const std::string& trace, const Conditions& conditions) {
    const Lease lease = farm_.leased(trace);
    TrialResult result{
        .lease = lease.id, .device = farm_.device, .samples = {1e-3f}, .conditions = conditions};
    EXPECT_EQ(store_.record(std::span(&result, 1)).at(0), Recorded::kRecorded);
    return store_.trial_life(lease.trial)->conditions;
  };
  EXPECT_EQ(recorded("said", known), known);
  EXPECT_EQ(recorded("unsaid", {}), Conditions()) << "an old worker's, which says nothing";
  // A worker may say anything: what cannot be is not known, and costs no result.
  EXPECT_EQ(
      recorded("impossible",
               {.clock_hz = 0, .disturbed = 2, .canary = -1, .celsius = NAN, .timer_seconds = INFINITY}),
      Conditions());
}

TEST_F(ViewsTest, TheQuarantinedComeWithWhomTheyTookAway) {
  EXPECT_TRUE(store_.quarantined(0, 10).empty());
  for (const char* trace : {"e", "f"}) {
    const Lease first = farm_.leased(trace);
    store_.end_lease(first.id, LeaseEnd::kLost);
    TrialResult result{.lease = store_.grant(first.trial, "w", 1).value().id,
                       .outcome = Outcome::kWorkerLost,
                       .error = "its worker went away",
                       .signal = 9};
    store_.record(std::span(&result, 1));
  }
  const std::vector<Quarantined> all = store_.quarantined(0, 10);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_GT(all[0].id, all[1].id);
  EXPECT_EQ(all[0].signal, 9);
  EXPECT_EQ(all[0].error, "its worker went away");
  ASSERT_EQ(all[0].leases.size(), 2u);
  EXPECT_EQ(all[0].leases[0].ending, "lost");
  EXPECT_THAT(store_.quarantined(all[0].id, 10), SizeIs(1));
  EXPECT_THAT(store_.quarantined(0, 1), SizeIs(1));
}

TEST_F(ViewsTest, TasksAreCountedAndTheirFastestFound) {
  EXPECT_EQ(store_.ended_trials(farm_.job), 3);
  const std::vector<TaskBest> bests = store_.task_bests(farm_.job);
  ASSERT_EQ(bests.size(), 1u);
  EXPECT_EQ(bests[0].workload, farm_.workload);
  EXPECT_FLOAT_EQ(bests[0].seconds.value(), 1e-3f);
  EXPECT_EQ(bests[0].samples, 3);
  EXPECT_FALSE(store_.task_bests(farm_.job, DeviceKind{.model = "another", .cores = 8})[0].seconds);
  EXPECT_FALSE(store_.task_bests(farm_.job, {}, /*until_ms=*/1)[0].seconds);
  const JobId threads = farm_.add_job(farm_.target, 2);
  EXPECT_FALSE(store_.task_bests(threads)[0].seconds) << "other threads were never measured";
}

}  // namespace
}  // namespace lathe::db
