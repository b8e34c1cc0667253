// The canary kernels as a worker runs them: in a child of its sandbox, and through its pipeline.
#include "workers/canary.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <cmath>

#include "tests/workers/roles.h"
#include "workers/jobs.h"
#include "workers/pipeline.h"

namespace lathe::worker {
namespace {

/// The largest deviation from the median, as a share of it.
double spread(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const double middle = times[times.size() / 2];
  return std::max(times.back() / middle - 1, 1 - times.front() / middle);
}

TEST(Canary, TakesMillisecondsInASandbox) {
  Sandbox sandbox(sandbox_command("run"));
  std::vector<double> compute, memory;
  for (int i = 0; i < 20; ++i) {
    const Report report = sandbox.run({.request = encode(RunJob{.canary = true}),
                                       .limits = {.wall_seconds = 10, .memory_bytes = uint64_t{1} << 30}});
    ASSERT_EQ(report.end, Report::End::kReplied) << describe(report) << report.stderr_tail;
    const wire::Canary canary = decode_reply(report.reply).canary;
    EXPECT_EQ(canary.kernels, kCanaryKernels);
    compute.push_back(canary.compute_seconds);
    memory.push_back(canary.memory_seconds);
  }
  // A step of the chain is a multiplication and an addition that wait for each other: 2 to 10 cycles.
  EXPECT_GT(compute[0], 40'000 * 2 / 7e9);
  EXPECT_LT(compute[0], 40'000 * 10 / 0.5e9);
  // 512 KiB, between 0.1 GB/s and 2 TB/s.
  EXPECT_GT(memory[0], 0.25e-6);
  EXPECT_LT(memory[0], 5e-3);
  fmt::print("20 canaries: compute {:.1f} us within {:.1f}%, memory {:.1f} us within {:.1f}%\n",
             1e6 * compute[0], 100 * spread(compute), 1e6 * memory[0], 100 * spread(memory));
}

TEST(Canary, APipelineRunsItAndThenWorks) {
  const std::vector<std::string> command = sandbox_command("run");
  Pipeline pipeline({command.begin(), command.end() - 1}, 1);  // it adds the roles
  for (int round = 0; round < 2; ++round) {
    pipeline.run_canaries();
    std::vector<Pipeline::Ended> ended;
    while (ended.empty()) {
      std::vector<pollfd> ready;
      for (int descriptor : pipeline.descriptors()) ready.push_back({descriptor, POLLIN, 0});
      ASSERT_GT(poll(ready.data(), ready.size(), 30'000), 0);
      ended = pipeline.collect();
    }
    ASSERT_EQ(ended.size(), 1u);
    ASSERT_TRUE(ended[0].canary);
    EXPECT_GT(ended[0].canary->compute_seconds, 0);
  }
}

TEST(Canary, ADamagedReplyGoesNoFurther) {
  EXPECT_THROW(decode_reply(encode(Reply{.canary = {.compute_seconds = NAN}})), std::exception);
  EXPECT_THROW(decode_reply(encode(Reply{.canary = {.memory_seconds = -1}})), std::exception);
}

}  // namespace
}  // namespace lathe::worker
