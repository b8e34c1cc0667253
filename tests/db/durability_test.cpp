// A full disk, and kill -9 in the middle of writing.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <set>

#include "db/backup.h"
#include "tests/db/fixture.h"

namespace lathe::db {
namespace {

using ::testing::HasSubstr;

/// While it lives no file of this process can grow past `bytes`: SQLite sees what it sees on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

/// Fills the store up to where it can't grow, then goes on where it can.
void fill_then_free(const std::string& path, const std::function<std::shared_ptr<void>(Store&)>& limited) {
  size_t recorded = 0;
  {
    Farm farm(path);
    std::string message = "no error";
    {
      std::shared_ptr<void> limit = limited(farm.store);
      for (; recorded < 5000 && message == "no error"; ++recorded)
        message =
            thrown_by([&] { farm.measured(std::to_string(recorded) + std::string(500, 't'), {1e-3f}); });
    }
    --recorded;  // the last one failed
    EXPECT_EQ(
        message,
        fmt::format("database {} can't grow: the disk or a quota is full; free some space and run again "
                    "(what was recorded is safe)",
                    path));
    EXPECT_GT(recorded, 10u);
    EXPECT_EQ(farm.store.history(farm.workload, farm.target).size(), recorded);
    EXPECT_EQ(farm.measured("after", {1e-3f}), Recorded::kRecorded);  // the same connection goes on
  }
  Store store(path);
  EXPECT_TRUE(store.problems().empty());
  EXPECT_EQ(store.history(1, 1).size(), recorded + 1);
}

TEST(Durability, FullQuotaIsOneClearErrorAndLosesNothing) {
  TemporaryFolder folder;
  fill_then_free(folder / "lathe.db", [](Store&) { return std::make_shared<FileSizeLimit>(3'000'000); });
}

TEST(Durability, ACopyThatHasNoRoomIsNoFaultOfTheDatabase) {
  TemporaryFolder folder;
  {
    Farm farm(folder / "lathe.db");
    for (int i = 0; i < 200; ++i) farm.measured(std::to_string(i) + std::string(500, 't'), {1e-3f});
  }
  const FileSizeLimit limit(100'000);
  EXPECT_EQ(thrown_by([&] { back_up(folder / "lathe.db", folder / "copy.db"); }),
            "cannot write " + folder / "copy.db: No space left on device");
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.db"));
  EXPECT_FALSE(std::filesystem::exists(folder / "copy.db.partial"));
}

TEST(Durability, FullDiskIsOneClearErrorAndLosesNothing) {
  TemporaryFolder folder;
  fill_then_free(folder / "lathe.db", [](Store& store) {
    store.database().run("PRAGMA max_page_count = 100");  // the page it can't have gives what ENOSPC gives
    return std::shared_ptr<void>(
        nullptr, [&store](void*) { store.database().run("PRAGMA max_page_count = 1000000"); });
  });
}

TEST(Durability, SecondWriterIsToldWhoWaits) {
  TemporaryFolder folder;
  Farm farm(folder / "lathe.db");
  Store other(folder / "lathe.db", {.busy_timeout = std::chrono::milliseconds(20)});
  Transaction held = farm.store.begin();
  farm.store.add_event({}, "x", "{}");
  EXPECT_EQ(
      thrown_by([&] { other.add_event({}, "y", "{}"); }),
      fmt::format("database {} is being written by another process (waited 20 ms); try again when it is done",
                  folder / "lathe.db"));
  EXPECT_TRUE(other.events_after(0, 1).empty());  // readers never wait, and see what is committed
  held.commit();
  EXPECT_EQ(other.events_after(0, 1).size(), 1u);
}

/// Records trials until it is killed, writing each trial's number to `acknowledged` only after its commit.
[[noreturn]] void write_until_killed(const std::string& path, int acknowledged, int first) {
  Farm farm(path);
  farm.job = 1;
  for (int i = first;; i += 4) {
    std::vector<TrialResult> results;
    for (int k = i; k < i + 4; ++k)
      results.push_back(
          {.lease = farm.leased(std::to_string(k)).id, .device = farm.device, .samples = {1e-3f}});
    results.push_back(results.back());  // every group says one result twice
    farm.store.record(results);
    for (int k = i; k < i + 4; ++k)
      if (write(acknowledged, &k, sizeof k) != sizeof k) _exit(1);
  }
}

TEST(Durability, KillNineLosesNoAcknowledgedResultAndDoublesNone) {
  constexpr int kKills = 25;
  TemporaryFolder folder;
  std::string path = folder / "lathe.db";
  { Farm farm(path); }
  std::vector<int> acknowledged;
  std::mt19937 random(1);
  for (int kill_number = 0; kill_number < kKills; ++kill_number) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) write_until_killed(path, ends[1], kill_number * 100'000);
    close(ends[1]);
    int number;
    if (read(ends[0], &number, sizeof number) == sizeof number) acknowledged.push_back(number);
    usleep(random() % 20'000);
    kill(writer, SIGKILL);
    while (read(ends[0], &number, sizeof number) == sizeof number) acknowledged.push_back(number);
    close(ends[0]);
    int status;
    waitpid(writer, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
  Store store(path);
  EXPECT_TRUE(store.problems().empty());
  std::set<std::string> traces;
  std::vector<Measurement> history = store.history(1, 1);
  for (const Measurement& measurement : history) traces.insert(measurement.trace);
  EXPECT_EQ(traces.size(), history.size());  // none doubled
  EXPECT_GE(acknowledged.size(), static_cast<size_t>(kKills) * 4);
  for (int number : acknowledged) EXPECT_TRUE(traces.count(std::to_string(number))) << "lost " << number;
  // A group is whole or absent, and the task's count says the same as its trials.
  EXPECT_EQ(history.size() % 4, 0u);
  EXPECT_EQ(store.job_tasks(1).at(0).trials, static_cast<int64_t>(history.size()));
  EXPECT_EQ(store.job_progress(1).ended(), static_cast<int64_t>(history.size()));
}

}  // namespace
}  // namespace lathe::db
