// The largest memory that a plan may ask for.
#pragma once

#include <cstdint>

namespace lathe::runtime {

/// Of one tensor, of all constants, of an arena: beyond what a process can map, and so far from what 64 bits
/// hold that sums of such sizes do not overflow.
inline constexpr int64_t kMostBytes = int64_t{1} << 46;

}  // namespace lathe::runtime
