#include "workers/stopwatch.h"

#include <sys/resource.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace lathe::worker {
namespace {
int64_t involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}
}  // namespace

double cycle_seconds() {
  // Additions in a chain: one a cycle on every processor, so seconds over additions is the length of a cycle.
  constexpr size_t kUnrolled = 64;  // a taken branch may cost a cycle, where a core has two threads
  constexpr int kRounds = 256;
  uint64_t sum = 0, step = 3;
  asm volatile("" : "+r"(step));
  const double seconds = seconds_of([&] {
    for (int round = 0; round < kRounds; ++round)
      add_in_a_chain(sum, step, std::make_index_sequence<kUnrolled>());
  });
  return seconds / (kUnrolled * kRounds);
}

double clock_hz() { return 1 / std::min({cycle_seconds(), cycle_seconds(), cycle_seconds()}); }

double timer_seconds() {
  using Clock = std::chrono::steady_clock;
  constexpr int kBatches = 9, kReadings = 1000;
  double least = std::numeric_limits<double>::infinity();
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = Clock::now();
    Clock::time_point last = start;
    // Many together, for the clock counts whole nanoseconds; the least, for whatever disturbs adds.
    for (int i = 0; i < kReadings; ++i) last = Clock::now();
    least = std::min(least, std::chrono::duration<double>(last - start).count() / kReadings);
  }
  return least;
}

std::optional<double> Stopwatch::cycles(Take take, FunctionRef<std::optional<double>()> work) {
  constexpr double kSameClock = 1.03;
  constexpr auto kLong = std::chrono::milliseconds(4);
  constexpr size_t kFewest = 5, kMost = 400;
  struct Sample {
    double seconds, cycle;  // the slower of the cycles before it and after it
  };
  std::vector<Sample> samples;
  double before = cycle_seconds(), best_cycle = before;
  int64_t switches = involuntary_switches();
  const auto end = std::chrono::steady_clock::now() + kLong;
  size_t tries = 0;
  // At least so many for a median, then for as long as a time slice; a probe of microseconds is not
  // taken thousands of times.
  for (; tries < kMost && (tries < 2 * kFewest || std::chrono::steady_clock::now() < end); ++tries) {
    const std::optional<double> seconds = work();
    const double after = cycle_seconds();
    const int64_t switches_after = involuntary_switches();
    if (seconds && switches == switches_after) samples.push_back({*seconds, std::max(before, after)});
    best_cycle = std::min(best_cycle, after);
    before = after;
    switches = switches_after;
  }
  std::vector<double> cycles;
  for (const Sample& sample : samples)
    // Samples at a lower clock are left out: what counts is cycles, which are seconds by the best clock.
    if (sample.cycle < kSameClock * best_cycle) cycles.push_back(sample.seconds / best_cycle);
  taken_ += tries;
  disturbed_ += tries - cycles.size();
  if (cycles.size() < kFewest) return {};
  auto at = cycles.begin() + static_cast<int64_t>(take == Take::kLeast ? 0 : cycles.size() / 2);
  std::nth_element(cycles.begin(), at, cycles.end());
  return *at;
}

}  // namespace lathe::worker
