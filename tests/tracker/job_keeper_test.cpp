// How the tracker ends a searcher that has become hostile.
#include "tracker/job_keeper.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "core/support/temporary_folder.h"
#include "core/tir/target.h"

namespace lathe::tracker {
namespace {

/// A worker that no candidate comes back from.
class SilentFarm final : public FarmClient {
 public:
  std::vector<Submission> submit(JobId, std::span<const Candidate> candidates) override {
    submitted += candidates.size();
    return std::vector<Submission>(candidates.size());
  }
  std::vector<Finished> poll(JobId, std::chrono::milliseconds) override { return {}; }
  size_t in_flight(JobId) override { return submitted; }
  FarmStatus status() override {
    const std::string target =
        to_text(parse_target_text("cpu:triple=x86_64-pc-linux-gnu,mcpu=haswell,vector=256"));
    FarmStatus status{.slots = 1};
    status.workers.push_back(
        {.name = "w",
         .device =
             fmt::format(R"({{"model": "m", "cores": 1, "architecture": "x86_64", "target": "{}"}})", target),
         .backends = {"cpu"},
         .slots = 1});
    return status;
  }
  void cancel(JobId) override { ++cancelled; }

  std::atomic<size_t> submitted{0}, cancelled{0};
};

TEST(JobKeeper, EndsAJobThatWantsTooMuch) {
  TemporaryFolder folder;
  SilentFarm farm;
  db::Store store(folder / "tuning.db");
  const db::ServedJob job = store.add_served_job(
      {.owner = "alice", .model_name = "net", .request = R"({"model": "net", "trials": 10})"});
  JobKeeper keeper(
      {.database = folder / "tuning.db", .folder = folder / "files", .searcher = {PYTHON, GREEDY_SEARCHER}},
      farm);
  using namespace std::chrono_literals;
  for (int i = 0; i < 600 && (!db::is_final(store.served_job(job.id).state) || farm.cancelled == 0); ++i)
    std::this_thread::sleep_for(50ms);
  const db::ServedJob ended = store.served_job(job.id);
  EXPECT_EQ(ended.state, db::JobState::kFailed);
  EXPECT_EQ(ended.message,
            "its search asks for more than 74 trials, which a job of 10 may have with confirmations");
  EXPECT_EQ(ended.crashes, 0) << "it would only do it again";
  EXPECT_EQ(farm.submitted, 74u);
  EXPECT_EQ(farm.cancelled, 1u) << "nobody waits for its trials";
}

}  // namespace
}  // namespace lathe::tracker
