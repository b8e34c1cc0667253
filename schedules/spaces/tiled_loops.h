// The loops of a tiled reduction: how they are split and in which order they stand. Steps of
// tiled_reduction.cpp, in order, each of which hands the next what it decided.
#pragma once

#include <algorithm>

#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

/// What is to be scheduled. Nothing in it changes from step to step.
struct TiledProblem {
  Schedule& schedule;
  const Target& target;
  Policy policy;
  BlockHandle block;
  std::vector<LoopHandle> loops;          // of the reduction's variables
  std::vector<LoopHandle> around;         // of what reads its results, when it is computed part by part
  std::optional<ReductionBlocks> blocks;  // what it computes is one block of another reduction
  size_t banded = 0;                      // so many loops, the outermost, stay outside all others, as one
  double positions = 1;                   // of all its results, also where a part of them is computed

  /// Of loops of another block, which are parallel if any are.
  bool is_inside() const { return !around.empty(); }
  Decision heuristic(Decision decision) const {
    return policy.decide == Decide::kHeuristic ? decision : Decision{};
  }
  int64_t extent(LoopHandle loop) const { return int_value(schedule[loop]->extent); }
};

/// The loops after splitting, by variable.
struct TiledLoops {
  struct Parts {
    std::optional<LoopHandle> outer, middle, tile;
  };
  std::vector<LoopHandle> whole;          // of the vectors' variable: over vectors
  std::vector<Parts> parts;               // of variables that are not reduced
  std::vector<int64_t> outer_iterations;  // 1 for those reduced
  LoopHandle lanes;
  int64_t results = 1;  // vectors of results in a register tile
};
/// Splits the variables into tasks, register tiles of a task and the tile itself, by a sampled tiling.
TiledLoops split_into_tiles(const TiledProblem& problem, const VectorReduction& reduction);

/// The loops over the terms of a result, outermost first, and those of them that are unrolled; a window's
/// rows, which stand inside the tile, only among the latter.
struct TermLoops {
  std::vector<LoopHandle> loops, unrolled;

  /// Those that stay loops.
  std::vector<LoopHandle> rolled() const {
    std::vector<LoopHandle> result = loops;
    std::erase_if(result, [&](LoopHandle loop) {
      return std::find(unrolled.begin(), unrolled.end(), loop) != unrolled.end();
    });
    return result;
  }
};
TermLoops choose_term_loops(const TiledProblem& problem, const VectorReduction& reduction,
                            const TiledLoops& tiles);

/// Where tasks and tiles begin, once the loops stand in their order.
struct TaskLoops {
  std::vector<LoopHandle> outer;   // of tasks; one, fused, unless inside another block's loops
  std::optional<LoopHandle> band;  // of the outermost variables, when these are banded
  std::optional<LoopHandle> tile;  // the innermost loop around one register tile
  std::optional<size_t> cut;       // the first variable that a parallel loop takes apart
};
/// Puts the loops in order: tasks, a block's number, tiles, terms, the tile unrolled, its vectors.
TaskLoops order_loops(const TiledProblem& problem, const VectorReduction& reduction, const TiledLoops& tiles,
                      const TermLoops& terms);

}  // namespace lathe::schedule
