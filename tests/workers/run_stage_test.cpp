// Candidates run in the process that reports on them, and may report what they like: nothing of it outlives
// them.
#include "workers/run_stage.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/workers/roles.h"
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

constexpr Role kForging[] = {{"build", Confinement::kTrusted, nullptr, forge},
                             {"run", Confinement::kRun, nullptr, forge}};

class Forgeries : public testing::Test {
 protected:
  Pipeline::Ended ended() {
    std::vector<Pipeline::Ended> all = pipeline_.collect();
    while (all.empty()) {
      std::vector<pollfd> ready;
      for (int descriptor : pipeline_.descriptors()) ready.push_back({descriptor, POLLIN, 0});
      poll(ready.data(), ready.size(), 30'000);
      all = pipeline_.collect();
    }
    return std::move(all.at(0));
  }
  wire::Result measure(uint64_t seed) {
    const Artifact artifact{.object = "code",
                            .digest = std::string(64, 'a'),
                            .main = {.symbol = "f", .params = {0}},
                            .buffers = {{.shape = {1}, .dtype = kFloat32, .output = true}}};
    wire::Lease lease{.lease = ++lease_,
                      .evaluation = {.max_samples = 25},
                      .seed = seed,
                      .part = wire::Part::kRun,
                      .reference = {.digest = std::string(64, 'b'), .size = 1}};
    pipeline_.run(lease, encode(artifact), encode(artifact));
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

}  // namespace

std::span<const Role> forging_roles() { return kForging; }

}  // namespace lathe::worker
