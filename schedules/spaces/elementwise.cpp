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

/// Lanes along variable `i` of the block are neighbours in what it stores, and neighbours or the same element
/// in what it loads.
bool contiguous_along(const Block& block, const Var& lane) {
  auto contiguous = [&](const std::vector<Expr>& indices, bool required) {
    for (size_t d = 0; d < indices.size(); ++d) {
      if (!uses_var(indices[d], lane.get())) continue;
      std::vector<Var> vars{lane};
      auto form = linear_form(indices[d], vars);
      return d + 1 == indices.size() && form && form->coefficients[lane.get()] == 1;
    }
    return !required;
  };
  const Store* store = block.body.as<Store>();
  if (!store || !contiguous(store->indices, true)) return false;
  bool good = true;
  post_order(store->value, [&](const NodeRef& node) {
    if (const Load* load = node.as<Load>()) good &= contiguous(load->indices, false);
    // Lanes that choose differently would load where only some may.
    if (const Select* select = node.as<Select>()) good &= !uses_var(select->condition, lane.get());
  });
  return good;
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
  return lane && as_int(innermost.extent) && contiguous_along(block, lane);
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
/// Fuses as many of the outer loops as give every core some iterations; the rest stay as they are, since
/// taking a fused index apart costs divisions.
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

void schedule_injective(Schedule& s, BlockHandle block, const Target& target) {
  std::vector<LoopHandle> loops = s.get_loops(block);
  int64_t work = iterations(*s[block]);
  vectorize_innermost(s, block, loops, target);
  if (work >= kParallelIterations) run_parallel(s, loops, target);
}

void schedule_scalar_reduction(Schedule& s, BlockHandle block, const Target& target) {
  std::vector<LoopHandle> loops = s.get_loops(block), spatial, reduce;
  Ref<Block> body = s[block];
  int64_t work = iterations(*body);
  for (LoopHandle loop : loops) {
    bool reduces = false;
    for (const BlockIter& iter : body->iters)
      reduces |= iter.kind != IterKind::kSpatial && uses_var(iter.value, s[loop]->var.get());
    (reduces ? reduce : spatial).push_back(loop);
  }
  if (spatial.empty() || reduce.empty()) return;
  std::vector<LoopHandle> order = spatial;
  order.insert(order.end(), reduce.begin(), reduce.end());
  s.reorder(order);
  s.decompose_reduction(block, reduce[0]);
  if (work >= kParallelIterations) run_parallel(s, spatial, target);
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
      schedule_scalar_reduction(s, handle, target);
    }
  }
}

}  // namespace lathe::schedule
