// Jobs on a farm that nobody works for.
#include <gtest/gtest.h>

#include <thread>

#include "core/support/error.h"
#include "core/support/temporary_folder.h"
#include "core/tir/text.h"
#include "db/store.h"
#include "tests/schedules/programs.h"
#include "tracker/tune_job.h"

namespace lathe::tracker {
namespace {

/// Takes candidates and never answers: it has no workers.
class SilentFarm final : public FarmClient {
 public:
  std::vector<Submission> submit(JobId, std::span<const Candidate> candidates) override {
    std::vector<Submission> answers(candidates.size());
    for (Submission& answer : answers) answer.trial = ++trials;
    return answers;
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override {
    ++polls;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return {};
  }
  size_t in_flight(JobId) override { return cancelled > obeys ? 0 : trials; }
  FarmStatus status() override { return {.unserved = unserved, .given_up = given_up}; }
  void cancel(JobId) override {
    ++cancelled;
    polls_at.push_back(polls);
  }

  TrialId trials = 0;
  int cancelled = 0, obeys = 0;  // what is cancelled so often, or less, stays
  size_t polls = 0;
  std::vector<size_t> polls_at;  // each cancellation
  std::vector<std::string> unserved;
  bool given_up = false;
};

TuneResult tune(
    SilentFarm& farm, double seconds, const std::function<bool()>& stop = [] { return false; },
    const std::function<void(const std::string&)>& say = {}) {
  TemporaryFolder folder;
  db::Store store(folder / "tuning.db");
  tir::Func workload = tir::canonical(schedule::dense(1, 64, 256, kFloat32));
  tuner::Task task{"dense", workload, tir::print(workload), tir::workload_digest(workload), 1, 1e6, 1e4};
  TuneRequest request{.model = "dense", .target = to_text(schedule::avx512_target()), .seconds = seconds};
  request.patience = 0.2;
  request.say = say;
  StoreJobWriter writer(store);
  return run_tune_job(
      request, std::span(&task, 1), {store, writer, farm}, [](const tuner::SessionStatus&) {}, stop);
}

TEST(TuneJobPatience, AJobWhoseTimeIsOverDoesNotWaitForWorkersThatAreGone) {
  SilentFarm farm;
  TuneResult result = tune(farm, 0.3);
  EXPECT_GT(farm.trials, 0u);
  EXPECT_GT(farm.cancelled, 0);
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.winners.at(0).seconds, 0);
}

/// What follows the search finds the farm as silent as that has left it.
TEST(TuneJobPatience, WaitsOnceForWorkersThatAreGone) {
  SilentFarm farm;
  farm.obeys = 1;
  tune(farm, 0.3);
  ASSERT_EQ(farm.cancelled, 2) << "by the search, and by the confirmations";
  EXPECT_LE(farm.polls_at[1] - farm.polls_at[0], 1u) << "its patience would take twenty";
}

/// One without a limit of time would wait for ever.
TEST(TuneJobPatience, EndsWhenTheFarmHasGivenUp) {
  SilentFarm farm;
  farm.given_up = true;
  farm.obeys = 1;
  const TuneResult result = tune(farm, 0, [&] { return farm.polls > 500; });
  EXPECT_FALSE(result.interrupted);
  EXPECT_EQ(result.status.ending, tuner::Ending::kGivenUp);
  EXPECT_EQ(farm.cancelled, 2) << "what waits is for nobody, of the search and of the confirmations";
}

TEST(TuneJobPatience, SaysWhatNoWorkerCanRunAndStopsWithoutWaiting) {
  SilentFarm farm;
  farm.unserved = {"cpu/aarch64"};
  std::string said;
  const auto start = std::chrono::steady_clock::now();
  TuneResult result = tune(
      farm, 0, [&] { return !said.empty(); }, [&](const std::string& line) { said += line; });
  EXPECT_EQ(said, "no worker is cpu/aarch64: start one with `tune worker --tracker ...` on such a machine");
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(farm.cancelled, 0) << "the job can be resumed";
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
}

}  // namespace
}  // namespace lathe::tracker
