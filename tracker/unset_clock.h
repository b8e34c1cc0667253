// The time of day for whoever compares it with what was written down before.
#pragma once

#include <cstdint>
#include <functional>

namespace lathe::tracker {

/// Milliseconds since 1970 by the wall clock of now, and from then on by what has passed since: whoever sets
/// the clock meanwhile changes neither the order nor the distance of what it gives. `wall` and `passed` are
/// the system's unless a test brings its own.
std::function<int64_t()> unset_clock(const std::function<int64_t()>& wall = {},
                                     std::function<int64_t()> passed = {});

}  // namespace lathe::tracker
