// The schedule of convolutions, matrix products, depthwise convolutions and poolings over vectors:
//
//   parallel for outer parts of all spatial variables:
//     producers (padding), when they move in
//     for middle parts:                                 one register tile each
//       accumulators = initial value                    unrolled, vectors
//       for reduction:                                  the innermost unrolled a little
//         for the tile: accumulators += a * b           unrolled, vectors; a window's rows inside
//       epilogue of the tile (bias, residual, relu)     unrolled, vectors
//
// Blocks of the reduction (reduction_blocks.cpp) are a loop around the middle parts: what ends a tile adds
// its block to the sums of the task, and the epilogue follows that loop.
//
// The steps stand in schedule_steps() in order: what is beside the reduction gets blocks of its own, its
// loops are split and ordered (tiled_loops.h), producers find their places, and the terms and what follows a
// tile are finished.
#include <algorithm>
#include <cmath>

#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "schedules/spaces/element_lanes.h"
#include "schedules/spaces/tiled_loops.h"
#include "schedules/tiling.h"

namespace lathe::schedule {

using namespace tir;

namespace {

TiledProblem problem_of(Schedule& schedule, VectorReduction& reduction, const Target& target,
                        const Policy& policy) {
  TiledProblem problem{.schedule = schedule,
                       .target = target,
                       .policy = policy,
                       .block = schedule.get_block(reduction.block),
                       .positions = reduction.positions()};
  std::vector<LoopHandle> all = schedule.get_loops(problem.block);
  problem.loops.assign(all.end() - static_cast<int64_t>(reduction.extents.size()), all.end());
  for (size_t i = 0; i < problem.loops.size(); ++i)
    fit_to_loop(reduction, i, *schedule[problem.block], *schedule[problem.loops[i]]);
  return problem;
}

/// The blocks of constants that make a copy of these weights, which may be kept in half precision: of a
/// constant, or of its copy in another layout, where the policy allows to round it, or of one that is of
/// float16, exactly. None where there are none.
std::vector<BlockHandle> copies_of_weights(const TiledProblem& problem, const Buffer& weights) {
  Schedule& s = problem.schedule;
  if (!pays_as_half(weights->dtype, byte_size(weights), problem.target)) return {};
  std::vector<BlockHandle> widens = widening_of_constant(s, weights);
  if (!widens.empty()) return widens;
  if (!may_be_half(weights->dtype, byte_size(weights), problem.target, problem.policy)) return {};
  if (const std::optional<BlockHandle> copying = copying_of_constant(s, weights)) return {*copying};
  if (!is_constant_param(s.func(), weights)) return {};
  const std::vector<Region>& reads = s[problem.block]->reads;
  auto read = std::find_if(reads.begin(), reads.end(), [&](const Region& r) { return r.buffer == weights; });
  return {s.cache_read(problem.block, read - reads.begin(), Scope::kGlobal)};
}

/// Large weights that are constants get a copy, made when the model is built, which may be half as large; the
/// reduction reads that then.
void halve_weights(const TiledProblem& problem, VectorReduction& reduction) {
  Schedule& s = problem.schedule;
  for (size_t o = 0; o < reduction.operands.size(); ++o) {
    Buffer& weights = reduction.operands[o].buffer;
    if (!reduction.is_weight(o)) continue;
    const std::vector<BlockHandle> copies = copies_of_weights(problem, weights);
    if (copies.empty()) continue;
    // Widening costs an instruction each time they are used.
    sample_half_storage(s, copies, problem.positions < problem.target.vector_registers,
                        problem.policy.decide);
    weights = s[copies.back()]->writes[0].buffer;
  }
}

/// Several tasks read the same data for other parts of the weights, and would compute it anew each.
bool cuts_columns(const VectorReduction& reduction, const TiledLoops& tiles) {
  for (size_t i = 0; i < tiles.parts.size(); ++i) {
    if (!tiles.parts[i].tile || tiles.outer_iterations[i] == 1) continue;
    for (const Operand& operand : reduction.operands)
      if (!operand.contiguous && !operand.uses[i]) return true;
  }
  return false;
}

/// The loops that what it reads may be computed in, outermost first.
std::vector<LoopHandle> places_of(const TiledProblem& problem, const VectorReduction& reduction,
                                  const TiledLoops& tiles, const TaskLoops& tasks) {
  std::vector<LoopHandle> loops = problem.around;
  if (tasks.outer.empty() || cuts_columns(reduction, tiles)) return loops;
  loops.insert(loops.end(), tasks.outer.begin(), tasks.outer.end());
  for (size_t i = 0; i < tiles.parts.size(); ++i) {
    const std::optional<LoopHandle>& middle = tiles.parts[i].middle;
    if (!middle || problem.extent(*middle) == 1) continue;
    for (const Operand& operand : reduction.operands)
      if (!operand.contiguous && !operand.uses[i]) return loops;  // computed anew for other weights
    loops.push_back(*middle);
  }
  return loops;
}

/// Elements computed when `producer` moves into `loop` (null: stays before), those beyond the first- and
/// the second-level cache counted as more; nothing when it may not move there.
std::optional<double> cost_inside(const TiledProblem& problem, BlockHandle producer,
                                  std::optional<LoopHandle> loop) {
  Schedule trial = problem.schedule;
  try {
    if (loop) trial.compute_at(producer, *loop);
  } catch (const Error&) {
    return {};  // not a legal place
  }
  int64_t elements = 1;
  double repeats = 1;
  bool below = !loop;
  for (LoopHandle inner : trial.get_loops(producer)) {
    if (below)
      elements *= int_value(trial[inner]->extent);
    else
      repeats *= static_cast<double>(int_value(trial[inner]->extent));
    below |= loop && trial[inner]->var == trial[*loop]->var;
  }
  int64_t bytes = elements * trial[producer]->writes[0].buffer->dtype.bytes();
  if (loop && bytes > kStackBytes) return {};
  // Computing an element takes about as long as reading it from the first-level cache; lines that come
  // from far away are fetched ahead.
  constexpr double kMost = 2.5;
  double reach =
      machine_of(problem.target).l1_bandwidth / bandwidth_within(problem.target, static_cast<double>(bytes));
  return static_cast<double>(elements) * repeats * std::min((1 + reach) / 2, kMost);
}

/// Its loops next to their consumer are vectorized and unrolled like its; else they are loops of a block
/// alone.
void finish_producer(const TiledProblem& problem, BlockHandle producer,
                     const std::vector<LoopHandle>& places) {
  Schedule& s = problem.schedule;
  std::optional<LoopHandle> around;
  for (const Ref<For>& loop : loops_around(path_to(s.func(), s[producer])))
    for (LoopHandle candidate : places)
      if (loop->var == s[candidate]->var) around = candidate;
  if (around)
    finish_inner_loops(s, producer, around, problem.target);
  else if (!is_finished(s, producer))
    schedule_injective(s, producer, problem.target);
}

/// A producer moves into the outer loop or one inside a task, or runs before as loops of its own.
void place_producer(const TiledProblem& problem, BlockHandle producer,
                    const std::vector<LoopHandle>& places) {
  std::vector<LoopHandle> legal;
  int64_t best = 0;
  double least = cost_inside(problem, producer, {}).value();
  for (LoopHandle loop : places) {
    std::optional<double> cost = cost_inside(problem, producer, loop);
    if (!cost) continue;
    legal.push_back(loop);
    if (*cost <= least) least = *cost, best = static_cast<int64_t>(legal.size());
  }
  LoopHandle place = problem.schedule.sample_compute_location(producer, legal, problem.heuristic({best}));
  problem.schedule.compute_at(producer, place);
  finish_producer(problem, producer, places);
}

/// What a reduction reads of the module's constants.
struct ConstantWeights {
  double bytes = 0;
  std::vector<bool> moves;  // by variable: others are read
};
ConstantWeights constant_weights(const TiledProblem& problem, const VectorReduction& reduction) {
  ConstantWeights weights{.moves = std::vector<bool>(reduction.extents.size())};
  for (size_t o = 0; o < reduction.operands.size(); ++o) {
    const Operand& operand = reduction.operands[o];
    if (!reduction.is_weight(o) || !is_constant(problem.schedule.func(), operand.buffer)) continue;
    weights.bytes += static_cast<double>(byte_size(operand.buffer));
    for (size_t i = 0; i < weights.moves.size(); ++i) weights.moves[i] = weights.moves[i] || operand.uses[i];
  }
  return weights;
}

/// While an iteration of a loop computes, the weights of the next one come in.
void prefetch_next(const TiledProblem& problem, const ConstantWeights& weights, const TiledLoops& tiles,
                   const TermLoops& terms, const TaskLoops& tasks) {
  if (problem.is_inside() || problem.blocks || problem.banded > 0 || tasks.outer.empty()) return;
  Schedule& s = problem.schedule;
  std::vector<LoopHandle> handles{tasks.outer.back()};
  std::vector<WeightLoop> loops(1);
  for (size_t i = 0; i < tiles.parts.size(); ++i) {
    const bool moves = weights.moves[i];
    if (moves && tiles.outer_iterations[i] > 1)
      loops[0] = {loops[0].extent * static_cast<double>(tiles.outer_iterations[i]), true};
    if (!tiles.parts[i].middle) continue;
    handles.push_back(*tiles.parts[i].middle);
    loops.push_back({static_cast<double>(problem.extent(handles.back())), moves});
  }
  const std::optional<size_t> marked = loop_with_next(loops, weights.bytes, problem.target);
  if (!marked) return;
  double bytes = weights.bytes, iterations = 1;
  for (size_t l = 0; l < loops.size(); ++l) {
    if (l <= *marked && loops[l].moves) bytes /= loops[l].extent;
    if (l > *marked) iterations *= loops[l].extent;
  }
  for (LoopHandle loop : terms.rolled()) iterations *= static_cast<double>(problem.extent(loop));
  const auto lines = static_cast<int64_t>(std::ceil(bytes / (static_cast<double>(kLineBytes) * iterations)));
  s.annotate(handles[*marked], kPrefetchNext, sample_one_of(s, {0, lines}, lines, problem.policy));
}

/// Weights that no cache holds from one use to the next come from memory, each once: worth asking for
/// early.
void prefetch_weights(const TiledProblem& problem, const VectorReduction& reduction, const TiledLoops& tiles,
                      const TermLoops& terms, const TaskLoops& tasks) {
  Schedule& s = problem.schedule;
  const ConstantWeights weights = constant_weights(problem, reduction);
  if (weights.bytes < static_cast<double>(far_bytes(problem.target))) return;
  // Few rows have as many products for each load, and nothing to do meanwhile: the processor fetches as far
  // ahead itself, and asking takes the place of a load.
  const bool few_rows = problem.positions <= kPanelRows;
  IntHandle ahead =
      s.sample_categorical({0, 1024, 4096, 16384, 65536}, problem.heuristic({few_rows ? 0 : 2}));
  for (LoopHandle loop : terms.rolled()) s.annotate(loop, kPrefetch, ahead);
  if (!few_rows) prefetch_next(problem, weights, tiles, terms, tasks);
}

/// Gives the block that sets the accumulators to their initial value.
BlockHandle finish_terms(const TiledProblem& problem, const VectorReduction& reduction,
                         const TiledLoops& tiles, const TermLoops& terms, const TaskLoops& tasks) {
  Schedule& s = problem.schedule;
  prefetch_weights(problem, reduction, tiles, terms, tasks);
  for (LoopHandle loop : terms.unrolled) s.unroll(loop);
  BlockHandle init = s.decompose_reduction(problem.block, terms.loops[0]);
  if (reduction.dot) s.dot_product(tiles.whole[*reduction.dot]);
  return init;
}

/// What ends a tile, and what follows the blocks of a reduction. Names of the blocks that the latter deals
/// with.
std::set<std::string> finish_epilogue(const TiledProblem& problem, BlockHandle epilogue,
                                      const TiledLoops& tiles, const TaskLoops& tasks) {
  Schedule& s = problem.schedule;
  if (tasks.tile) s.reverse_compute_at(epilogue, *tasks.tile);
  if (problem.blocks) block_outside_vectors(s, problem.blocks->sum);
  finish_inner_loops(s, epilogue, tasks.tile, problem.target);
  if (!problem.blocks) return {};
  int64_t bytes =
      tiles.results * problem.extent(tiles.lanes) * s[problem.block]->writes[0].buffer->dtype.bytes();
  for (const TiledLoops::Parts& part : tiles.parts)
    if (part.middle) bytes *= problem.extent(*part.middle);
  if (bytes > kStackBytes) fail("the sums of a task take {} bytes", bytes);
  return finish_reduction_blocks(s, problem.blocks->sum, *tiles.parts[problem.blocks->variable].outer,
                                 tasks.outer.back(), problem.target);
}

struct Scheduled {
  std::set<std::string> done;
  std::vector<LoopHandle> places;
  TaskLoops tasks;
};

/// `producers`: what it reads and may move into its loops. `next`: what its tiles end with.
Scheduled schedule_steps(const TiledProblem& problem, VectorReduction reduction,
                         const std::vector<BlockHandle>& producers, const std::optional<std::string>& next) {
  Schedule& s = problem.schedule;
  std::set<std::string> done = {s[problem.block]->name};
  // Accumulators go to a buffer of their own, which becomes registers; its reader is the epilogue.
  BlockHandle epilogue = stage_accumulators(s, problem.block, next);
  done.insert(s[epilogue]->name);
  reduction.into_functions = computes(*s[epilogue]);
  TiledLoops tiles = split_into_tiles(problem, reduction);
  TermLoops terms = choose_term_loops(problem, reduction, tiles);
  TaskLoops tasks = order_loops(problem, reduction, tiles, terms);
  std::vector<LoopHandle> places = places_of(problem, reduction, tiles, tasks);
  for (BlockHandle producer : producers) {
    place_producer(problem, producer, places);
    done.insert(s[producer]->name);
  }
  done.insert(s[finish_terms(problem, reduction, tiles, terms, tasks)]->name);
  done.merge(finish_epilogue(problem, epilogue, tiles, tasks));
  return {std::move(done), std::move(places), std::move(tasks)};
}
}  // namespace

Nest schedule_tiled_reduction(Schedule& schedule, const VectorReduction& whole, const Target& target,
                              const Policy& policy, const std::vector<LoopHandle>& around) {
  std::optional<ReductionBlocks> blocks;
  if (around.empty()) blocks = sample_reduction_blocks(schedule, whole, target, policy);
  VectorReduction reduction = blocks ? blocks->partial : whole;
  TiledProblem problem = problem_of(schedule, reduction, target, policy);
  problem.around = around;
  problem.blocks = std::move(blocks);
  std::vector<BlockHandle> producers = movable_producers(schedule, problem.block);
  halve_weights(problem, reduction);
  std::optional<std::string> next =
      problem.blocks ? schedule[problem.blocks->sum]->name : epilogue_of(schedule, *schedule[problem.block]);
  Scheduled result = schedule_steps(problem, reduction, producers, next);
  return {std::move(result.done), std::move(result.places), result.tasks.cut};
}

ProductNest schedule_product(Schedule& schedule, const VectorReduction& product, const Target& target,
                             const Policy& policy, size_t banded) {
  VectorReduction reduction = product;
  TiledProblem problem = problem_of(schedule, reduction, target, policy);
  problem.banded = banded;
  Scheduled result = schedule_steps(problem, reduction, {}, {});
  return {std::move(result.done), result.tasks.band};
}

std::set<std::string> schedule_product_inside(Schedule& schedule, const VectorReduction& product,
                                              const Target& target, const Policy& policy,
                                              const std::vector<LoopHandle>& around) {
  VectorReduction reduction = product;
  TiledProblem problem = problem_of(schedule, reduction, target, policy);
  problem.around = around;
  return schedule_steps(problem, reduction, {}, epilogue_of(schedule, *schedule[problem.block])).done;
}

}  // namespace lathe::schedule
