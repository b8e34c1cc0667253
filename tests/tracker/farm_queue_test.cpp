// A farm with much to do.
#include <malloc.h>

#include "tests/tracker/farm_bench.h"

namespace lathe::tracker {
namespace {

/// A queue of a million trials, as several jobs of one owner fill it, without what stays in the journal.
class LongQueue : public testing::Test {
 protected:
  void submit(JobId job, const std::string& owner, size_t count, const std::string& target = "cpu") {
    const auto spec = std::make_shared<const TrialSpec>(TrialSpec{
        .job = job, .workload = std::make_shared<std::string>("w"), .target = target, .owner = owner});
    Submit event;
    for (size_t i = 0; i < count; ++i) {
      ++last_;
      event.trials.push_back({.trial = last_, .candidate = static_cast<CandidateId>(last_), .spec = spec});
    }
    step(event);
  }
  void step(const Event& event) {
    Effects effects;
    farm_.step(event, Time(1), effects);
  }
  static size_t allocated() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

  TrialId last_ = 0;
  Farm farm_{JournalState{}, Time(0)};
};

TEST_F(LongQueue, TakesLittleMemoryAndLeavesRoomForOthers) {
  constexpr size_t kJobs = 10;
  const size_t before = allocated();
  for (JobId job = 1; job <= kJobs; ++job) {
    EXPECT_EQ(farm_.room(job, "alice"), defaults::kQueueOfJob);
    submit(job, "alice", defaults::kQueueOfJob);
    EXPECT_EQ(farm_.room(job, "alice"), 0u) << "a job has no more than its share";
  }
  const size_t trials = kJobs * defaults::kQueueOfJob;
  EXPECT_EQ(farm_.status(Time(1)).pending, trials);
  EXPECT_LE(allocated() - before, trials * 150);
  EXPECT_EQ(farm_.room(kJobs + 1, "alice"), 0u) << "nor does an owner";
  EXPECT_EQ(farm_.room(kJobs + 1, "bob"), defaults::kQueueOfJob);
}

/// Where no worker comes for it, nothing but its end takes it out of the queue.
TEST_F(LongQueue, ForgetsWhatWasCancelled) {
  submit(1, "alice", 10, "cuda");
  const size_t before = allocated();
  for (JobId job = 2; job < 22; ++job) {
    submit(job, "alice", 10'000, "cuda");
    step(CancelJob{job});
  }
  EXPECT_LE(allocated(), before + 100'000);
  EXPECT_EQ(farm_.status(Time(1)).pending, 10u);
}

}  // namespace
}  // namespace lathe::tracker
