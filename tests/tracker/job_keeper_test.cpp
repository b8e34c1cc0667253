// What a keeper does with searchers that do not end as they should. Shells stand for them.
#include "tracker/job_keeper.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <regex>
#include <thread>

#include "core/support/temporary_folder.h"
#include "core/support/text.h"
#include "core/tir/target.h"
#include "db/database_error.h"
#include "tracker/farm.h"
#include "tracker/job_request.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

/// Has one worker, and remembers whose trials were cancelled.
class QuietFarm final : public ServiceFarm {
 public:
  std::vector<Submission> submit(JobId, std::span<const Candidate>) override { return {}; }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return {}; }
  size_t in_flight(JobId) override { return 0; }
  FarmStatus status() override {
    WorkerStatus worker{.name = "w"};
    worker.device = R"({"model": "a processor", "cores": 2, "architecture": "x86_64", "target": "cpu:x"})";
    worker.backends = {"cpu"};
    worker.slots = 1;
    return {.slots = 1, .workers = {worker}};
  }
  void cancel(JobId job) override { cancelled = job; }
  TrialId race(TrialSpec) override { return 0; }
  void cancel_race(TrialId) override {}
  void leave(JobId) override {}

  std::atomic<JobId> cancelled{0};
};

/// A worker that no candidate comes back from.
class SilentFarm final : public ServiceFarm {
 public:
  std::vector<Submission> submit(JobId, std::span<const Candidate> candidates) override {
    if (disk_full) {
      ++refused;
      throw db::DatabaseError("database tuning.db can't grow");
    }
    submitted += candidates.size();
    return std::vector<Submission>(candidates.size());
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return {}; }
  size_t in_flight(JobId) override { return submitted; }
  FarmStatus status() override {
    const std::string target =
        to_text(parse_target_text("cpu:triple=x86_64-pc-linux-gnu,mcpu=haswell,vector=256"));
    FarmStatus status{.slots = 1};
    ++looks;
    if (empty) return status;
    status.workers.push_back(
        {.name = "w",
         .device =
             fmt::format(R"({{"model": "m", "cores": 1, "architecture": "x86_64", "target": "{}"}})", target),
         .backends = {"cpu"},
         .slots = 1});
    return status;
  }
  void cancel(JobId) override { ++cancelled; }
  TrialId race(TrialSpec) override { return 0; }
  void cancel_race(TrialId) override {}
  void leave(JobId) override {}

  std::atomic<size_t> submitted{0}, cancelled{0}, refused{0}, looks{0};
  std::atomic<bool> disk_full{false}, empty{false};
};

struct Office {
  TemporaryFolder folder;
  db::Store store{folder / "tuning.db"};
  QuietFarm farm;
  db::ServedJob job = store.add_served_job(
      {.owner = "alice", .model_name = "net", .request = to_json({.model = "net", .target = "cpu"})});
  db::JobId search = store.create_job({.target = store.add_target({.name = "cpu:x"})});
  std::unique_ptr<JobKeeper> keeper;

  /// The searcher is what a shell makes of `script`.
  explicit Office(const std::string& script) {
    store.set_served_search(job.id, search);
    store.set_served_device_class(job.id, "a processor, 2 cores");
    keeper = std::make_unique<JobKeeper>(
        KeeperSettings{.database = folder / "tuning.db",
                       .folder = folder / "files",
                       .searcher = {"/bin/sh", "-c", script},
                       .resolve_target = [](const std::string& text) { return text; },
                       .log = {}},
        farm);
  }
  db::JobState state() { return store.served_job(job.id).state; }
};

