// How the loops outside the register tile are cut into tasks: an analytic model of the caches.
#pragma once

#include "core/tir/target.h"
#include "schedules/anatomy.h"

namespace lathe::schedule {

/// A variable that the register tile extends along.
struct TiledVariable {
  size_t variable = 0;
  int64_t size = 1;   // in the register tile; the vector variable counts in vectors
  int64_t tiles = 1;  // register tiles along it
};

struct Blocking {
  std::vector<int64_t>
      middle;  // by tiled variable: register tiles that one task computes, a divisor of `tiles`
  bool producers_inside = false;  // what feeds the reduction is needed by one task (or few) only
};

/// Keeps in the second-level cache what a task uses again and again: all weights, going through the data
/// once, when they fit; else a part of the weights, going through the data for each part. Tasks are small
/// enough to keep all cores busy.
Blocking choose_blocking(const VectorReduction& reduction, const std::vector<TiledVariable>& tiled,
                         const Target& target);

}  // namespace lathe::schedule
