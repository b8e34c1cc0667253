// Candidates run in the process that reports on them, and may report what they like: nothing of it outlives
// them. And what is no doing of theirs is not said of them.
#include "workers/run_stage.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/cores.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/workers/roles.h"
#include "workers/agent.h"
#include "workers/measure.h"
#include "workers/pipeline.h"

namespace lathe::worker {
namespace {

/// What is forged, by the seed of the inputs. The message is what it was told of this machine's canary.
std::string forge(std::string_view request, Child& child) {
  const RunJob job = decode_run_job(request);
  if (job.canary) return run_body(request, child);
  if (job.reference) return encode(Reply{});
  Reply reply{.message = fmt::format("{}", job.canary_seconds), .samples = {1e-3f, 1e-3f}};
  if (job.seed == 1) reply.canary_seconds = 1e-12;
  if (job.seed == 2) reply.samples.resize(50'000, 1e-3f);
  if (job.seed == 3) reply.disturbance = {.taken = UINT32_MAX, .disturbed = UINT32_MAX};
  return encode(reply);
}

/// Ends its supervisor as often as its trace says, counted in the file that its workload names.
std::string build_or_kill(std::string_view request, Child& child) {
  const BuildJob job = decode_build_job(request);
  if (job.workload.empty()) return forge(request, child);
  const std::string so_far = read_file(job.workload);
  if (so_far.size() < std::stoul(job.trace)) {
    write_file(job.workload, so_far + "x");
    kill(getppid(), SIGKILL);
  }
  return encode(Reply{});
}

constexpr Role kForging[] = {{"build", Confinement::kTrusted, nullptr, build_or_kill},
                             {"run", Confinement::kRun, nullptr, forge}};

Pipeline::Ended first_end(Pipeline& pipeline) {
  std::vector<Pipeline::Ended> all = pipeline.collect();
  while (all.empty()) {
    std::vector<pollfd> ready;
    for (int descriptor : pipeline.descriptors()) ready.push_back({descriptor, POLLIN, 0});
    poll(ready.data(), ready.size(), 30'000);
    all = pipeline.collect();
  }
  return std::move(all.at(0));
}

void run_anything(Pipeline& pipeline, uint64_t id, uint64_t seed, uint32_t threads = 1) {
  const Artifact artifact{.object = "code",
                          .digest = std::string(64, 'a'),
                          .main = {.symbol = "f", .params = {0}},
                          .buffers = {{.shape = {1}, .dtype = kFloat32, .output = true}}};
  const wire::Lease lease{.lease = id,
                          .evaluation = {.threads = threads, .max_samples = 25},
                          .seed = seed,
                          .part = wire::Part::kRun,
                          .reference = {.digest = std::string(64, 'b'), .size = 1}};
  pipeline.run(lease, encode(artifact), encode(artifact));
}

class Forgeries : public testing::Test {
 protected:
  Pipeline::Ended ended() { return first_end(pipeline_); }
  wire::Result measure(uint64_t seed) {
    run_anything(pipeline_, ++lease_, seed);
    return ended().report;
  }

  Pipeline pipeline_{{"/proc/self/exe", "forging-sandbox"}, 1};
  uint64_t lease_ = 0;
};

TEST_F(Forgeries, NoCandidateSaysHowQuietThisMachineIs) {
  const wire::Result first = measure(1);
  EXPECT_EQ(first.outcome, Outcome::kOk) << first.message;
  EXPECT_EQ(first.message, "0") << "no canary ran yet";
  EXPECT_EQ(measure(1).message, "0") << "what the first said of the machine is not believed";
  pipeline_.run_canaries();
  ASSERT_TRUE(ended().canary);
  for (int i = 0; i < 2; ++i) {
    const double known = std::stod(measure(1).message);
    EXPECT_GT(known, 1e-7);
    EXPECT_LT(known, 1e-3);
  }
}

TEST_F(Forgeries, NoCandidateHasMoreSamplesThanWereAskedFor) {
  const wire::Result result = measure(2);
  EXPECT_EQ(result.outcome, Outcome::kCrashed);
  EXPECT_EQ(result.message, "the child reported 50000 samples of 25");
}

TEST_F(Forgeries, NoCandidateWasDisturbedMoreOftenThanItRan) {
  const wire::Result result = measure(3);
  EXPECT_EQ(result.outcome, Outcome::kOk) << result.message;
  EXPECT_EQ(result.disturbance.taken, 50u);
  EXPECT_EQ(result.disturbance.disturbed, 50u);
}

// --- supervisors that die: the machine's failure, and no candidate's

/// A build whose first `deaths` supervisors are killed.
Pipeline::Ended build_with_deaths(int deaths) {
  const TemporaryFolder folder;
  write_file(folder / "deaths", "");
  Pipeline pipeline({"/proc/self/exe", "forging-sandbox"}, 1);
  pipeline.build({.lease = 1,
                  .workload = folder / "deaths",
                  .trace = fmt::format("{}", deaths),
                  .evaluation = {.threads = 1, .build_limit_seconds = 10},
                  .part = wire::Part::kBuild});
  return first_end(pipeline);
}

TEST(LostSupervisors, ABuildIsTriedAgain) {
  const Pipeline::Ended ended = build_with_deaths(Attempts::kSupervisors - 1);
  EXPECT_FALSE(ended.lost);
  EXPECT_EQ(ended.report.outcome, Outcome::kOk) << ended.report.message;
}

TEST(LostSupervisors, ABuildIsLostWithFive) {
  const Pipeline::Ended ended = build_with_deaths(Attempts::kSupervisors);
  EXPECT_TRUE(ended.lost);
  EXPECT_EQ(ended.report.message, "its supervisor was killed by signal 9 (Killed)");
}

TEST(LostSupervisors, CountApartFromChildren) {
  const Report lost{.end = Report::End::kLost}, killed{.end = Report::End::kSignalled, .code = SIGKILL};
  const Report crashed{.end = Report::End::kSignalled, .code = SIGSEGV};
  Attempts attempts;
  EXPECT_FALSE(attempts.again(crashed));
  EXPECT_TRUE(attempts.again(killed));
  for (int i = 1; i < Attempts::kSupervisors; ++i) EXPECT_TRUE(attempts.again(lost)) << i;
  EXPECT_FALSE(attempts.again(lost));
  EXPECT_FALSE(attempts.again(killed));
}

TEST(LostSupervisors, NothingIsSaidOfCandidatesWhereNoneLives) {
  // One program cannot be started, the other ends at once: before its task is sent, or after it.
  for (const char* program : {"/nonexistent/lathe", "/bin/false"}) {
    Pipeline pipeline({program}, 1);
    pipeline.build({.lease = 1, .evaluation = {.threads = 1, .build_limit_seconds = 10}});
    EXPECT_TRUE(first_end(pipeline).lost) << program;
    run_anything(pipeline, 2, 0);
    EXPECT_TRUE(first_end(pipeline).lost) << program;
  }
}

/// Takes all cores but one from this thread, as `taskset` does, and gives them back.
class OneCore {
 public:
  OneCore() {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &before_)) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~OneCore() { sched_setaffinity(0, sizeof before_, &before_); }

 private:
  cpu_set_t before_;
};

TEST(CoresTakenAway, SayNothingOfCandidatesNorOfModules) {
  if (runtime::allowed_cores().size() < 2) GTEST_SKIP() << "there is one core";
  Pipeline pipeline({"/proc/self/exe", "forging-sandbox"}, 1);
  const OneCore one;
  const wire::Lease lease{.lease = 1, .evaluation = {.threads = 2, .build_limit_seconds = 10}};
  pipeline.build(lease);
  const Pipeline::Ended built = first_end(pipeline);
  EXPECT_TRUE(built.lost);
  EXPECT_EQ(built.report.message, "threads is 2, must be 1..1 (the cores this process may use)");
  run_anything(pipeline, 2, 0, 2);
  EXPECT_TRUE(first_end(pipeline).lost);
  pipeline.race(lease, "incumbent", "challenger");
  EXPECT_TRUE(first_end(pipeline).lost);
}

/// More threads than this process ever had cores are no lease for it: the tracker is wrong, and the worker
/// goes on.
TEST(CoresTakenAway, AreNotMissedByWhoNeverHadThem) {
  Pipeline pipeline({"/proc/self/exe", "forging-sandbox"}, 1);
  pipeline.build({.lease = 1, .evaluation = {.threads = 1024, .build_limit_seconds = 10}});
  const Pipeline::Ended built = first_end(pipeline);
  EXPECT_FALSE(built.lost);
  EXPECT_EQ(built.report.outcome, Outcome::kBuildFailed);
}

TEST(LostSupervisors, TheirWorkerHandsAllBackAndLeaves) {
  Agent agent({.name = "w", .device = "{}", .backends = {"cpu"}, .canaries = false}, Time(0));
  agent.step(wire::Message(wire::Welcome{}), Time(0));
  for (uint64_t id : {1, 2}) agent.step(wire::Message(wire::Lease{.lease = id, .limit_ms = 60'000}), Time(0));
  const Actions lost = agent.step(Lost{1}, Time(0));
  EXPECT_EQ(lost.send, (std::vector<wire::Message>{wire::Drain{{1, 2}}}));
  EXPECT_TRUE(lost.build.empty());
  EXPECT_TRUE(agent.step(Tick{}, Time(1)).exit);
}

}  // namespace

std::span<const Role> forging_roles() { return kForging; }

}  // namespace lathe::worker
