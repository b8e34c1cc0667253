// The farm under faults, seed by seed (farm_simulation.h). What breaks the contract is said in words
// (history.h). LATHE_SIMULATION_SEED=n runs that seed alone; LATHE_SIMULATION_SEEDS=n runs as many.
#include "tests/tracker/farm_simulation.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "workers/confine.h"

namespace lathe::tracker::testing {
namespace {

using namespace std::chrono_literals;

TEST(FarmSimulation, CalmSeas) {
  const Voyage voyage = simulate(1, kCalm);
  EXPECT_TRUE(voyage.violations.empty()) << fmt::format("{}", fmt::join(voyage.violations, "\n"));
  EXPECT_EQ(voyage.told, kTrials);
  EXPECT_GE(voyage.builds, kTrials);
  EXPECT_LE(voyage.builds, kTrials + 3) << "beyond failures after others, which get a second opinion";
  EXPECT_EQ(voyage.raced, 2);
}

// A worker whose device has become slower gets nothing, and the job ends all the same.
TEST(FarmSimulation, ASlowWorkerIsLeftOut) {
  for (uint32_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const Voyage voyage =
        simulate(seed, {.cancels = false, .slow_worker = 0, .slow_from = 200s, .submit_at = 230s});
    ASSERT_TRUE(voyage.violations.empty()) << fmt::format("{}", fmt::join(voyage.violations, "\n"));
    ASSERT_EQ(voyage.distrusted, std::set<std::string>{"w0"});
    ASSERT_FALSE(voyage.leased.contains("w0"));
    ASSERT_TRUE(voyage.leased.contains("w1"));
  }
}

TEST(FarmSimulation, EveryTrialOnceUnderFaults) {
  const char* one = getenv("LATHE_SIMULATION_SEED");
  const char* many = getenv("LATHE_SIMULATION_SEEDS");
  const uint32_t first = one ? atoi(one) : 1, last = one                 ? first
                                                     : many              ? atoi(many)
                                                     : worker::kConfines ? 10000
                                                                         : 200;
  std::atomic<uint32_t> next = first;
  std::mutex mutex;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] {
      for (uint32_t seed = next++; seed <= last; seed = next++) {
        const Voyage voyage = simulate(seed, {});
        if (voyage.violations.empty()) continue;
        next = last + 1;
        std::lock_guard lock(mutex);
        ADD_FAILURE() << "LATHE_SIMULATION_SEED=" << seed << "\n"
                      << fmt::format("{}", fmt::join(voyage.violations, "\n"));
      }
    });
}

}  // namespace
}  // namespace lathe::tracker::testing
