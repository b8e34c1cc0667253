// Which tilings of a vectorized reduction are worth trying: an analytic model of registers, caches and cores.
#pragma once

#include <optional>
#include <span>

#include "core/tir/target.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

/// Each tiled variable is cut in three: tasks (the parallel loop), the register tiles of one task, and the
/// register tile. Loops nest in the order of the variables: all task loops, then all loops over register
/// tiles.
struct Tiling {
  std::vector<int64_t> sizes;   // of the register tile; by position in tiled_variables()
  std::vector<int64_t> middle;  // register tiles of a task, a divisor of their number
  double cost = 0;              // estimated cycles on all cores
};

/// A loop outside the register tile, and whether its iterations use other weights.
struct WeightLoop {
  double extent = 1;
  bool moves = false;
};
/// Of these loops, outermost first, around all weights (so many bytes) the one during whose iterations the
/// weights of the next may come in (tir::kPrefetchNext), while else the first tiles of an iteration wait for
/// its own: it uses them several times, and those of two fit the half of the second-level cache that all else
/// leaves them. Null where there is none.
std::optional<size_t> loop_with_next(std::span<const WeightLoop> loops, double bytes, const Target& target);

/// The promising tilings, the best first. Never empty. The cost is that of the register tile (tile_model.h)
/// joined with the traffic that misses the second-level cache (which operands a loop level keeps there, and
/// how often the loops outside bring the others in again), spread over the cores as far as there are tasks.
std::vector<Tiling> tilings(const VectorReduction& reduction, const Target& target,
                            Edges edges = Edges::kAny);

}  // namespace lathe::schedule
