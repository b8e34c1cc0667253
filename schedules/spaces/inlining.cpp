// Element-wise blocks: into which other blocks they go, and which stay.
#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/support/error.h"
#include "schedules/row_program.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

bool all_elementwise(const std::vector<Ref<Block>>& blocks) {
  for (const Ref<Block>& block : blocks)
    if (!is_injective(*block)) return false;
  return !blocks.empty();
}

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
bool repeats_work(const Ref<Block>& block, const std::vector<Ref<Block>>& consumers) {
  int64_t uses = 0;
  for (const Ref<Block>& consumer : consumers)
    uses += iterations(*consumer) * elements_read(*consumer, block->writes[0].buffer);
  return uses > 2 * iterations(*block) && !is_cheap(*block);
}

/// The nodes of `tree` written out, shared ones once for each use, where a load of `buffer` counts for
/// `value`.
double written_size(const NodeRef& tree, const Buffer& buffer, double value) {
  std::unordered_map<const Node*, double> sizes;
  post_order(tree, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    double size = load && load->buffer == buffer ? value : 1;
    node->for_each_child([&](const NodeRef& child) { size += sizes[child.get()]; });
    sizes[node.get()] = size;
  });
  return sizes[tree.get()];
}

/// Several uses of a value that is long already: x * sigmoid(x), thirty times in a row, would load x 2^30
/// times.
bool grows_too_far(const Ref<Block>& block, const std::vector<Ref<Block>>& consumers) {
  constexpr double kNodes = 2000;
  const Buffer& buffer = block->writes[0].buffer;
  const double value = written_size(block->body.as<Store>()->value, buffer, 1);
  double before = 0, after = 0;
  for (const Ref<Block>& consumer : consumers) {
    before += written_size(consumer->body, buffer, 1);
    after += written_size(consumer->body, buffer, value);
  }
  return after > kNodes && after > before + value;
}

/// The divisions in expressions written out, shared ones once for each use.
class Divisions {
 public:
  /// Of all below `root`; a variable counts for what `inside` has of it.
  explicit Divisions(const NodeRef& root, const std::map<const Node*, double>& inside = {}) {
    post_order(root, [&](const NodeRef& node) {
      const Binary* binary = node.as<Binary>();
      const auto known = inside.find(node.get());
      double count = known == inside.end() ? 0 : known->second;
      count += binary && (binary->op == BinaryOp::kFloorDiv || binary->op == BinaryOp::kFloorMod);
      node->for_each_child([&](const NodeRef& child) { count += counts_[child.get()]; });
      counts_[node.get()] = count;
      if (const Load* load = node.as<Load>())
        for (const Expr& index : load->indices) most_of_index_ = std::max(most_of_index_, in(index));
    });
  }
  double in(const Expr& e) const { return counts_.at(e.get()); }
  /// The most that one index of a load has.
  double most_of_index() const { return most_of_index_; }

 private:
  std::unordered_map<const Node*, double> counts_;
  double most_of_index_ = 0;
};

/// Each index into a tensor that is reshaped has all indices of the result in it, so those of reshapes one in
/// the other grow like powers of the rank. An element is found sooner in memory then, and what the simplifier
/// and the spaces look at stays short.
bool divides_too_often(const Ref<Block>& block, const std::vector<Ref<Block>>& consumers) {
  constexpr double kMost = 16;  // two reshapes of six dimensions have fewer
  const Store& store = *block->body.as<Store>();
  const double own = Divisions(store.value).most_of_index();
  if (own == 0) return false;
  bool too_often = false;
  for (const Ref<Block>& consumer : consumers) {
    const Divisions outside(consumer->body);
    post_order(consumer->body, [&](const NodeRef& node) {
      const Load* load = node.as<Load>();
      if (too_often || !load || load->buffer != store.buffer) return;
      std::map<const Node*, double> inside;
      for (size_t d = 0; d < store.indices.size(); ++d)
        if (store.indices[d].as<VarNode>()) inside[store.indices[d].get()] = outside.in(load->indices[d]);
      const double inlined = Divisions(store.value, inside).most_of_index();
      too_often = inlined > kMost && inlined > own;
    });
  }
  return too_often;
}
}  // namespace

bool is_used_once(const Func& func, const Ref<Block>& block, const std::vector<Ref<Block>>& consumers) {
  if (!is_injective(*block) || !is_intermediate(func, *block) || divides_too_often(block, consumers))
    return false;
  return !consumers.empty() && std::all_of(consumers.begin(), consumers.end(), [&](const Ref<Block>& user) {
    return iterations(*user) <= iterations(*block);
  });
}

