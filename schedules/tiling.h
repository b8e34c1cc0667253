// Which tilings of a vectorized reduction are worth trying: an analytic model of registers, caches and cores.
#pragma once

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

/// The weights of one task: how many tasks have others, and how often the task goes through them.
struct TaskWeights {
  double bytes = 0, others = 1, uses = 1;
};
/// Whether they may come in while the task before computes (tir::kPrefetchNext), of which else the first
/// tiles wait for them: they are used again, and those of two tasks fit the second-level cache.
bool come_early(const TaskWeights& weights, const Target& target);

/// The promising tilings, the best first. Never empty. The cost is that of the register tile (tile_model.h)
/// joined with the traffic that misses the second-level cache (which operands a loop level keeps there, and
/// how often the loops outside bring the others in again), spread over the cores as far as there are tasks.
std::vector<Tiling> tilings(const VectorReduction& reduction, const Target& target,
                            Edges edges = Edges::kAny);

}  // namespace lathe::schedule
