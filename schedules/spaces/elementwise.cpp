#include <algorithm>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "core/tir/machine.h"
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

/// Whether `value` loads neighbours when `lane` runs through vectors of `width` that begin at its multiples:
/// x[(256 * i + lane) // 64, lane % 64], what a reshape leaves, does.
bool loads_contiguously_by_vectors(const Block& block, const Expr& value, const Var& lane, int64_t width) {
  Analyzer analyzer;
  Var vector = var("vector"), part = var("part");
  for (const BlockIter& iter : block.iters) {
    if (iter.var.get() == lane.get()) analyzer.bind_range(vector, floordiv(iter.extent, width));
    analyzer.bind_range(iter.var, iter.extent);
  }
  analyzer.bind_range(part, width);
  Expr split = substitute(value, {{lane.get(), vector * width + part}}, {});
  return loads_contiguously(analyzer.simplify(split), part);
}

/// How many vectors to compute at a time: functions that are long chains of dependent instructions leave the
/// units idle otherwise.
int64_t vectors_at_once(const Expr& value) {
  bool chains = false;
  post_order(value, [&](const NodeRef& node) {
    const IntrinsicCall* call = node.as<IntrinsicCall>();
    chains |= call && call->intrinsic < Intrinsic::kFloor && call->intrinsic != Intrinsic::kSqrt;
  });
  return chains ? 2 : 1;
}

/// Lanes to vectorize the innermost loop with; 1: it cannot be. A row whose length they do not divide ends in
/// a masked vector.
int64_t lanes_for(const Block& block, const For& innermost, const Target& target) {
  Var lane = variable_of(block, innermost);
  const Store* store = block.body.as<Store>();
  if (!lane || !store || !as_int(innermost.extent) || !is_contiguous(store->indices, lane)) return 1;
  int64_t width = row_width(int_value(innermost.extent), target);
  if (width == 1) return 1;
  bool contiguous = loads_contiguously(store->value, lane) ||
                    loads_contiguously_by_vectors(block, store->value, lane, width);
  if (!contiguous) return 1;
  int64_t together = vectors_at_once(store->value), extent = int_value(innermost.extent);
  return extent >= 2 * together * width ? together * width : width;
}

/// Vectorizes the innermost of `loops`, splitting it when it is no single vector; the loop that then is
/// innermost of the rest replaces it.
void vectorize_innermost(Schedule& s, BlockHandle block, std::vector<LoopHandle>& loops,
                         const Target& target) {
  if (loops.empty()) return;
  int64_t width = lanes_for(*s[block], *s[loops.back()], target);
  if (width == 1) return;
  LoopHandle lanes = loops.back();
  loops.pop_back();
  if (int_value(s[lanes]->extent) != width) {
    auto parts = s.split(lanes, {kInferred, width});
    loops.push_back(parts[0]);
    lanes = parts[1];
  }
  s.vectorize(lanes);
}
}  // namespace

bool is_cheap(const Block& block) {
  bool cheap = true;
  int64_t whole = 0;
  post_order(block.body.as<Store>()->value, [&](const NodeRef& node) {
    const Binary* binary = node.as<Binary>();
    cheap &= !node.as<IntrinsicCall>() && !node.as<Select>() &&
             !(binary && (binary->op == BinaryOp::kDiv || binary->op == BinaryOp::kPow));
    const Load* load = node.as<Load>();
    whole += load && std::all_of(block.iters.begin(), block.iters.end(), [&](const BlockIter& iter) {
               return is_int(iter.extent, 1) || any_uses(load->indices, iter.var);
             });
  });
  return cheap && whole <= 1;
}

namespace {
/// The elements of `buffer` that one iteration of `block` reads.
int64_t elements_read(const Block& block, const Buffer& buffer) {
  std::vector<const Load*> distinct;
  post_order(block.body, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer != buffer) return;
    bool known = std::any_of(distinct.begin(), distinct.end(), [&](const Load* other) {
      return std::equal(load->indices.begin(), load->indices.end(), other->indices.begin(),
                        [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
    });
    if (!known) distinct.push_back(load);
  });
  return static_cast<int64_t>(distinct.size());
}

/// Computed where it is used, `block` would be computed again and again, and that takes long: tables, sums of
/// several elements.
bool repeats_work(const Func& func, const Ref<Block>& block) {
  int64_t uses = 0;
  for (const Ref<Block>& consumer : consumers_of(func, block))
    uses += iterations(*consumer) * elements_read(*consumer, block->writes[0].buffer);
  return uses > 2 * iterations(*block) && !is_cheap(*block);
}
}  // namespace

