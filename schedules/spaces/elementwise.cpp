#include "schedules/spaces/building_blocks.h"
#include "schedules/tile_model.h"

namespace lathe::schedule {

using namespace tir;

namespace {
bool is_intermediate(const Func& func, const Block& block) {
  return block.writes.size() == 1 && !is_param(func, block.writes[0].buffer);
}

bool all_elementwise(const std::vector<Ref<Block>>& blocks) {
  for (const Ref<Block>& block : blocks)
    if (!is_injective(*block)) return false;
  return !blocks.empty();
}

/// The block's variable that the loop alone runs along, or null.
Var variable_of(const Block& block, const For& loop) {
  for (const BlockIter& iter : block.iters) {
    if (!uses_var(iter.value, loop.var.get())) continue;
    std::vector<Var> vars{loop.var};
    auto form = linear_form(iter.value, vars);
    return form && form->coefficients[loop.var.get()] == 1 ? iter.var : Var();
  }
  return {};
}

bool is_vectorizable(const Block& block, const For& innermost) {
  Var lane = variable_of(block, innermost);
  const Store* store = block.body.as<Store>();
  return lane && store && as_int(innermost.extent) && is_contiguous(store->indices, lane) &&
         loads_contiguously(store->value, lane);
}

/// Vectorizes the innermost of `loops`, splitting it when it is long; the loop that then is innermost of the
/// rest replaces it.
void vectorize_innermost(Schedule& s, BlockHandle block, std::vector<LoopHandle>& loops,
                         const Target& target) {
  if (loops.empty() || !is_vectorizable(*s[block], *s[loops.back()])) return;
  int64_t extent = int_value(s[loops.back()]->extent), width = vector_width(extent, target);
  if (width == 1) return;
  LoopHandle lanes = loops.back();
  loops.pop_back();
  if (extent > width) {
    auto parts = s.split(lanes, {kInferred, width});
    loops.push_back(parts[0]);
    lanes = parts[1];
  }
  s.vectorize(lanes);
}
}  // namespace

void inline_elementwise(Schedule& s) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Ref<Block>& block : all_blocks(s.func())) {
      if (!is_injective(*block) || !is_intermediate(s.func(), *block)) continue;
      if (!all_elementwise(consumers_of(s.func(), block))) continue;
      s.compute_inline(s.get_block(block->name));
      changed = true;
      break;
    }
  }
}

void run_parallel(Schedule& s, const std::vector<LoopHandle>& loops, const Target& target) {
  constexpr int64_t kIterationsPerCore = 8;
  if (loops.empty() || target.cores == 1) return;
  std::vector<LoopHandle> outer;
  int64_t iterations = 1;
  for (LoopHandle loop : loops) {
    if (iterations >= kIterationsPerCore * target.cores) break;
    iterations *= int_value(s[loop]->extent);
    outer.push_back(loop);
  }
  s.parallel(outer.size() > 1 ? s.fuse(outer) : outer[0]);
}

void schedule_injective(Schedule& s, BlockHandle block, const Target& target) {
  std::vector<LoopHandle> loops = s.get_loops(block);
  int64_t work = iterations(*s[block]);
  vectorize_innermost(s, block, loops, target);
  if (work >= kParallelIterations) run_parallel(s, loops, target);
}

void finish_inner_loops(Schedule& s, BlockHandle block, std::optional<LoopHandle> outer,
                        const Target& target) {
  constexpr int64_t kMostUnrolled = 64;
  std::vector<LoopHandle> inner;
  bool below = !outer;
  for (LoopHandle loop : s.get_loops(block)) {
    if (below) inner.push_back(loop);
    below |= outer && s[loop]->var == s[*outer]->var;
  }
  vectorize_innermost(s, block, inner, target);
  int64_t repeats = 1;
  for (LoopHandle loop : inner) repeats *= int_value(s[loop]->extent);
  if (!outer || repeats > kMostUnrolled) return;
  for (LoopHandle loop : inner) s.unroll(loop);
}

void schedule_rest(Schedule& s, const Target& target, std::set<std::string> done) {
  for (const Ref<Block>& block : all_blocks(s.func())) {
    if (done.count(block->name) || block->iters.empty() || iterations(*block) == 0) continue;
    BlockHandle handle = s.get_block(block->name);
    if (is_injective(*block)) {
      schedule_injective(s, handle, target);
    } else if (auto reduction = vector_reduction(block); reduction && vector_width(*reduction, target) > 1) {
      done.merge(schedule_tiled_reduction(s, *reduction, target, Decide::kHeuristic));
    } else if (is_reduction(*block)) {
      done.merge(schedule_scalar_reduction(s, handle, target));
    }
  }
}

}  // namespace lathe::schedule
