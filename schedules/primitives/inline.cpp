// Merging element-wise blocks into the blocks that use or feed them.
#include <algorithm>

#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The single store of an element-wise block, each index a different spatial variable (or 0 of extent 1).
struct PointStore {
  Ref<Store> store;
  std::vector<const VarNode*> vars;  // by dimension; null for a constant index
};

/// `vars` of indices that are all different variables of the block, covering all of its iterations.
std::optional<std::vector<const VarNode*>> index_vars(const Block& block, const std::vector<Expr>& indices) {
  // Variables of one value need no index.
  std::map<const VarNode*, int64_t> unused;
  for (const BlockIter& iter : block.iters)
    if (!is_int(iter.extent, 1)) unused[iter.var.get()] = 1;
  std::vector<const VarNode*> vars;
  for (const Expr& index : indices) {
    const VarNode* v = index.as<VarNode>();
    bool once = v && unused.erase(v);
    bool trivial = is_int(index, 0);
    for (const BlockIter& iter : block.iters) trivial |= v && iter.var.same_as(v) && is_int(iter.extent, 1);
    if (!once && !trivial) return std::nullopt;
    vars.push_back(v);
  }
  if (!unused.empty()) return std::nullopt;
  return vars;
}

/// Indices with v // n, v % n in neighbouring dimensions, the latter of extent n, as one: v.
std::vector<Expr> with_joined_parts(const std::vector<Expr>& indices, const Buffer& buffer) {
  std::vector<Expr> joined;
  for (size_t d = 0; d < indices.size(); ++d) {
    joined.push_back(indices[d]);
    const Binary* high = indices[d].as<Binary>();
    if (!high || high->op != BinaryOp::kFloorDiv || d + 1 == indices.size()) continue;
    bool parts = structural_equal(indices[d + 1], floormod(high->a, high->b)) &&
                 prove_equal(buffer->shape[d + 1], high->b);
    if (parts) joined.back() = high->a, ++d;
  }
  return joined;
}

/// Throws Error unless the block assigns one element an iteration.
void require_assignment(const Application& a, const Block& block) {
  const Store* store = block.body.as<Store>();
  if (!store || block.init) a.fail("block `{}` is no single assignment of an element", block.name);
  for (const BlockIter& iter : block.iters)
    if (iter.kind != IterKind::kSpatial)
      a.fail("variable {} of block `{}` is {}, all must be spatial", iter.var->name, block.name,
             spelling(iter.kind));
  if (!is_int(block.predicate, 1))
    a.fail("block `{}` has a predicate; inline before splitting its loops", block.name);
}

[[noreturn]] void fail_at_indices(const Application& a, const Block& block) {
  a.fail("block `{}` does not write one element an iteration, indexed by its own variables", block.name);
}

PointStore point_store(const Application& a, const Block& block) {
  require_assignment(a, block);
  auto store = block.body.cast<Store>();
  auto vars = index_vars(block, store->indices);
  if (!vars) fail_at_indices(a, block);
  return {store, *vars};
}

/// The same, where a variable may also index two dimensions by its quotient and remainder.
Ref<Store> divided_point_store(const Application& a, const Block& block) {
  require_assignment(a, block);
  auto store = block.body.cast<Store>();
  if (!index_vars(block, with_joined_parts(store->indices, store->buffer))) fail_at_indices(a, block);
  return store;
}

/// A second writer's elements would be lost with the buffer.
void require_single_writer(const Application& a, const Block& block, const Buffer& buffer) {
  for (const Ref<Block>& other : all_blocks(a.func))
    if (other->name != block.name && writes_buffer(*other, buffer.get()))
      a.fail("buffer {} is written by block `{}` too", buffer->name, other->name);
}

/// `node` with loads of `buffer` replaced.
NodeRef replace_loads(const NodeRef& node, const Buffer& buffer, FunctionRef<Expr(const Load&)> value) {
  if (!node) return node;
  return rewrite(node, [&](const NodeRef& each) -> NodeRef {
    const Load* load = each.as<Load>();
    return load && load->buffer == buffer ? NodeRef(value(*load)) : each;
  });
}

/// Removes the allocation, in whichever block it stands.
Func without_buffer(const Func& func, const Buffer& buffer) {
  Func result = func;
  for (const Ref<Block>& block : all_blocks(func))
    if (std::count(block->allocs.begin(), block->allocs.end(), buffer))
      result = change_block(result, block->name, [&](Block& copy) { std::erase(copy.allocs, buffer); });
  return with_body(
      result, changed(result->body.cast<Block>(), [&](Block& root) { std::erase(root.allocs, buffer); }));
}

