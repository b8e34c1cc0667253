// Tracker, workers and their children as real processes, killed at bad moments. The builder is a fake that
// "builds" the kernels of tests/workers/kernels.cpp; everything else is what `tune` runs.
#include "tests/tracker/service.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/spawn.h"
#include "db/store.h"
#include "tracker/store_journal.h"
#include "tracker/tracker.h"

namespace lathe::tracker {

namespace {

using namespace std::chrono_literals;

constexpr int kGood = 80;
const char* const kBad[] = {
    "wrong_at_one_place",    "loops", "aborts", "far_store", "refuses", "no_build", "compiler_crash",
    "rewrites_the_reference"};

std::vector<Candidate> candidates(int64_t workload) {
  std::vector<Candidate> result;
  const auto add = [&](const std::string& trace) {
    result.push_back({.workload = workload,
                      .trace = trace,
                      .evaluation = {.max_samples = 5, .budget_seconds = 0.01, .run_limit_seconds = 0.5}});
  };
  for (int i = 0; i < kGood; ++i) {
    add(fmt::format("good {}", i));
    if (i % 10 == 5) add(fmt::format("{} {}", kBad[i / 10 % std::size(kBad)], i));
  }
  return result;
}

}  // namespace

namespace testing {

void run_job(FarmClient& farm, const std::string& database) {
  db::Store store(database);
  const auto target = store.add_target({.name = "cpu", .architecture = "x86_64"});
  const auto workload = store.add_workload({.digest = sha256("w"), .text = "w"});
  const auto job =
      store.create_job({.target = target, .idempotency_key = "the job", .tasks = {{.workload = workload}}});
  const auto all = candidates(workload);
  farm.submit(static_cast<JobId>(job), all);  // those submitted before are duplicates
  while (farm.in_flight(static_cast<JobId>(job)) > 0) farm.poll(static_cast<JobId>(job), 100ms);
}

}  // namespace testing

namespace {

/// A process of this binary, killed at the latest when the test ends.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/proc/self/exe");
    pid_ = spawn({.command = std::move(arguments)});
  }
  ~Process() { end(SIGKILL); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const { kill(pid_, number); }
  /// Its exit status, or minus the signal; after `number`, if any, was sent.
  int end(int number = 0) {
    if (pid_ < 0) return status_;
    if (number != 0) kill(pid_, number);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  bool running() {
    int status = 0;
    if (pid_ < 0 || waitpid(pid_, &status, WNOHANG) == 0) return pid_ >= 0;
    pid_ = -1;
    status_ = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return false;
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> result;
  try {
    std::istringstream text(read_file(fmt::format("/proc/{0}/task/{0}/children", parent)));
    for (pid_t child; text >> child;) result.push_back(child);
  } catch (const Error&) {  // gone
  }
  return result;
}

class ServiceTest : public ::testing::Test {
 protected:
  ServiceTest() {
    folder_ = fmt::format("/tmp/lathe-service-test-{}", getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    endpoint_ = "ipc://" + folder_ + "/tracker";
    database_ = folder_ + "/lathe.db";
  }
  ~ServiceTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Process> worker(const std::string& name, const std::string& role = "") {
    return std::make_unique<Process>(std::vector<std::string>{"worker", endpoint_, name, role});
  }
  std::unique_ptr<Process> job() {
    return std::make_unique<Process>(std::vector<std::string>{"job", endpoint_, database_});
  }
  void wait_for(Process& process) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (process.running()) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "the job does not end";
      std::this_thread::sleep_for(20ms);
    }
    ASSERT_EQ(process.end(), 0);
  }
  /// How many trials have ended so far.
  int64_t ended() {
    try {
      db::Store store(database_, {.read_only = true});
      const auto jobs = store.jobs();
      return jobs.empty() ? 0 : store.job_progress(jobs[0].id).ended();
    } catch (const Error&) {  // not there yet
      return 0;
    }
  }
  void wait_until_ended(int64_t count) {
    const auto limit = std::chrono::steady_clock::now() + 30s;
    while (ended() < count && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(5ms);
    ASSERT_GE(ended(), count);
  }

  /// Every trial has ended once, as its candidate deserves, and every good one has its measurement.
  void expect_complete(int lost_at_most = 0) {
    db::Store store(database_);
    EXPECT_THAT(store.problems(), ::testing::IsEmpty());
    const auto job = store.jobs().at(0);
    const db::JobProgress progress = store.job_progress(job.id);
    const auto all = candidates(1);
    EXPECT_EQ(progress.ended(), static_cast<int64_t>(all.size()));
    std::map<Outcome, int> expected;
    for (const Candidate& candidate : all) expected[outcome_of(candidate.trace)]++;
    const auto lost = progress.outcomes[static_cast<size_t>(Outcome::kWorkerLost)];
    EXPECT_LE(lost, lost_at_most);
    for (const auto& [outcome, count] : expected) {
      const auto got = progress.outcomes[static_cast<size_t>(outcome)];
      EXPECT_LE(got, count) << to_string(outcome);
      EXPECT_GE(got, count - lost) << to_string(outcome);
    }
    const auto target = store.find_target("cpu");
    const auto history = store.history(*store.find_workload(sha256("w")), *target);
    EXPECT_EQ(history.size(), static_cast<size_t>(progress.outcomes[0]));
    for (const db::Measurement& measurement : history)
      EXPECT_EQ(outcome_of(measurement.trace), Outcome::kOk) << measurement.trace;
  }

  static Outcome outcome_of(const std::string& trace) {
    const std::string kernel = trace.substr(0, trace.find(' '));
    if (kernel == "good" || kernel == "rewrites_the_reference") return Outcome::kOk;
    if (kernel == "wrong_at_one_place") return Outcome::kWrongResult;
    if (kernel == "loops") return Outcome::kTimeout;
    if (kernel == "no_build" || kernel == "compiler_crash") return Outcome::kBuildFailed;
    return Outcome::kCrashed;
  }

  std::string folder_, endpoint_, database_;
};

TEST_F(ServiceTest, RunsAJob) {
  auto w = worker("w");
  auto j = job();
  wait_for(*j);
  expect_complete();
  EXPECT_EQ(w->end(SIGTERM), 0);  // drains
}

TEST_F(ServiceTest, RunnersRunWhatBuildersBuild) {
  auto j = job();
  auto builder = worker("b", "build"), runner = worker("r", "run");
  for (int round = 0; round < 3; ++round) {
    wait_until_ended(5 + 15 * round);
    auto& unlucky = round % 2 == 0 ? builder : runner;
    unlucky->end(SIGKILL);
    unlucky = worker(round % 2 == 0 ? "b" : "r", round % 2 == 0 ? "build" : "run");
  }
  wait_for(*j);
  expect_complete(/*lost_at_most=*/2);
  EXPECT_EQ(runner->end(SIGTERM), 0);
}

TEST_F(ServiceTest, SurvivesKilledWorkers) {
  std::mt19937 random(1);
  auto j = job();
  auto w = worker("w");
  for (int round = 0; round < 4; ++round) {
    wait_until_ended(5 + 12 * round);
    w->end(SIGKILL);
    w = worker("w");
  }
  wait_for(*j);
  expect_complete(/*lost_at_most=*/2);
}

TEST_F(ServiceTest, SurvivesKilledChildren) {
  auto w = worker("w");
  auto j = job();
  std::mt19937 random(1);
  for (int kills = 0; kills < 12 && j->running();) {
    std::this_thread::sleep_for(40ms);
    // A measuring or building child; now and then its supervisor.
    const auto supervisors = children_of(w->pid());
    if (supervisors.empty()) continue;
    const pid_t supervisor = supervisors[random() % supervisors.size()];
    const auto children = children_of(supervisor);
    if (children.empty()) continue;
    kill(kills % 3 == 2 ? supervisor : children[0], SIGKILL);
    kills++;
  }
  wait_for(*j);
  db::Store store(database_);
  EXPECT_THAT(store.problems(), ::testing::IsEmpty());
  EXPECT_EQ(store.job_progress(store.jobs().at(0).id).ended(), static_cast<int64_t>(candidates(1).size()));
}

TEST_F(ServiceTest, SurvivesKilledTrackers) {
  auto w = worker("w");
  int64_t before = 0;
  for (int round = 0; round < 4; ++round) {
    auto j = job();
    wait_until_ended(8 + 16 * round);
    j->end(SIGKILL);
    const int64_t now = ended();
    EXPECT_GE(now, before);  // nothing recorded is lost
    before = now;
  }
  auto j = job();
  wait_for(*j);
  expect_complete();
}

TEST_F(ServiceTest, DrainsInOrder) {
  auto j = job();
  auto w = worker("w");
  wait_until_ended(10);
  w->signal(SIGTERM);
  EXPECT_EQ(w->end(), 0);
  auto next = worker("x");
  wait_for(*j);
  expect_complete();
  db::Store store(database_);
  store.visit_open_trials(
      [](const db::OpenTrial& trial) { ADD_FAILURE() << "trial " << trial.id << " is open"; });
}

}  // namespace
}  // namespace lathe::tracker
