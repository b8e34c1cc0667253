// Work that is always the same, timed: whether a device is as fast today as it was.
#pragma once

#include "tracker/wire/wire.h"

namespace lathe::worker {

/// Changes whenever the kernels do: their times compare with those of the same number alone.
inline constexpr uint32_t kCanaryKernels = 1;

/// Runs the canary kernels on this core for some 15 ms: a chain of integer multiplications, which follows the
/// clock and nothing else, and the reading of more memory than a second-level cache holds. Each time is that
/// of the fastest of many short pieces, so that what ran between them does not count. The number stays 0.
wire::Canary run_canaries();

}  // namespace lathe::worker
