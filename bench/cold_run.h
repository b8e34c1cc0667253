// Timing one kernel as a model runs it: with its operands out of the second-level cache.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace lathe::bench {

/// Reads twice as much as L2 holds, as workers/measure.cpp does.
class Evictor {
 public:
  void operator()() {
    [[maybe_unused]] static volatile uint64_t sink;
    uint64_t sum = 0;
    for (size_t i = 0; i < words_.size(); i += 8) sum += words_[i];
    sink = sum;
  }

 private:
  static size_t l2_words() {
    return static_cast<size_t>(std::max<long>(sysconf(_SC_LEVEL2_CACHE_SIZE), 1 << 20)) / 8;
  }
  std::vector<uint64_t> words_ = std::vector<uint64_t>(2 * l2_words(), 1);
};

/// Seconds of one run, the second-level cache cleared before.
template <typename Side>
double timed_run(Side& side, Evictor& evict) {
  evict();
  const auto start = std::chrono::steady_clock::now();
  side.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace lathe::bench
