// How fast a search's best candidate is after some of its trials.
#pragma once

#include <span>

namespace lathe::bench {

/// The speed of the best of the first `trials` candidates, whose times are `seconds` (infinite: failed), as a
/// share of that of `fastest` seconds. A search that ended early keeps the speed it had; one that has no
/// result yet has 0.
double speed_reached(std::span<const double> seconds, size_t trials, double fastest);

}  // namespace lathe::bench
