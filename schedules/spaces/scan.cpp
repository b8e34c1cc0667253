// Running sums: each element of a line follows from the one before. Vectors along a dimension inside the
// lines' one, and several lines in turn, so that none waits for its own last sum.
#include <algorithm>
#include <numeric>

#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/spaces/element_lanes.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Sums that do not wait for each other, vectors of them or single ones.
constexpr int64_t kSums = 8;

/// The position of the variable that runs in order; nothing for other blocks.
std::optional<size_t> ordered_variable(const Block& block) {
  std::optional<size_t> found;
  for (size_t i = 0; i < block.iters.size(); ++i) {
    if (block.iters[i].kind == IterKind::kReduce || !as_int(block.iters[i].extent)) return std::nullopt;
    if (block.iters[i].kind != IterKind::kOpaque) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found && block.body.as<Store>() && !block.init ? found : std::nullopt;
}

/// The steps along a line that one iteration takes.
Factor steps_at_once(Schedule& s, LoopHandle along, const Policy& policy) {
  return sample_one_of(s, copies_of(int_value(s[along]->extent)), 1, policy);
}

/// Splits lines that are no neighbours in memory off the last of `loops`, to be computed in turn: enough of
/// them where each step along a line makes `sums`, `most` where another choice is tried. Nothing where there
/// are no loops.
std::optional<LoopHandle> split_lines(Schedule& s, std::vector<LoopHandle>& loops, int64_t sums, int64_t most,
                                      const Policy& policy) {
  if (loops.empty()) return std::nullopt;
  // Of 4 x 7 lines, 8 of all are more than 3 of 7.
  if (loops.size() > 1 && int_value(s[loops.back()]->extent) < kSums) {
    const LoopHandle fused = s.fuse(loops);
    loops = {fused};
  }
  const int64_t extent = int_value(s[loops.back()]->extent);
  const auto preferred = copies_of(extent, kSums / std::max<int64_t>(sums, 1));
  auto parts =
      s.split(loops.back(), {kInferred, sample_one_of(s, copies_of(extent, most), preferred.back(), policy)});
  loops.back() = parts[0];
  return parts[1];
}

/// Lines are neighbours along the last loop: vectors of them, inside the loop along the lines.
std::vector<LoopHandle> scan_in_vectors(Schedule& s, const Block& block, std::vector<LoopHandle> loops,
                                        size_t ordered, const Target& target, const Policy& policy) {
  // The loops inside the ordered one that are one line in memory are one loop: of 96 rows of 24, each would
  // fill its second vector by half.
  const int64_t inside = static_cast<int64_t>(loops.size() - ordered) - 1;
  std::vector<int64_t> joins(static_cast<size_t>(std::min(inside, loops_of_line(s, block, loops))));
  std::iota(joins.begin(), joins.end(), 1);
  const int64_t joined = choose_one_of(s, joins, joins.back(), policy);
  LoopHandle row = joined > 1 ? s.fuse({loops.end() - joined, loops.end()}) : loops.back();
  loops.erase(loops.end() - joined, loops.end());
  const int64_t width = target.lanes();
  std::vector<int64_t> counts;
  for (int64_t vectors : {1, 2, 3, 4, 6, 8, 16})
    if (vectors == 1 || (vectors - 1) * width < int_value(s[row]->extent)) counts.push_back(vectors * width);
  Factor lines = sample_one_of(s, counts, counts.back(), policy);
  auto tiles = s.split(row, {kInferred, lines});
  auto lanes = s.split(tiles[1], {kInferred, sample_one_of(s, {width / 2, width}, width, policy)});
  // The loop along the lines stands between the loop over groups of vectors and the vectors: each step goes
  // over one group, and finds the last sums of it just made.
  auto steps = s.split(loops[ordered], {kInferred, steps_at_once(s, loops[ordered], policy)});
  std::vector<LoopHandle> between(loops.begin() + static_cast<int64_t>(ordered) + 1, loops.end());
  loops.resize(ordered);
  // A last vector that the lines fill in part is stored and loaded in part, which takes many times as long as
  // the addition: others come in turn.
  const std::optional<LoopHandle> others = split_lines(s, loops, counts.back() / width, kSums, policy);
  loops.insert(loops.end(), between.begin(), between.end());
  loops.push_back(tiles[0]);
  std::vector<LoopHandle> order = loops;
  order.insert(order.end(), {steps[0], steps[1]});
  if (others) order.push_back(*others);
  order.insert(order.end(), {lanes[0], lanes[1]});
  s.reorder(order);
  s.unroll(steps[1]);
  if (others) s.unroll(*others);
  s.unroll(lanes[0]);
  s.vectorize(lanes[1]);
  return loops;
}

/// Several lines in turn. `inside`: the loops inside the one along the lines, which have few of them.
std::vector<LoopHandle> scan_in_turn(Schedule& s, std::vector<LoopHandle> loops,
                                     const std::vector<LoopHandle>& inside, const Policy& policy) {
  auto steps = s.split(loops.back(), {kInferred, steps_at_once(s, loops.back(), policy)});
  s.unroll(steps[1]);
  int64_t together = 1;
  for (LoopHandle loop : inside) {
    together *= int_value(s[loop]->extent);
    s.unroll(loop);
  }
  loops.pop_back();
  if (const std::optional<LoopHandle> others = split_lines(s, loops, together, 16, policy)) {
    // Steps of different lines do not depend on each other, so the lines are innermost.
    s.reorder({steps[0], steps[1], *others});
    s.unroll(*others);
  }
  return loops;
}

/// The loops of the block, one a variable, without those of one iteration, which go innermost: neighbours are
/// along the last of the others.
std::pair<std::vector<LoopHandle>, std::vector<Var>> lines_of(Schedule& s, const Block& block) {
  std::vector<LoopHandle> loops, single;
  std::vector<Var> vars;
  const std::vector<LoopHandle> all = s.get_loops(s.get_block(block.name));
  for (size_t i = 0; i < all.size(); ++i) {
    if (is_int(block.iters[i].extent, 1) && block.iters[i].kind != IterKind::kOpaque) {
      single.push_back(all[i]);
      continue;
    }
    loops.push_back(all[i]);
    vars.push_back(block.iters[i].var);
  }
  if (!single.empty()) {
    std::vector<LoopHandle> order = loops;
    order.insert(order.end(), single.begin(), single.end());
    if (order != all) s.reorder(order);
  }
  return {loops, vars};
}
}  // namespace

