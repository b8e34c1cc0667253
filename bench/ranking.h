// How well a cost model orders candidates of tasks that it was not learnt from.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "tuner/cost_model.h"

namespace lathe::bench {

struct Ranking {
  size_t candidates = 0;                               // that ran
  double spearman = 0, top1_in_1 = 0, top1_in_10 = 0;  // shares of the truly fastest hundredth found
  double speed_of_10 = 0;  // of the fastest among the first tenth, over the fastest of all
};

/// Learns from `seen` and orders the candidates of `unseen`, all of one task; nothing when none of those ran.
/// REQUIRES: `seen` is not empty.
std::optional<Ranking> rank_unseen(std::span<const tuner::Sample> seen,
                                   std::span<const tuner::Sample> unseen);

}  // namespace lathe::bench