bool soon(const std::function<bool()>& condition) {
  for (int i = 0; i < 1500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

constexpr const char* kTenTrials = R"({"model": "net", "trials": 10})";

/// A job of ten trials whose searcher asks for more and more.
struct Greedy {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store{folder / "tuning.db"};
  db::ServedJob job = store.add_served_job({.owner = "alice", .model_name = "net", .request = kTenTrials});
  std::unique_ptr<JobKeeper> keeper;

  explicit Greedy(bool disk_full) {
    farm.disk_full = disk_full;
    keeper = std::make_unique<JobKeeper>(KeeperSettings{.database = folder / "tuning.db",
                                                        .folder = folder / "files",
                                                        .searcher = {PYTHON, GREEDY_SEARCHER}},
                                         farm);
  }
};

TEST(JobKeeper, EndsAJobThatWantsTooMuch) {
  Greedy greedy(/*disk_full=*/false);
  auto job = [&] { return greedy.store.served_job(greedy.job.id); };
  EXPECT_TRUE(soon([&] { return db::is_final(job().state) && greedy.farm.cancelled > 0; }));
  const db::ServedJob ended = job();
  EXPECT_EQ(ended.state, db::JobState::kFailed);
  EXPECT_EQ(ended.message,
            "its search asks for more than 74 trials, which a job of 10 may have with confirmations");
  EXPECT_EQ(ended.crashes, 0) << "it would only do it again";
  EXPECT_EQ(greedy.farm.submitted, 74u);
  EXPECT_EQ(greedy.farm.cancelled, 1u) << "nobody waits for its trials";
}

/// Three of them would fail the job: a full disk is no crash of the searcher, and its job goes on afterwards.
TEST(JobKeeper, CountsNoFailureOfTheDatabaseAsACrash) {
  Greedy greedy(/*disk_full=*/true);
  ASSERT_TRUE(soon([&] { return greedy.farm.refused >= 4; }));
  const db::ServedJob now = greedy.store.served_job(greedy.job.id);
  EXPECT_EQ(now.crashes, 0);
  EXPECT_EQ(now.state, db::JobState::kRunning);
  greedy.farm.disk_full = false;
  EXPECT_TRUE(soon([&] { return greedy.farm.submitted > 0; }));
}

/// What it leaves in its folder costs it its own lives, and is not taken for a trouble of the disk that may
/// pass.
TEST(JobKeeper, IsNotHeldUpByWhatASearcherLeaves) {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store(folder / "tuning.db");
  const db::ServedJob job = store.add_served_job(
      {.owner = "alice",
       .model_name = "net",
       .request = to_json({.model = "net.onnx", .model_digest = std::string(64, 'a'), .trials = 10})});
  JobKeeper keeper({.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searcher = {PYTHON, OBSTRUCTING_SEARCHER}},
                   farm);
  EXPECT_TRUE(soon([&] { return store.served_job(job.id).state == db::JobState::kFailed; }));
  EXPECT_EQ(store.served_job(job.id).crashes, 3);
  EXPECT_TRUE(std::filesystem::is_regular_file(keeper.job_folder(job.uuid) + "/search.log"));
}

/// The kernel bounds each of its files, and not how many there are.
TEST(JobKeeper, EndsASearchThatFillsTheDisk) {
  constexpr const char* kFull = "its search has filled its folder with [34] MiB, and may have 2 there";
  const std::pair<const char*, const char*> ways[] = {
      {"files", kFull},
      {"log", kFull},
      {"nameless", kFull},
      {"many", "its search has made more than 10000 files"},
      {"mapped", "its search has files that cannot be counted"}};
  for (const auto& [way, message] : ways) {
    TemporaryFolder folder;
    SilentFarm farm;
    db::Store store(folder / "tuning.db");
    const db::ServedJob job =
        store.add_served_job({.owner = "alice", .model_name = "net", .request = kTenTrials});
    JobKeeper keeper({.database = folder / "tuning.db",
                      .folder = folder / "files",
                      .searcher = {PYTHON, FILLING_SEARCHER, way},
                      .search_bytes = 2 << 20},
                     farm);
    ASSERT_TRUE(soon([&] { return store.served_job(job.id).state == db::JobState::kFailed; })) << way;
    EXPECT_TRUE(std::regex_match(store.served_job(job.id).message, std::regex(message)))
        << way << ": " << store.served_job(job.id).message;
    EXPECT_EQ(store.served_job(job.id).crashes, 0) << "it would only do it again";
    EXPECT_TRUE(soon([&] { return !std::filesystem::exists(keeper.job_folder(job.uuid) + "/search"); }));
  }
}

TEST(JobKeeper, LetsASearchHaveWhatItNeeds) {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store(folder / "tuning.db");
  const std::string digest(64, 'a');
  const db::ServedJob job =
      store.add_served_job({.owner = "alice",
                            .model_name = "net",
                            .request = to_json({.model = "net.onnx", .model_digest = digest, .trials = 10})});
  std::filesystem::create_directories(folder / "files/blobs");
  // Four times its model besides.
  write_file(folder / "files/blobs/" + digest, std::string(1 << 20, 'x'));
  JobKeeper keeper({.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searcher = {PYTHON, FILLING_SEARCHER, "files"},
                    .search_bytes = 2 << 20},
                   farm);
  const std::string full = keeper.job_folder(job.uuid) + "/search/full";
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(full); }));
  std::this_thread::sleep_for(1500ms);  // three looks
  EXPECT_EQ(store.served_job(job.id).state, db::JobState::kRunning);
}

