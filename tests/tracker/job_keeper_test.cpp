// What a keeper does with searchers that do not end as they should. Shells stand for them.
#include "tracker/job_keeper.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <regex>

#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/tracker/job_office.h"
#include "tracker/api.h"
#include "tracker/job_request.h"
#include "tracker/principals.h"

namespace lathe::tracker {
namespace {

using namespace std::chrono_literals;

/// Asks for more and more.
const std::vector<std::string> kGreedy = {PYTHON, GREEDY_SEARCHER};

TEST(JobKeeper, EndsAJobThatWantsTooMuch) {
  Office office(kGreedy);
  EXPECT_TRUE(soon([&] { return db::is_final(office.state()) && office.farm.cancelled > 0; }));
  const db::ServedJob ended = office.now();
  EXPECT_EQ(ended.state, db::JobState::kFailed);
  EXPECT_EQ(ended.message,
            "its search asks for more than 74 trials, which a job of 10 may have with confirmations");
  EXPECT_EQ(ended.crashes, 0) << "it would only do it again";
  EXPECT_EQ(office.farm.submitted, 74u);
  EXPECT_EQ(office.farm.cancelled, 1u) << "nobody waits for its trials";
}

/// Three of them would fail the job: a full disk is no crash of the searcher, and its job goes on afterwards.
TEST(JobKeeper, CountsNoFailureOfTheDatabaseAsACrash) {
  Office office(kGreedy, {.disk_full = true});
  ASSERT_TRUE(soon([&] { return office.farm.refused >= 4; }));
  const db::ServedJob now = office.now();
  EXPECT_EQ(now.crashes, 0);
  EXPECT_EQ(now.state, db::JobState::kRunning);
  office.farm.disk_full = false;
  EXPECT_TRUE(soon([&] { return office.farm.submitted > 0; }));
}

/// Nor is a farm that has ended for good, whatever it has ended with: its jobs go on with the next tracker.
TEST(JobKeeper, CountsNoFailureOfTheFarmAsACrash) {
  Office office(kGreedy, {.failed = true});
  ASSERT_TRUE(soon([&] { return office.farm.refused > 0; }));
  std::this_thread::sleep_for(2s);  // it says so to each life that asks
  EXPECT_EQ(office.now().crashes, 0);
  EXPECT_EQ(office.now().message, "");
  EXPECT_EQ(office.state(), db::JobState::kRunning);
  office.farm.failed = false;
  EXPECT_TRUE(soon([&] { return office.farm.submitted > 0; }));
}

/// Else it would have its place for ever, ahead of everybody, by one row that breaks a rule of a table.
TEST(JobKeeper, CountsWhatTheDatabaseRefusesAsACrash) {
  Office office(kGreedy, {.refuses = true});
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  EXPECT_EQ(office.farm.refused, 3u);
  EXPECT_EQ(office.now().message, "its searcher ended 3 times; the last: told of what the database refuses");
}

/// What it leaves in its folder costs it its own lives, and is not taken for a trouble of the disk that may
/// pass.
TEST(JobKeeper, IsNotHeldUpByWhatASearcherLeaves) {
  Office office(
      {PYTHON, OBSTRUCTING_SEARCHER},
      {.request = to_json({.model = "net.onnx", .model_digest = kDigest, .trials = 10}), .model_bytes = 1});
  EXPECT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  EXPECT_EQ(office.now().crashes, 3);
  EXPECT_TRUE(std::filesystem::is_regular_file(office.keeper->job_folder(office.job.uuid) + "/search.log"));
}

/// The kernel bounds each of its files, and not how many there are.
TEST(JobKeeper, EndsASearchThatFillsTheDisk) {
  constexpr const char* kFull = "its search has filled its folder with [234] MiB, and may have 2 there";
  const std::pair<const char*, const char*> ways[] = {
      {"files", kFull},
      {"log", kFull},
      {"nameless", kFull},
      {"many", "its search has made more than 10000 files"},
      {"mapped", "its search has files that cannot be counted"}};
  for (const auto& [way, message] : ways) {
    Office office({PYTHON, FILLING_SEARCHER, way}, {.search_bytes = 2 << 20});
    const std::string written = office.keeper->job_folder(office.job.uuid) + "/written";
    const auto has_failed = [&] { return office.state() == db::JobState::kFailed; };
    // However long it takes beside others: thousands of files are no matter of seconds then.
    while (!has_failed() && !std::filesystem::exists(written)) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(soon(has_failed)) << way;
    EXPECT_TRUE(std::regex_match(office.now().message, std::regex(message)))
        << way << ": " << office.now().message;
    EXPECT_EQ(office.now().crashes, 0) << "it would only do it again";
    const std::string its_folder = office.keeper->job_folder(office.job.uuid) + "/search";
    EXPECT_TRUE(soon([&] { return !std::filesystem::exists(its_folder); }));
  }
}

TEST(JobKeeper, LetsASearchHaveWhatItNeeds) {
  Office office({PYTHON, FILLING_SEARCHER, "files"},
                {.request = to_json({.model = "net.onnx", .model_digest = kDigest, .trials = 10}),
                 .search_bytes = 2 << 20,
                 // Four times its model besides.
                 .model_bytes = 1 << 20});
  const std::string full = office.keeper->job_folder(office.job.uuid) + "/search/full";
  ASSERT_TRUE(soon([&] { return std::filesystem::exists(full); }));
  std::this_thread::sleep_for(1500ms);  // three looks
  EXPECT_EQ(office.state(), db::JobState::kRunning);
}

/// A module stays for whoever fetches it, for ever.
TEST(JobKeeper, CountsAModuleForItsOwner) {
  Office office({PYTHON, FILLING_SEARCHER, "module"});
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kDone; }));
  EXPECT_GE(office.store.kept_by_owner("alice"), 4 << 20);
  EXPECT_TRUE(std::filesystem::exists(office.keeper->job_folder(office.job.uuid) + "/net.lathe"));
}

