// Which devices a job waits for, and what becomes of one whose devices go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tracker/job_office.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

/// Nothing would be built for them, which candidates would be blamed for.
TEST(JobKeeper, AJobOfManyThreadsWaitsForSoManyCores) {
  for (const char* request : {R"({"model": "net", "trials": 10, "threads": 2})",
                              R"({"model": "net", "trials": 10, "threads": 2, "needs": {"cores": "1"}})"}) {
    Office office(shell("exec sleep 600"), {.request = request});
    ASSERT_TRUE(soon([&] { return !office.now().message.empty(); })) << request;
    EXPECT_EQ(office.now().message, "no device has 2 cores or more; without are: m, 1 core");
    EXPECT_EQ(office.state(), db::JobState::kQueued);
  }
}

/// A worker that comes is told by nobody; of the jobs without one the most urgent then begins.
TEST(JobKeeper, LooksAtALongQueueWhenAWorkerComes) {
  TemporaryFolder folder;
  SilentFarm farm;
  farm.empty = true;
  db::Store store(folder / "tuning.db");
  db::ServedJobId urgent{};
  for (int i = 0; i < 200; ++i) {
    const db::ServedJob job = store.add_served_job({.owner = i % 2 == 0 ? "alice" : "bob",
                                                    .model_name = "net",
                                                    .request = kTenTrials,
                                                    .priority = i == 140 ? 1 : 0});
    if (i == 140) urgent = job.id;
  }
  JobKeeper keeper({.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searches = 1,
                    .searcher = {"/bin/sh", "-c", "exec sleep 600"}},
                   farm);
  ASSERT_TRUE(soon([&] { return !store.served_job(urgent).message.empty() && farm.looks >= 3; }));
  EXPECT_EQ(store.served_job(urgent).state, db::JobState::kQueued);
  farm.empty = false;
  ASSERT_TRUE(soon([&] { return store.served_job(urgent).state == db::JobState::kRunning; }));
  EXPECT_EQ(store.served_jobs({.state = db::JobState::kRunning}).size(), 1u);
}

TEST(JobKeeper, SaysWhenTheDevicesOfASearchHaveGone) {
  Office office(shell("exec sleep 600"));
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kRunning; }));
  office.farm.empty = true;
  ASSERT_TRUE(soon([&] { return !office.now().message.empty(); }));
  EXPECT_THAT(office.now().message,
              testing::MatchesRegex(R"(no worker of its devices, m, 1 core, is ready \(since \S+ \S+ UTC; )"
                                    R"(at \S+ \S+ UTC the job ends with what it has\))"));
  EXPECT_EQ(office.state(), db::JobState::kRunning);
  office.farm.empty = false;
  EXPECT_TRUE(soon([&] { return office.now().message.empty(); }));
}

/// One search at once, of alice's job for devices of the class "m, 1 core", which does not end.
struct OneSearch {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store{folder / "tuning.db"};
  const db::ServedJobId first = add("alice", "m, 1 core");
  JobKeeper keeper{{.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searches = 1,
                    .searcher = {"/bin/sh", "-c", "exec sleep 600"},
                    .gives_way = 1s},
                   farm};

  db::ServedJobId add(const char* owner, const char* device) {
    const std::string request = fmt::format(R"({{"model": "net", "trials": 10, "device": "{}"}})", device);
    return store.add_served_job({.owner = owner, .model_name = "net", .request = request}).id;
  }
  db::ServedJob job(db::ServedJobId id) { return store.served_job(id); }
};

/// A search without devices would else keep others from theirs for as long as it likes.
TEST(JobKeeper, HasASearchWithoutDevicesGiveWay) {
  OneSearch one;
  ASSERT_TRUE(soon([&] { return one.job(one.first).state == db::JobState::kRunning; }));
  one.farm.has_another = true;
  const db::ServedJobId second = one.add("bob", "n, 1 core");
  one.keeper.wake();
  ASSERT_TRUE(soon([&] { return !one.job(second).message.empty(); }));
  EXPECT_EQ(one.job(second).message, "waits for the end of the one search that may run at once");
  EXPECT_EQ(one.job(one.first).state, db::JobState::kRunning);
  one.farm.empty = true;
  ASSERT_TRUE(soon([&] { return one.job(second).state == db::JobState::kRunning; }));
  EXPECT_EQ(one.job(second).message, "");
  EXPECT_EQ(one.job(one.first).state, db::JobState::kQueued);
  ASSERT_TRUE(soon([&] { return !one.job(one.first).message.empty(); }));
  EXPECT_EQ(one.job(one.first).message, "no device is called `m, 1 core`; there are: n, 1 core");
  EXPECT_EQ(one.job(one.first).crashes, 0);
  // Back are its devices, and the place is another's now.
  one.farm.empty = false;
  ASSERT_TRUE(one.keeper.cancel(second));
  EXPECT_TRUE(soon([&] { return one.job(one.first).state == db::JobState::kRunning; }));
}

