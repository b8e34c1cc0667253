// A farm with much to do.
#include <malloc.h>

#include <ctime>

#include "tests/tracker/farm_bench.h"

namespace lathe::tracker {
namespace {

/// A queue of a million trials, as several jobs of one owner fill it, without what stays in the journal.
class LongQueue : public testing::Test {
 protected:
  void submit(JobId job, const std::string& owner, size_t count, const std::string& target = "cpu",
              const std::vector<Testimony>& said = {}) {
    const auto spec = std::make_shared<const TrialSpec>(TrialSpec{
        .job = job, .workload = std::make_shared<std::string>("w"), .target = target, .owner = owner});
    Submit event;
    for (size_t i = 0; i < count; ++i) {
      ++last_;
      event.trials.push_back(
          {.trial = last_, .candidate = static_cast<CandidateId>(last_), .spec = spec, .said = said});
    }
    step(event);
  }
  void step(const Event& event) {
    Effects effects;
    farm_.step(event, Time(1), effects);
  }
  void join(const std::string& name, const std::string& backend, uint32_t slots) {
    step(Received{name,
                  wire::Hello{.worker = name, .device = "{}", .backends = {backend}, .builds = {"cpu"}}});
    step(Received{name, wire::Credit{slots}});
  }
  /// The worker says `frames` times what may have changed something, or does it until `limit` is over;
  /// seconds of this thread.
  double listen(const std::string& name, int frames, double limit) {
    const auto now = [] {
      timespec time{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
    };
    const double begin = now();
    for (int i = 0; i < frames && now() - begin < limit; ++i)
      step(Received{name, wire::Drain{}}), step(Received{name, wire::Credit{1}});
    return now() - begin;
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

/// All leases of workers that went away wait for others of their class.
TEST_F(LongQueue, OfAClassThatIsGoneHoldsNobodyUp) {
  for (int i = 0; i < 100; ++i) join(fmt::format("w{}", i), "cpu", 1);
  submit(1, "alice", 20'000, "cuda", {{.worker = "gone", .seconds = 1}});
  EXPECT_LT(listen("w0", 200, 2), 1) << "looked at one by one by each worker it is hundreds of seconds";
  join("another", "cuda", 1);
  EXPECT_EQ(farm_.status(Time(1)).leased, 1u);
}

/// All that is to be confirmed waits for another worker than the first, which is free.
TEST_F(LongQueue, OfConfirmationsHoldsNobodyUp) {
  join("first", "cpu", 1);
  join("second", "cpu", 1);
  submit(1, "alice", 50'000, "cpu", {{.worker = "first", .seconds = 1}});
  EXPECT_EQ(farm_.status(Time(1)).leased, 1u) << "the second has one, and is preferred for all";
  EXPECT_LT(listen("first", 200, 2), 1) << "looked at one by one it is tens of seconds";
  EXPECT_EQ(farm_.status(Time(1)).leased, 1u);
}

}  // namespace
}  // namespace lathe::tracker
