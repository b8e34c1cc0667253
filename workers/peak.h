// The machine's limits, by loops that do nothing else.
#pragma once

#include <cstdint>
#include <span>

namespace lathe::worker {

/// Single-precision operations a second of `threads` threads together, a fused multiply-add counting two,
/// with the widest vectors this processor has.
double measure_peak_flops(int threads);

/// Bytes a second that `threads` threads together read from memory.
double measure_memory_bandwidth(int threads);

/// The sum of the words, read with the widest vectors this processor has: as fast as one thread can.
uint64_t sum_words(std::span<const uint64_t> words);

/// What no kernel can be faster than, in operations and bytes a second.
struct MachineLimits {
  double flops = 0, bandwidth = 0;
};
/// Both of the above; takes some 0.1 s.
MachineLimits measure_limits(int threads);

}  // namespace lathe::worker