/// Whoever fetches it takes so much, and no more.
TEST(JobKeeper, SaysHowLongAModuleIs) {
  Office office({PYTHON, FILLING_SEARCHER, "module"});
  Api api({.database = office.folder / "tuning.db",
           .principals = std::make_shared<Principals>(""),
           .models = office.folder / "blobs"},
          *office.keeper, office.farm);
  const auto bytes = [&] {
    const http::Response answer = api.handle({.method = "GET", .path = "/v1/jobs/" + office.job.uuid});
    return nlohmann::json::parse(answer.body).at("module_bytes");
  };
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kDone; }));
  const std::string module = office.keeper->job_folder(office.job.uuid) + "/net.lathe";
  EXPECT_EQ(bytes(), std::filesystem::file_size(module));
  std::filesystem::remove(module);
  EXPECT_TRUE(bytes().is_null());
}

/// Each piece of a stream is held until its client has taken it.
TEST(JobKeeper, TellsEventsInSmallPieces) {
  Office office(shell("exec sleep 600"));
  Api api({.database = office.folder / "tuning.db",
           .principals = std::make_shared<Principals>(""),
           .models = office.folder / "blobs"},
          *office.keeper, office.farm);
  constexpr size_t kBytes = 400'000;
  for (int i = 0; i < 10; ++i)
    office.store.add_served_event(office.job.id, "tasks", '"' + std::string(kBytes, 't') + '"');
  const http::Response stream =
      api.handle({.method = "GET", .path = "/v1/jobs/" + office.job.uuid + "/events"});
  bool last = false;
  size_t told = 0;
  for (int64_t after = 0;;) {
    size_t bytes = 0;
    const std::vector<http::Event> piece = stream.events(after, last);
    if (piece.empty()) break;
    for (const http::Event& event : piece) {
      bytes += event.data.size();
      after = event.id;
      told += event.name == "tasks";
    }
    EXPECT_LT(bytes, (1 << 20) + kBytes + 100);
  }
  EXPECT_EQ(told, 10u);
}