/// Half searched, of devices that have left meanwhile: the database knows what they were.
struct HalfSearched {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store{folder / "tuning.db"};
  db::ServedJobId id =
      store.add_served_job({.owner = "alice", .model_name = "net", .request = kTenTrials}).id;
  std::optional<JobKeeper> keeper;

  HalfSearched(bool is_known, const char* searcher) {
    farm.empty = farm.has_another = true;
    if (is_known)
      store.add_device({.model = "m",
                        .architecture = "x86_64",
                        .cores = 1,
                        .details = R"({"model": "m", "cores": 1, "architecture": "x86_64"})"});
    store.set_served_device_class(id, "m, 1 core");
    store.set_served_search(id, store.create_job({.target = store.add_target({.name = "cpu:x"})}));
    keeper.emplace(KeeperSettings{.database = folder / "tuning.db",
                                  .folder = folder / "files",
                                  .searcher = {"/bin/sh", "-c", searcher},
                                  .waits_for_devices = 2s},
                   farm);
  }
  db::ServedJob job() { return store.served_job(id); }
};

/// It never goes on with others, nor waits for ever: its search is started to build what it has.
TEST(JobKeeper, EndsAJobWhoseDevicesStayAway) {
  HalfSearched half(true, "exec sleep 600");
  ASSERT_TRUE(soon([&] { return !half.job().message.empty(); }));
  EXPECT_THAT(half.job().message,
              testing::StartsWith("no worker of its devices, m, 1 core, is ready (since "));
  EXPECT_EQ(half.job().state, db::JobState::kQueued);
  ASSERT_TRUE(soon([&] { return half.job().state == db::JobState::kRunning; }));
  EXPECT_EQ(half.job().device_class, "m, 1 core");
}

TEST(JobKeeper, FailsAJobOfDevicesThatNobodyKnows) {
  HalfSearched half(false, "exec sleep 600");
  ASSERT_TRUE(soon([&] { return half.job().state == db::JobState::kFailed; }));
  EXPECT_EQ(half.job().message, "its devices, m, 1 core, have gone, and the database knows none such");
  EXPECT_TRUE(soon([&] { return half.farm.cancelled > 0; }));
}

/// Nor does one whose devices take leases and never answer, which says so.
TEST(JobKeeper, HasASearchOfMuteDevicesGiveWay) {
  OneSearch one;
  ASSERT_TRUE(soon([&] { return one.job(one.first).state == db::JobState::kRunning; }));
  one.farm.mute = true;
  ASSERT_TRUE(soon([&] { return !one.job(one.first).message.empty(); }));
  EXPECT_THAT(one.job(one.first).message,
              testing::MatchesRegex("no worker of its devices, m, 1 core, answers: each has let a lease pass "
                                    "its 5 minutes, and has measured nothing since \\(since .* UTC; .*\\)"));
  one.farm.mute = false;
  ASSERT_TRUE(soon([&] { return one.job(one.first).message.empty(); }));
  one.farm.has_another = one.farm.mute = true;
  const db::ServedJobId second = one.add("bob", "n, 1 core");
  one.keeper.wake();
  ASSERT_TRUE(soon([&] { return one.job(second).state == db::JobState::kRunning; }));
  EXPECT_EQ(one.job(one.first).state, db::JobState::kQueued);
  ASSERT_TRUE(one.keeper.cancel(second));
  EXPECT_TRUE(soon([&] { return one.job(one.first).state == db::JobState::kRunning; }))
      << "nobody else wants the place";
}

}  // namespace
}  // namespace lathe::tracker
