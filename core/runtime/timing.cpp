#include "core/runtime/timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include "core/support/clock.h"

namespace lathe::runtime {
namespace {

using Clock = std::chrono::steady_clock;

/// The median of n samples lies between those of ranks n/2 -+ 1.96 sqrt(n)/2, with 95% probability.
Timing summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  auto n = static_cast<double>(samples.size());
  double reach = 0.98 * std::sqrt(n);
  auto rank = [&](double place) { return static_cast<size_t>(std::clamp(place, 0.0, n - 1)); };
  // Without interpolation but for an even count: ends of the interval are samples.
  return {.median = (samples[rank((n - 1) / 2)] + samples[rank(n / 2)]) / 2,
          .low = samples[rank(std::floor(n / 2 - reach))],
          .high = samples[rank(std::ceil(n / 2 + reach))],
          .least = samples[0],
          .runs = static_cast<int64_t>(samples.size())};
}

}  // namespace

Timing time_runs(FunctionRef<void()> run, const TimingPlan& plan) {
  auto start = Clock::now();
  // Once at least, however little time is given.
  do run();
  while (seconds_since(start) < plan.warm_up_seconds);

  std::vector<double> samples;
  start = Clock::now();
  // Early enough to stop soon, seldom enough to cost nothing beside the runs.
  for (size_t next_look = static_cast<size_t>(plan.least_runs);;) {
    auto before = Clock::now();
    run();
    samples.push_back(seconds_since(before));
    if (samples.size() < static_cast<size_t>(plan.least_runs)) continue;
    bool spent = seconds_since(start) >= plan.most_seconds;
    if (samples.size() < next_look && !spent) continue;
    Timing timing = summarize(samples);
    if (spent || timing.high - timing.low <= plan.wanted_width * timing.median) return timing;
    // Sorting after each run would cost more than short runs do: the samples grow by an eighth between two
    // looks.
    next_look = samples.size() + samples.size() / 8 + 1;
  }
}

}  // namespace lathe::runtime