void inline_elementwise(Schedule& s) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const Ref<Block>& block : all_blocks(s.func())) {
      if (!is_injective(*block) || !is_intermediate(s.func(), *block)) continue;
      if (!all_elementwise(consumers_of(s.func(), block)) || repeats_work(s.func(), block)) continue;
      s.compute_inline(s.get_block(block->name));
      changed = true;
      break;
    }
  }
}

std::optional<std::string> epilogue_of(const Schedule& schedule, const Block& reduction) {
  std::vector<Ref<Block>> consumers = consumers_of(schedule.func(), Ref<Block>(&reduction));
  if (consumers.size() != 1 || !is_injective(*consumers[0]) ||
      is_param(schedule.func(), reduction.writes[0].buffer))
    return std::nullopt;
  Schedule trial = schedule;
  std::vector<LoopHandle> loops = trial.get_loops(trial.get_block(reduction.name));
  size_t first = loops.size() - reduction.iters.size(), innermost = first;  // of the spatial loops
  for (size_t i = 0; i < reduction.iters.size(); ++i)
    if (reduction.iters[i].kind != IterKind::kReduce) innermost = first + i;
  try {
    trial.reverse_compute_at(trial.get_block(consumers[0]->name), loops[innermost]);
    return consumers[0]->name;
  } catch (const Error&) {
    return std::nullopt;  // that is the answer
  }
}

BlockHandle stage_accumulators(Schedule& s, BlockHandle block, const std::optional<std::string>& epilogue) {
  if (!epilogue) return s.cache_write(block, 0, Scope::kLocal);
  BlockHandle reader = s.get_block(*epilogue);
  s.set_scope(block, 0, Scope::kLocal);
  return reader;
}

std::vector<BlockHandle> movable_producers(Schedule& s, BlockHandle block) {
  auto follows_reduction = [&](const Ref<Block>& producer) {
    std::vector<Ref<Block>> before = producers_of(s.func(), producer);
    return before.size() == 1 && vector_reduction(before[0]) && epilogue_of(s, *before[0]);
  };
  std::vector<BlockHandle> movable;
  for (const Ref<Block>& producer : producers_of(s.func(), s[block]))
    if (is_injective(*producer) && is_int(producer->predicate, 1) &&
        !is_constant(s.func(), producer->writes[0].buffer) &&
        !is_param(s.func(), producer->writes[0].buffer) && consumers_of(s.func(), producer).size() == 1 &&
        !follows_reduction(producer))
      movable.push_back(s.get_block(producer->name));
  return movable;
}

void inline_producers(Schedule& s, BlockHandle block) {
  for (const Ref<Block>& producer : producers_of(s.func(), s[block]))
    if (is_injective(*producer) && !is_param(s.func(), producer->writes[0].buffer) &&
        consumers_of(s.func(), producer).size() == 1)
      s.compute_inline(s.get_block(producer->name));
}

bool pays_in_parallel(int64_t iterations, const Target& target) {
  constexpr double kIterationsPerCycle = 8;  // of code that waits for data half of the time
  const double saved = static_cast<double>(iterations) / kIterationsPerCycle * (1 - 1.0 / target.cores);
  return target.cores > 1 && saved >= machine_of(target).launch_cycles;
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
  if (schedule_transposed(s, block, target)) return;
  std::vector<LoopHandle> loops = s.get_loops(block);
  int64_t work = iterations(*s[block]);
  vectorize_innermost(s, block, loops, target);
  if (pays_in_parallel(work, target)) run_parallel(s, loops, target);
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
      done.merge(schedule_tiled_reduction(s, *reduction, target, {Decide::kHeuristic}).done);
    } else if (is_reduction(*block)) {
      done.merge(schedule_scalar_reduction(s, handle, target));
    }
  }
}

}  // namespace lathe::schedule