void compute_inline(Application& a) {
  auto block = a.block(0).back().cast<Block>();
  PointStore point = point_store(a, *block);
  const Buffer& buffer = point.store->buffer;
  if (is_param(a.func, buffer))
    a.fail("block `{}` writes the output {}; it must stay", block->name, buffer->name);
  require_single_writer(a, *block, buffer);
  if (reads_buffer(*block, buffer.get())) a.fail("block `{}` reads what it writes", block->name);
  std::vector<Ref<Block>> consumers = consumers_of(a.func, block);
  if (consumers.empty()) a.fail("nothing reads what block `{}` writes", block->name);
  // The element's variables are the load's indices, dimension by dimension; variables of one value are 0.
  auto value_at = [&](const Load& load) {
    VarMap at;
    for (const BlockIter& iter : block->iters) at[iter.var.get()] = 0;
    for (size_t d = 0; d < point.vars.size(); ++d)
      if (point.vars[d]) at[point.vars[d]] = load.indices[d];
    return substitute(point.store->value, at, BufferMap{});
  };
  Func func = replace(a.func, block, nullptr);
  // By name: each change makes new nodes, and the old consumers are of the program before.
  for (const Ref<Block>& consumer : consumers) {
    if (!blocks_in(consumer->body).empty())
      a.fail("block `{}` holds blocks; inline before blockize", consumer->name);
    func = change_block(func, consumer->name, [&](Block& copy) {
      copy.body = replace_loads(copy.body, buffer, value_at).cast<StmtNode>();
      copy.init = replace_loads(copy.init, buffer, value_at).cast<StmtNode>();
      declare_accesses(copy);
    });
  }
  a.func = without_buffer(func, buffer);
}

/// The producer of the one intermediate `block` reads that no other block reads, written element by element.
Ref<Block> sole_producer(const Application& a, const Ref<Block>& block) {
  for (const Ref<Block>& producer : producers_of(a.func, block)) {
    if (producer->writes.size() != 1 || is_param(a.func, producer->writes[0].buffer)) continue;
    if (consumers_of(a.func, producer).size() == 1) return producer;
  }
  a.fail("no producer of block `{}` has it as its only consumer", block->name);
}

/// What `block` reads besides `producer`'s result is complete before `producer`, where the block moves.
void require_inputs_before(const Application& a, const Ref<Block>& block, const Ref<Block>& producer) {
  std::vector<Ref<Block>> order = all_blocks(a.func);
  auto place = std::find(order.begin(), order.end(), producer);
  for (const Ref<Block>& other : producers_of(a.func, block))
    if (other != producer && std::find(order.begin(), place, other) == place)
      a.fail("block `{}` reads what block `{}` computes after block `{}`", block->name, other->name,
             producer->name);
}

/// The block runs in the loops of its producer, one element an iteration: each variable becomes the index at
/// which the producer writes.
void reverse_compute_inline(Application& a) {
  auto block = a.block(0).back().cast<Block>();
  point_store(a, *block);
  Ref<Block> producer = sole_producer(a, block);
  Ref<Store> source = divided_point_store(a, *producer);
  require_inputs_before(a, block, producer);
  const Buffer& buffer = source->buffer;
  require_single_writer(a, *producer, buffer);
  VarMap at;
  for (const BlockIter& iter : block->iters) at[iter.var.get()] = 0;
  post_order(block->body.as<Store>()->value, [&](const NodeRef& node) {
    const Load* load = node.as<Load>();
    if (!load || load->buffer != buffer) return;
    auto vars = index_vars(*block, load->indices);
    if (!vars) a.fail("block `{}` does not read {} element by element", block->name, buffer->name);
    for (size_t d = 0; d < vars->size(); ++d) {
      const VarNode* own = (*vars)[d];
      // Elements that the producer computes and the block does not would be stored where there is no place
      // for them.
      if (!prove_equal(own ? extent_of(*block, own) : Expr(1), buffer->shape[d]))
        a.fail("block `{}` does not use all of {}", block->name, buffer->name);
      if (!own) continue;
      // A second load has to put the variable at the same place, or the element would be needed before it is
      // computed.
      Expr& known = at[own];
      if (!is_int(known, 0) && !structural_equal(known, source->indices[d]))
        a.fail("block `{}` reads {} at several places", block->name, buffer->name);
      known = source->indices[d];
    }
  });
  auto moved = replace_loads(substitute(block->body, at), buffer, [&](const Load&) { return source->value; });
  Func func = replace(a.func, block, nullptr);
  func = change_block(func, producer->name, [&](Block& copy) {
    copy.body = moved.cast<StmtNode>();
    declare_accesses(copy);
  });
  a.func = without_buffer(func, buffer);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"compute_inline", "b[i] = f(i); c[j] = g(b[h(j)])  ->  c[j] = g(f(h(j)))", {{kBlock}}, compute_inline},
    {"reverse_compute_inline",
     "b[i] = f(i); c[j] = g(b[j])  ->  c[i] = g(f(i)), in the loops of b, which i may index as b[i / n, i % "
     "n] too",
     {{kBlock}},
     reverse_compute_inline},
};
}  // namespace

std::span<const Primitive> inline_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