/// A module stays for whoever fetches it, for ever.
TEST(JobKeeper, CountsAModuleForItsOwner) {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store(folder / "tuning.db");
  const db::ServedJob job =
      store.add_served_job({.owner = "alice", .model_name = "net", .request = kTenTrials});
  JobKeeper keeper({.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searcher = {PYTHON, FILLING_SEARCHER, "module"}},
                   farm);
  ASSERT_TRUE(soon([&] { return store.served_job(job.id).state == db::JobState::kDone; }));
  EXPECT_GE(store.kept_by_owner("alice"), 4 << 20);
  EXPECT_TRUE(std::filesystem::exists(keeper.job_folder(job.uuid) + "/net.lathe"));
}

/// It may run programs, the linker for one. One that is left behind holds the link, and with it the job's
/// place.
TEST(JobKeeper, EndsWhatASearcherHasStarted) {
  Office office("echo started >&2; sleep 600 & echo $! > $(dirname $(readlink /proc/$$/fd/2))/child; wait");
  const std::string file = office.keeper->job_folder(office.job.uuid) + "/child";
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(file) && std::filesystem::file_size(file) > 0; }));
  const std::string child = read_file(file);
  const auto is_running = [&] {  // whoever should wait for it may not do so
    std::ifstream words("/proc/" + child.substr(0, child.find('\n')) + "/cmdline");
    return words.peek() != std::ifstream::traits_type::eof();
  };
  EXPECT_TRUE(is_running());
  EXPECT_TRUE(office.keeper->cancel(office.job.id));
  EXPECT_TRUE(soon([&] { return !is_running(); }));
}

/// A full disk while the module is written would else cost the whole search.
TEST(JobKeeper, StopsAJobThatThisMachineHasNoRoomFor) {
  Office office("echo 'error: cannot write net.lathe: No space left on device' >&2; exit 4");
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kStopped; }));
    EXPECT_EQ(office.store.served_job(office.job.id).message,
              "cannot write net.lathe: No space left on device");
    EXPECT_TRUE(office.keeper->resume(office.job.id));
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

TEST(JobKeeper, CancelsWhatAFailedSearchLeftToBeMeasured) {
  Office office("echo 'error: the model is damaged' >&2; exit 2");
  EXPECT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  EXPECT_EQ(office.store.served_job(office.job.id).message, "the model is damaged");
  EXPECT_TRUE(soon([&] { return office.farm.cancelled == static_cast<JobId>(office.search); }));
}

/// Others go on, and so do orders about its own job, while a searcher that has closed its link stays.
TEST(JobKeeper, WaitsForNoSearcherThatStays) {
  Office office("exec 3<&-; exec sleep 600");
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kRunning; }));
  std::this_thread::sleep_for(300ms);
  std::future<bool> cancelled = std::async([&] { return office.keeper->cancel(office.job.id); });
  if (cancelled.wait_for(5s) != std::future_status::ready) {
    fprintf(stderr, "the keeper hangs, and so would this test\n");
    abort();
  }
  EXPECT_TRUE(cancelled.get());
  EXPECT_EQ(office.state(), db::JobState::kCancelled);
}

}  // namespace
}  // namespace lathe::tracker
