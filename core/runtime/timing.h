// How long something takes, with the uncertainty known.
#pragma once

#include <cstdint>

#include "core/support/node.h"

namespace lathe::runtime {

struct TimingPlan {
  double warm_up_seconds = 0.2;  // runs that do not count; at least one
  double most_seconds = 5;       // of counted runs
  int64_t least_runs = 10;
  double wanted_width = 0.01;  // stop when the interval is narrower than this share of the median
};

/// Seconds of one run. `low`..`high` is the 95% confidence interval of the median, from order statistics: it
/// assumes independent runs and nothing about their distribution.
struct Timing {
  double median = 0, low = 0, high = 0, least = 0;
  int64_t runs = 0;
};

/// Times `run` until the interval is narrow enough or the time is spent.
Timing time_runs(FunctionRef<void()> run, const TimingPlan& plan = {});

}  // namespace lathe::runtime
