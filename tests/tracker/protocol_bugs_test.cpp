// The simulation finds bugs: each of protocol_bugs.txt, seeded into copies of the sources this is built of
// (seed_bugs.py), at the latest after kSeeds voyages. And it finds none where none is at work.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "core/support/error.h"
#include "tests/tracker/farm_simulation.h"
#include "tests/tracker/seeded_bug.h"

namespace lathe::tracker::testing {
namespace {

constexpr const char* kBugs[] = {
#include "protocol_bugs.inc"
};
constexpr int kBugCount = static_cast<int>(std::size(kBugs));
constexpr uint32_t kSeeds = 200;
constexpr int kFoundNothing = 0, kFound = 1;
constexpr rlim_t kCpuSeconds = 60;  // no voyage takes a tenth: what runs longer goes round in circles

/// Sails until something breaks, and says what on standard error.
int sail() try {
  const auto holds = [](uint32_t seed, const Faults& faults) {
    const Voyage voyage = simulate(seed, faults);
    if (!voyage.violations.empty()) fmt::print(stderr, "seed {}: {}\n", seed, voyage.violations.front());
    return voyage.violations.empty();
  };
  if (!holds(1, kCalm)) return kFound;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed)
    if (!holds(seed, {})) return kFound;
  return kFoundNothing;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return kFound;
}

/// In a process of its own: a bug may end it, or never end.
bool finds(int bug) {
  const pid_t child = fork();
  CHECK(child >= 0, "fork");
  if (child == 0) {
    const rlimit limit{kCpuSeconds, kCpuSeconds};
    setrlimit(RLIMIT_CPU, &limit);
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    seeded_bug = bug;
    _exit(sail());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return !WIFEXITED(status) || WEXITSTATUS(status) != kFoundNothing;
}

static_assert(kBugCount >= 30);

TEST(Soundness, NothingIsFoundWhereNothingIs) { EXPECT_FALSE(finds(0)); }

class ProtocolBugs : public ::testing::TestWithParam<int> {};

TEST_P(ProtocolBugs, AreFound) {
  EXPECT_TRUE(finds(GetParam())) << kBugs[GetParam() - 1] << " is not found in " << kSeeds << " voyages";
}

INSTANTIATE_TEST_SUITE_P(Seeded, ProtocolBugs, ::testing::Range(1, kBugCount + 1), [](const auto& bug) {
  std::string name = kBugs[bug.param - 1];
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace lathe::tracker::testing
