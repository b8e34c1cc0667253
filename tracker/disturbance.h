// How disturbed the measurements of a whole job were.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// Sums of what workers reported; all 0 where none of them watched.
struct JobDisturbance {
  int64_t taken = 0, disturbed = 0;  // samples
  double canary = 0;                 // the slowest, times the best of its worker

  void add(const wire::Disturbance& one) {
    taken += one.taken;
    disturbed += one.disturbed;
    canary = std::max(canary, one.canary);
  }
  void add(const JobDisturbance& other) {
    taken += other.taken;
    disturbed += other.disturbed;
    canary = std::max(canary, other.canary);
  }
  double share() const { return taken > 0 ? static_cast<double>(disturbed) / static_cast<double>(taken) : 0; }
};

}  // namespace lathe::tracker