/// What lists tell of a report is read once.
TEST(JobKeeper, ListsAJobByTheFiguresOfItsReport) {
  Office office({PYTHON, FILLING_SEARCHER, "module"});
  Api api({.database = office.folder / "tuning.db",
           .principals = std::make_shared<Principals>(""),
           .models = office.folder / "blobs"},
          *office.keeper, office.farm);
  const auto listed = [&] {
    const http::Response answer = api.handle({.method = "GET", .path = "/v1/jobs"});
    return nlohmann::json::parse(answer.body).at("jobs").at(0);
  };
  EXPECT_EQ(listed()["ended"], "");
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kDone; }));
  office.store.set_served_report(
      office.job.id,
      R"({"ended": "stopped", "before_ms": 2, "after_ms": 1, "tasks": [{"weight": 2, "after_us": 3}]})");
  const nlohmann::json job = listed();
  EXPECT_EQ(job["ended"], "stopped");
  EXPECT_EQ(job["raced"]["untuned_seconds"], 2e-3);
  EXPECT_EQ(job["confirmed_seconds"], 6e-6);
  office.store.set_served_report(office.job.id, "{}");
  EXPECT_EQ(listed(), job) << "a job that is over gets no other";
}

/// It stays beside the module, whatever becomes of the job.
TEST(JobKeeper, CountsALogForItsOwner) {
  Office office(shell("head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 2"));
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  EXPECT_GE(office.store.kept_by_owner("alice"), 3'000'000);
  EXPECT_LT(office.store.kept_by_owner("alice"), 3'100'000);
}

/// It may run programs, the linker for one. One that is left behind holds the link, and with it the job's
/// place.
TEST(JobKeeper, EndsWhatASearcherHasStarted) {
  Office office(
      shell("echo started >&2; sleep 600 & echo $! > $(dirname $(readlink /proc/$$/fd/2))/child; wait"));
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

/// Its owner is told what it says, and a tracker may be given the password of its database so.
TEST(JobKeeper, HasASearcherKnowNoSecretOfTheEnvironment) {
  ASSERT_EQ(setenv("PGPASSWORD", "a secret", 1), 0);
  Office office(shell("echo \"error: it is '$PGPASSWORD'\" >&2; exit 2"));
  EXPECT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  unsetenv("PGPASSWORD");
  EXPECT_EQ(office.now().message, "it is ''");
}

/// A full disk while the module is written would else cost the whole search.
TEST(JobKeeper, StopsAJobThatThisMachineHasNoRoomFor) {
  Office office(shell("echo 'error: cannot write net.lathe: No space left on device' >&2; exit 4"));
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kStopped; }));
    EXPECT_EQ(office.store.served_job(office.job.id).message,
              "cannot write net.lathe: No space left on device");
    EXPECT_TRUE(office.keeper->resume(office.job.id));
  }
}

/// Of a job that an administrator resumes, its owner's room is asked for, and not theirs.
TEST(JobKeeper, IsAskedToResumeWhatItsOwnerHasRoomFor) {
  Office office(shell("exec sleep 600"));
  const std::string file = office.folder / "principals";
  write_file(file, principal_line({"root", Role::kAdmin}, "root") + " kept-gib=0\n" +
                       principal_line({"alice", Role::kSubmitter}, "alice") + " kept-gib=1\n");
  const auto principals = std::make_shared<Principals>(file);
  Api api(
      {.database = office.folder / "tuning.db", .principals = principals, .models = office.folder / "blobs"},
      *office.keeper, office.farm);
  const auto resume = [&] {
    return api.handle({.method = "POST", .path = "/v1/jobs/" + office.job.uuid + "/resume", .token = "root"});
  };
  ASSERT_TRUE(soon([&] { return office.state() == db::JobState::kRunning; }));
  ASSERT_TRUE(office.keeper->pause(office.job.id));
  EXPECT_EQ(resume().status, 200);
  ASSERT_TRUE(office.keeper->pause(office.job.id));
  office.store.set_served_kept(office.job.id, int64_t{1} << 30);
  const http::Response refused = resume();
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("the jobs of alice keep 1.0 GiB"), std::string::npos) << refused.body;
}

