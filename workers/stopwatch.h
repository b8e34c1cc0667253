// Time in cycles of a core, on a machine that may be busy.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "core/support/node.h"

namespace lathe::worker {

/// Additions that wait for each other: one a cycle on any processor.
template <size_t... kTimes>
void add_in_a_chain(uint64_t& sum, uint64_t step, std::index_sequence<kTimes...>) {
  const auto add = [&](size_t) {
    sum += step;
    asm volatile("" : "+r"(sum));
  };
  (add(kTimes), ...);
}

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// How long a cycle takes now.
double cycle_seconds();

/// Cycles a second now, by the fastest of a few looks: a timer's interrupt is no lower clock.
double clock_hz();

/// Seconds that lie between two readings of the clock, one right after the other: by so much is too long what
/// is timed between them.
double timer_seconds();

/// Times samples in cycles, and leaves those out during which the clock was not at its best or another
/// process ran here.
class Stopwatch {
 public:
  enum class Take { kLeast, kMedian };

  /// Samples of `work`, which returns the seconds that count (none: it could not do what is to be timed), for
  /// a few milliseconds; nothing when hardly any was undisturbed. The least where a disturbance can only add;
  /// else the median.
  std::optional<double> cycles(Take take, FunctionRef<std::optional<double>()> work);

  double disturbed() const {
    return taken_ == 0 ? 0 : static_cast<double>(disturbed_) / static_cast<double>(taken_);
  }

 private:
  size_t taken_ = 0, disturbed_ = 0;
};

}  // namespace lathe::worker