bool inline_terms(Schedule& s) {
  bool inlined = false;
  const Ref<Block> reduction = dominant_reduction(s.func());
  if (!reduction) return false;
  for (const Ref<Block>& terms : producers_of(s.func(), reduction)) {
    const std::vector<Ref<Block>> consumers = consumers_of(s.func(), terms);
    if (!is_used_once(s.func(), terms, consumers) || consumers.size() != 1) continue;
    s.compute_inline(s.get_block(terms->name));
    inlined = true;
  }
  return inlined;
}

/// One block at a time, until none is left: each change makes new nodes, and may make its neighbours
/// inlinable.
void inline_elementwise(Schedule& s, const Stays& stays) {
  // With the users they were refused with: asked about again once either is another node.
  std::unordered_map<Ref<Block>, std::vector<Ref<Block>>> refused;
  const auto goes = [&](const Ref<Block>& block, const std::vector<Ref<Block>>& consumers) {
    return is_injective(*block) && is_intermediate(s.func(), *block) && all_elementwise(consumers) &&
           !repeats_work(block, consumers) && !grows_too_far(block, consumers) &&
           !divides_too_often(block, consumers) && !(stays && stays(s, block));
  };
  for (bool changed = true; changed;) {
    changed = false;
    const Readers readers(s.func());
    for (const Ref<Block>& block : all_blocks(s.func())) {
      const std::vector<Ref<Block>> consumers = readers.consumers_of(block);
      auto before = refused.find(block);
      if (before != refused.end() && before->second == consumers) continue;
      if (!goes(block, consumers)) {
        refused[block] = consumers;
        continue;
      }
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
  // Whether the block can follow is what reverse_compute_at finds out: it is tried on a copy, at the
  // innermost spatial loop, where a tile of one result would end.
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
  // Accumulators are local once their reduction is scheduled, and what reads them ends its tiles.
  auto ends_tiles = [](const Block& producer) {
    return std::any_of(producer.reads.begin(), producer.reads.end(),
                       [](const Region& read) { return read.buffer->scope == Scope::kLocal; });
  };
  auto follows_reduction = [&](const Ref<Block>& producer) {
    std::vector<Ref<Block>> before = producers_of(s.func(), producer);
    return before.size() == 1 && vector_reduction(before[0]) && epilogue_of(s, *before[0]);
  };
  std::vector<BlockHandle> movable;
  for (const Ref<Block>& producer : producers_of(s.func(), s[block]))
    if (is_injective(*producer) && is_int(producer->predicate, 1) &&
        !is_constant(s.func(), producer->writes[0].buffer) &&
        !is_param(s.func(), producer->writes[0].buffer) && consumers_of(s.func(), producer).size() == 1 &&
        !ends_tiles(*producer) && !follows_reduction(producer))
      movable.push_back(s.get_block(producer->name));
  return movable;
}

void inline_producers(Schedule& s, BlockHandle block) {
  for (const Ref<Block>& producer : producers_of(s.func(), s[block]))
    if (is_injective(*producer) && !is_param(s.func(), producer->writes[0].buffer) &&
        consumers_of(s.func(), producer).size() == 1)
      s.compute_inline(s.get_block(producer->name));
}

namespace {
/// `next` is element-wise, in the same order of dimensions.
bool continues(const Block& result, const Block& next) {
  const Store* store = next.body.as<Store>();
  const Buffer& buffer = result.writes[0].buffer;
  if (!is_injective(next) || next.iters.size() != result.iters.size()) return false;
  bool same = store->indices.size() == buffer->shape.size() && next.iters.size() == store->indices.size();
  for (size_t d = 0; same && d < store->indices.size(); ++d)
    same = store->indices[d].same_as(next.iters[d].var.get()) &&
           structural_equal(next.iters[d].extent, buffer->shape[d]);
  post_order(store->value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    for (size_t d = 0; same && load && load->buffer == buffer && d < load->indices.size(); ++d)
      same = load->indices[d].same_as(store->indices[d].get()) ||
             (is_int(load->indices[d], 0) && is_int(buffer->shape[d], 1));
  });
  return same;
}
}  // namespace

BlockHandle join_consumer(Schedule& s, BlockHandle result) {
  std::vector<Ref<Block>> consumers = consumers_of(s.func(), s[result]);
  if (consumers.size() != 1 || !continues(*s[result], *consumers[0])) return result;
  BlockHandle next = s.get_block(consumers[0]->name);
  s.compute_inline(result);
  return next;
}

}  // namespace lathe::schedule
