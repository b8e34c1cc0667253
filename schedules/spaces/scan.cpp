// Running sums: each element of a line follows from the one before. Vectors along a dimension inside the
// lines' one, or several lines in turn, so that none waits for its own last sum.
#include <algorithm>

#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Elements of neighbouring lines at once, and lines that are no neighbours in memory.
constexpr int64_t kVectors = 16, kLines = 8;

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

IntHandle sample_one_of(Schedule& s, const std::vector<int64_t>& counts, int64_t preferred, Decide decide) {
  auto best = std::find(counts.begin(), counts.end(), preferred) - counts.begin();
  return s.sample_categorical(counts, decide == Decide::kHeuristic ? Decision{best} : Decision{});
}

/// Lines are neighbours along the last loop: vectors of them, inside the loop along the lines.
std::vector<LoopHandle> scan_in_vectors(Schedule& s, std::vector<LoopHandle> loops, size_t ordered,
                                        const Target& target, const Policy& policy) {
  int64_t width = target.lanes();
  IntHandle lines =
      sample_one_of(s, {width, 2 * width, 4 * width, 16 * width}, kVectors * width, policy.decide);
  auto tiles = s.split(loops.back(), {kInferred, lines});
  auto lanes = s.split(tiles[1], {kInferred, width});
  LoopHandle along = loops[ordered];
  loops.pop_back();
  loops.erase(loops.begin() + static_cast<int64_t>(ordered));
  loops.push_back(tiles[0]);
  std::vector<LoopHandle> order = loops;
  order.insert(order.end(), {along, lanes[0], lanes[1]});
  s.reorder(order);
  s.unroll(lanes[0]);
  s.vectorize(lanes[1]);
  return loops;
}

/// Several lines in turn.
std::vector<LoopHandle> scan_in_turn(Schedule& s, std::vector<LoopHandle> loops, const Policy& policy) {
  LoopHandle along = loops.back();
  loops.pop_back();
  if (loops.empty()) return loops;
  IntHandle lines = sample_one_of(s, {1, 4, 8, 16}, kLines, policy.decide);
  auto parts = s.split(loops.back(), {kInferred, lines});
  s.reorder({along, parts[1]});
  s.unroll(parts[1]);
  loops.back() = parts[0];
  return loops;
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
    std::vector<LoopHandle> loops = s.get_loops(s.get_block(block->name));
    const Var& last = block->iters.back().var;
    const Store& store = *block->body.as<Store>();
    if (*ordered + 1 < loops.size() && is_contiguous(store.indices, last) &&
        loads_in_lanes(*block, store.value, last))
      loops = scan_in_vectors(s, loops, *ordered, target, policy);
    else if (*ordered + 1 == loops.size())
      loops = scan_in_turn(s, loops, policy);
    else
      loops.resize(*ordered);
    if (pays_in_parallel(iterations(*block), target)) run_parallel(s, loops, target);
  }
  schedule_rest(s, target, done);
}

}  // namespace lathe::schedule
