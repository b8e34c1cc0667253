// What a record may have at most, in bytes where nothing else is said. A worker's message, a database that is
// exported and a pack that is imported all go by these: what one of them took and another refused could not
// travel.
#pragma once

#include <cstddef>

namespace lathe::limits {

inline constexpr size_t kText = 8 << 20;     // of a workload or a trace
inline constexpr size_t kTarget = 16 << 10;  // of a target, and of a device's features: LLVM's lists are long
inline constexpr size_t kName = 1024;        // of a model, a task, a host, a compiler, a driver
inline constexpr size_t kDetails = 64 << 10;  // a device's JSON, of this depth
inline constexpr int kDetailsDepth = 8;
inline constexpr double kColdest = -273.15, kHottest = 10'000;  // degrees Celsius
inline constexpr size_t kSamples = 100'000;                     // numbers, of a measurement or a confirmation

/// Of a line of JSON with a whole record: a text may have twice its bytes there (line ends, quotes), and
/// confirmations stand beside it.
inline constexpr size_t kLine = 4 * kText;

}  // namespace lathe::limits
