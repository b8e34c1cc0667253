#include "schedules/spaces/tiled_loops.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "schedules/family.h"
#include "schedules/tiling.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A reduction body of more instructions than this is not unrolled further: it should stay in the
/// decoded-instruction cache.
constexpr int64_t kMostInstructions = 512;

/// Sizes of the register tile, then register tiles of a task, for each tiled variable.
std::vector<IntHandle> sample_tiling(const TiledProblem& problem, const VectorReduction& reduction,
                                     size_t variables) {
  if (variables == 0) return {};
  std::vector<int64_t> table;
  Target target = problem.target;
  // The loops around are parallel already, or none will be: here the work of one core is tiled.
  if (problem.is_inside() || !pays_in_parallel(iterations(*problem.schedule[problem.block]), target))
    target.cores = 1;
  const Edges edges = is_for_typical_dims(*problem.schedule.func()) ? Edges::kOne : Edges::kAny;
  for (const Tiling& tiling : tilings(reduction, target, edges)) {
    table.insert(table.end(), tiling.sizes.begin(), tiling.sizes.end());
    table.insert(table.end(), tiling.middle.begin(), tiling.middle.end());
  }
  return problem.schedule.sample_tuple(static_cast<int64_t>(2 * variables), table, problem.heuristic({0}));
}

/// Unrolled, two steps along `term` spill: taps of a window that overlaps with the next one broadcast mostly
/// the same elements, to other results of the tile. LLVM loads each once and keeps them all, beside the sums.
bool spills_broadcasts(const TiledProblem& problem, const VectorReduction& reduction, const TiledLoops& tiles,
                       size_t term) {
  if (2 * tiles.results < problem.target.vector_registers) return false;
  const auto overlaps = [&](const Operand& operand) {
    const int64_t step = operand.strides[term];
    if (operand.contiguous || step == 0) return false;
    for (size_t i = 0; i < tiles.parts.size(); ++i) {
      const int64_t apart = tiles.parts[i].tile ? operand.strides[i] : 0;
      if (apart != 0 && step % apart == 0 && 2 * (step / apart) <= problem.extent(*tiles.parts[i].tile))
        return true;
    }
    return false;
  };
  return std::any_of(reduction.operands.begin(), reduction.operands.end(), overlaps);
}

/// Unrolls the innermost of the loops by a sampled factor; all of them, when they are few steps (windows).
/// What has several operands and none that is broadcast waits for memory rather than for loops. `variables`:
/// those of the loops.
void unroll_terms(const TiledProblem& problem, const VectorReduction& reduction, const TiledLoops& tiles,
                  std::vector<size_t> variables, TermLoops& terms) {
  constexpr int64_t kMostCopies = 16;
  const int64_t results = tiles.results * reduction.terms();
  Schedule& s = problem.schedule;
  int64_t steps = 1;
  for (LoopHandle loop : terms.loops) steps *= problem.extent(loop);
  const auto spills = [&](size_t term) { return spills_broadcasts(problem, reduction, tiles, term); };
  const int64_t whole = std::none_of(variables.begin(), variables.end(), spills) ? 1 : 0;
  if (reduction.broadcasts() && steps * results * 2 <= kMostInstructions &&
      choose_one_of(s, {0, 1}, whole, problem.policy) == 1) {
    terms.unrolled = terms.loops;
    return;
  }
  // A trailing loop of one step has nothing to unroll.
  for (size_t i = terms.loops.size() - 1; i > 0 && problem.extent(terms.loops.back()) == 1; --i)
    std::swap(terms.loops.back(), terms.loops[i - 1]), std::swap(variables.back(), variables[i - 1]);
  LoopHandle last = terms.loops.back();
  // Rows that are added up come from several places at once.
  const bool unrolls =
      reduction.operands.size() == 1 || (reduction.broadcasts() && !spills(variables.back()));
  std::vector<int64_t> factors;
  int64_t preferred = 1;
  const int64_t most = reduction.broadcasts() ? kMostCopies : 2 * kMostCopies;
  for (int64_t factor = 1; factor <= std::min(most, problem.extent(last)); ++factor) {
    if (problem.extent(last) % factor != 0 || (factor > 1 && factor * results > kMostInstructions)) continue;
    if (unrolls && factor <= 4 && std::has_single_bit(static_cast<uint64_t>(factor))) preferred = factor;
    factors.push_back(factor);
  }
  auto parts = s.split(last, {kInferred, sample_one_of(s, factors, preferred, problem.policy)});
  terms.loops.back() = parts[0];
  terms.loops.push_back(parts[1]);
  terms.unrolled = {parts[1]};
}

/// The operand that stays in registers over a step of the reduction: the one with fewest vectors in a tile.
/// Its variables run innermost, so that each element of the others is loaded once and used up.
const Operand& held_operand(const TiledProblem& problem, const VectorReduction& reduction,
                            const TiledLoops& tiles) {
  const Operand* held = nullptr;
  int64_t fewest = INT64_MAX;
  for (const Operand& operand : reduction.operands) {
    int64_t loads = 1;
    for (size_t i = 0; i < tiles.parts.size(); ++i)
      if (tiles.parts[i].tile && operand.uses[i]) loads *= problem.extent(*tiles.parts[i].tile);
    if (loads < fewest) held = &operand, fewest = loads;
  }
  return *held;
}

