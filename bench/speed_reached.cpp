#include "bench/speed_reached.h"

#include <algorithm>
#include <cmath>

namespace lathe::bench {

double speed_reached(std::span<const double> seconds, size_t trials, double fastest) {
  double best = INFINITY;
  for (double each : seconds.first(std::min(trials, seconds.size()))) best = std::min(best, each);
  return std::isinf(best) ? 0 : fastest / best;
}

}  // namespace lathe::bench
