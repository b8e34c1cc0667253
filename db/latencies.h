// What samples must be for anything to be ranked by them.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace lathe::db {

/// Whether these are times that something took, in seconds: at least one, all above 0 and finite.
inline bool are_latencies(std::span<const float> samples) {
  return !samples.empty() &&
         std::all_of(samples.begin(), samples.end(), [](float s) { return std::isfinite(s) && s > 0; });
}

}  // namespace lathe::db