/// The variables in the order of their outer loops.
std::vector<size_t> outside_in(const VectorReduction& reduction, size_t variables) {
  std::vector<size_t> order(variables);
  std::iota(order.begin(), order.end(), size_t{0});
  if (auto first = reduction.outermost)
    std::rotate(order.begin(), order.begin() + *first, order.begin() + *first + 1);
  return order;
}
}  // namespace

TiledLoops split_into_tiles(const TiledProblem& problem, const VectorReduction& reduction) {
  Schedule& s = problem.schedule;
  const size_t variables = problem.loops.size();
  TiledLoops tiles{.whole = problem.loops};
  tiles.parts.resize(variables);
  tiles.outer_iterations.resize(variables, 1);
  // Vectors first: register tiles count in them.
  auto vectors = s.split(tiles.whole[reduction.vector], {kInferred, vector_width(reduction, problem.target)});
  tiles.whole[reduction.vector] = vectors[0];
  tiles.lanes = vectors[1];
  std::vector<size_t> tiled = tiled_variables(reduction, problem.target);
  std::vector<IntHandle> factors = sample_tiling(problem, reduction, tiled.size());
  for (size_t i = 0; i < tiled.size(); ++i) {
    auto levels = s.split(tiles.whole[tiled[i]], {kInferred, factors[tiled.size() + i], factors[i]});
    tiles.parts[tiled[i]] = {levels[0], levels[1], levels[2]};
    tiles.outer_iterations[tiled[i]] = problem.extent(levels[0]);
    tiles.results *= s[factors[i]];
  }
  for (size_t i = 0; i < variables; ++i) {
    if (reduction.reduces[i] || tiles.parts[i].tile) continue;
    tiles.parts[i].outer = tiles.whole[i];
    tiles.outer_iterations[i] = problem.extent(tiles.whole[i]);
  }
  return tiles;
}

TermLoops choose_term_loops(const TiledProblem& problem, const VectorReduction& reduction,
                            const TiledLoops& tiles) {
  TermLoops terms;
  std::vector<size_t> variables;
  std::optional<size_t> window = reduction.window();
  for (size_t i = 0; i < tiles.whole.size(); ++i)
    if (reduction.reduces[i] && i != reduction.dot && i != window)
      terms.loops.push_back(tiles.whole[i]), variables.push_back(i);
  // What is read once may come in another order.
  if (!reduction.broadcasts() && !window) choose_innermost(problem.schedule, terms.loops, problem.policy);
  unroll_terms(problem, reduction, tiles, std::move(variables), terms);
  if (window) terms.unrolled.push_back(tiles.whole[*window]);
  return terms;
}

TaskLoops order_loops(const TiledProblem& problem, const VectorReduction& reduction, const TiledLoops& tiles,
                      const TermLoops& terms) {
  Schedule& s = problem.schedule;
  TaskLoops tasks;
  std::vector<LoopHandle> outer, tile;
  const std::vector<size_t> variables = outside_in(reduction, tiles.parts.size());
  for (size_t i : variables)
    if (tiles.parts[i].outer && !(problem.blocks && i == problem.blocks->variable))
      outer.push_back(*tiles.parts[i].outer);
  // From here on `order` is what loops are nested in: tasks, blocks of terms, tiles of a task, terms, the
  // register tile, lanes, and the products within a lane.
  std::vector<LoopHandle> order = outer;
  if (problem.blocks) {
    tasks.tile = tiles.parts[problem.blocks->variable].outer;
    order.push_back(*tasks.tile);
  }
  for (const TiledLoops::Parts& part : tiles.parts)
    if (part.middle) order.push_back(*part.middle), tasks.tile = *part.middle;
  order.insert(order.end(), terms.loops.begin(), terms.loops.end());
  const Operand& held = held_operand(problem, reduction, tiles);
  // First the loops that do not move the held operand, then, inside, those that do.
  for (bool inner : {false, true})
    for (size_t i = 0; i < tiles.parts.size(); ++i)
      if (tiles.parts[i].tile && held.uses[i] == inner) tile.push_back(*tiles.parts[i].tile);
  order.insert(order.end(), tile.begin(), tile.end());
  if (auto window = reduction.window()) order.push_back(tiles.whole[*window]);
  order.push_back(tiles.lanes);
  if (reduction.dot) order.push_back(tiles.whole[*reduction.dot]);
  s.reorder(order);
  for (LoopHandle loop : tile) s.unroll(loop);
  s.vectorize(tiles.lanes);

  if (outer.empty()) return tasks;
  if (problem.banded > 0) {
    const auto end = outer.begin() + static_cast<int64_t>(problem.banded);
    tasks.band = s.tasks({outer.begin(), end});
    outer.erase(outer.begin(), end);
  }
  // Fused, all tasks are one parallel loop: cores get equal shares however the extents of single loops
  // divide.
  if (!problem.is_inside()) outer = {s.tasks(outer)};
  tasks.outer = outer;
  if (!tasks.tile) tasks.tile = outer.back();
  int64_t work = iterations(*s[problem.block]);
  if (problem.is_inside() || problem.target.cores == 1 || !pays_in_parallel(work, problem.target))
    return tasks;
  s.run_tasks(tasks.band ? *tasks.band : outer.back());
  // The outermost with several tasks is the one whose parts are different cores' work.
  for (size_t i : variables)
    if (!tasks.cut && tiles.parts[i].outer && tiles.outer_iterations[i] > 1) tasks.cut = i;
  return tasks;
}

}  // namespace lathe::schedule
