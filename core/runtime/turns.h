// Which way kernels go through their parallel loops.
#pragma once

#include <vector>

#include "core/runtime/kernel.h"
#include "core/runtime/plan.h"

namespace lathe::runtime {

/// A kernel that comes again to constants larger than a cache finds their end in it, and its beginning puts
/// that out before it is read. So it goes the other way every other time: the steps of a recurrent network
/// read half as much from beyond the second-level cache (docs/decisions/082-every-other-step-backwards.md).
class Turns {
 public:
  enum class Runs : uint8_t { kOnce, kAgainAndAgain };

  /// `runs`: of the plan, on the same constants before other work has taken the cache. REQUIRES: `forwards`
  /// outlives this.
  Turns(const Plan& plan, const LatheParallel* forwards, Runs runs);
  /// What step `step` of the plan runs its loops with this time; valid until this is moved.
  const LatheParallel* next(size_t step) {
    if (turn_of_.empty() || turn_of_[step] == kNone) return forwards_;
    bool backwards = is_back_[turn_of_[step]];
    is_back_[turn_of_[step]] = !backwards;
    return backwards ? &backwards_ : forwards_;
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;

  const LatheParallel* forwards_;
  LatheParallel backwards_;
  std::vector<size_t> turn_of_;  // by step: those on the same constants take turns; empty: there are none
  std::vector<bool> is_back_;    // the next one
};

}  // namespace lathe::runtime