bool has_scan(const Func& func, const Target&) {
  for (const Ref<Block>& block : all_blocks(func))
    if (ordered_variable(*block)) return true;
  return false;
}

void generate_scan(Schedule& s, const Target& target, const Policy& policy) {
  inline_elementwise(s);
  std::set<std::string> done;
  for (const Ref<Block>& block : all_blocks(s.func())) {
    std::optional<size_t> ordered = ordered_variable(*block);
    if (!ordered) continue;
    done.insert(block->name);
    auto [loops, vars] = lines_of(s, *block);
    ordered =
        static_cast<size_t>(std::find(vars.begin(), vars.end(), block->iters[*ordered].var) - vars.begin());
    const Var& last = vars.back();
    const Store& store = *block->body.as<Store>();
    const std::vector<LoopHandle> inside(loops.begin() + static_cast<int64_t>(*ordered) + 1, loops.end());
    int64_t together = 1;
    for (LoopHandle loop : inside) together *= int_value(s[loop]->extent);
    // Where there are no other lines, nothing hides how long a vector filled in part takes.
    const int64_t fewest = *ordered == 0 ? std::max<int64_t>(target.lanes(), kFewestLanes) : kFewestLanes;
    if (together < fewest)
      loops =
          scan_in_turn(s, {loops.begin(), loops.end() - static_cast<int64_t>(inside.size())}, inside, policy);
    else if (is_contiguous(store.indices, last) && loads_in_lanes(*block, store.value, last))
      loops = scan_in_vectors(s, *block, loops, *ordered, target, policy);
    else
      // Dimensions inside the ordered one that do not vectorize stay as they are; what is outside may run in
      // parallel.
      loops.resize(*ordered);
    if (pays_in_parallel(iterations(*block), target)) run_parallel(s, loops, target, policy);
  }
  schedule_rest(s, target, done, policy);
}

}  // namespace lathe::schedule