/// What a search fails with, once somebody has removed the folder that it works in, is not its fault.
TEST(JobKeeper, BlamesNoJobForAFolderThatWasRemoved) {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store(folder / "tuning.db");
  const auto job = store.add_served_job({.owner = "alice", .model_name = "net", .request = kTenTrials}).id;
  std::atomic<bool> said = false;
  JobKeeper keeper(
      {.database = folder / "tuning.db",
       .folder = folder / "files",
       .searcher = {"/bin/sh", "-c", "sleep 2; echo 'error: cannot write net.lathe' >&2; exit 2"},
       .log = [&](const std::string& line) { said = said || line.ends_with("the next one"); }},
      farm);
  ASSERT_TRUE(soon([&] { return store.served_job(job).state == db::JobState::kRunning; }));
  EXPECT_NO_THROW(keeper.require_folder());
  ASSERT_TRUE(soon([&] {
    std::error_code ignored;  // a search that begins writes there
    std::filesystem::remove_all(folder / "files", ignored);
    return !std::filesystem::exists(folder / "files");
  }));
  EXPECT_THROW(keeper.require_folder(), db::DatabaseError);
  EXPECT_TRUE(soon([&] { return said || db::is_final(store.served_job(job).state); }));
  EXPECT_EQ(store.served_job(job).state, db::JobState::kRunning) << "the next tracker takes it up";
}

/// Its owner can upload it again; a search would only fail.
TEST(JobKeeper, StopsAJobWhoseModelWasRemoved) {
  Office office(shell("exit 2"),
                {.request = to_json({.model = "net.onnx", .model_digest = kDigest, .trials = 10})});
  ASSERT_TRUE(soon([&] { return office.state() != db::JobState::kQueued && !office.now().message.empty(); }));
  EXPECT_EQ(office.state(), db::JobState::kStopped);
  EXPECT_THAT(office.now().message, testing::StartsWith("the tracker has lost its model, net.onnx: submit"));
}

/// One whose time is over ends by itself, with what it has.
TEST(JobKeeper, LetsASearchEndThatIsAtItsEnd) {
  TemporaryFolder folder;
  SilentFarm farm;
  farm.has_another = true;
  db::Store store(folder / "tuning.db");
  const auto add = [&](const char* request) {
    return store.add_served_job({.owner = "alice", .model_name = "net", .request = request}).id;
  };
  const db::ServedJobId first = add(R"({"model": "net", "seconds": 1, "device": "m, 1 core"})");
  JobKeeper keeper({.database = folder / "tuning.db",
                    .folder = folder / "files",
                    .searches = 1,
                    .searcher = {"/bin/sh", "-c", "exec sleep 600"},
                    .gives_way = 2s},
                   farm);
  ASSERT_TRUE(soon([&] { return store.served_job(first).state == db::JobState::kRunning; }));
  farm.empty = true;
  add(R"({"model": "net", "trials": 10, "device": "n, 1 core"})");
  keeper.wake();
  std::this_thread::sleep_for(7s);
  EXPECT_EQ(store.served_job(first).state, db::JobState::kRunning);
}

TEST(JobKeeper, CancelsWhatAFailedSearchLeftToBeMeasured) {
  Office office(shell("echo 'error: the model is damaged' >&2; exit 2"), {.begun = true});
  EXPECT_TRUE(soon([&] { return office.state() == db::JobState::kFailed; }));
  EXPECT_EQ(office.store.served_job(office.job.id).message, "the model is damaged");
  EXPECT_TRUE(soon([&] { return office.farm.cancelled_job == static_cast<JobId>(office.search); }));
}

/// Others go on, and so do orders about its own job, while a searcher that has closed its link stays.
TEST(JobKeeper, WaitsForNoSearcherThatStays) {
  Office office(shell("exec 3<&-; exec sleep 600"));
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
