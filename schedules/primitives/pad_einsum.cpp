// Whole vectors and tiles of extents that are no multiple of them.
#include <algorithm>

#include "core/tir/builder.h"
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// How far each variable of the block runs, and ran.
struct Padding {
  Ref<Block> block;
  std::map<const VarNode*, std::pair<int64_t, int64_t>> padded;  // from, to; those that change
};

/// Whether `e` is 0 where everything it loads at `v` is.
bool vanishes(const Expr& e, const VarNode* v) {
  if (const Cast* cast = e.as<Cast>()) return vanishes(cast->value, v);
  const Binary* product = e.as<Binary>();
  if (product && product->op == BinaryOp::kMul) return vanishes(product->a, v) || vanishes(product->b, v);
  return e.as<Load>() && uses_var(e, v);
}

/// Terms beyond the extent of a reduction variable are added like all others, so they have to be 0: a sum, of
/// products one factor of which is loaded at the variable and is 0 there.
void require_neutral(const Application& a, const Block& block, const BlockIter& iter) {
  const Store& update = *block.body.as<Store>();
  const Binary* sum = update.value.as<Binary>();
  if (!accumulates(update) || sum->op != BinaryOp::kAdd || !vanishes(sum->b, iter.var.get()))
    a.fail("block `{}` does not sum products of what it loads at {}", block.name, iter.var->name);
}

Padding padding_of(const Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  Padding p{path.back().cast<Block>(), {}};
  const Block& block = *p.block;
  const Store* update = block.body.as<Store>();
  if (!update) a.fail("block `{}` is no single store", block.name);
  if (a.size() != block.iters.size() + 1)
    a.fail("{} multiples for the {} variables of block `{}`", a.size() - 1, block.iters.size(), block.name);
  for (size_t i = 0; i < block.iters.size(); ++i) {
    const BlockIter& iter = block.iters[i];
    const int64_t multiple = a.number(i + 1);
    if (multiple < 1 || multiple > 1 << 16) a.fail("multiple is {}, must be from 1 to 65536", multiple);
    if (multiple == 1) continue;
    if (!as_int(iter.extent)) a.fail("variable {} has no constant extent", iter.var->name);
    const int64_t extent = int_value(iter.extent);
    // A multiple of 1 leaves the variable as it is.
    if (extent % multiple == 0) continue;
    if (iter.kind == IterKind::kReduce) require_neutral(a, block, iter);
    if (iter.kind == IterKind::kOpaque) a.fail("variable {} is opaque", iter.var->name);
    p.padded[iter.var.get()] = {extent, (extent + multiple - 1) / multiple * multiple};
  }
  if (p.padded.empty()) a.fail("block `{}` has whole multiples already", block.name);
  // Where the result is indexed by a variable alone, what sticks out has a place of its own, behind the
  // others. Without an index it would be stored over them, save for a term of a sum.
  for (const BlockIter& iter : block.iters) {
    bool alone = iter.kind == IterKind::kReduce;
    bool mixed = false;
    for (const Expr& index : update->indices) {
      alone |= index == iter.var;
      mixed |= index != iter.var && uses_var(index, iter.var.get());
    }
    if (p.padded.count(iter.var.get()) && (mixed || !alone))
      a.fail("block `{}` does not write at variable {} alone", block.name, iter.var->name);
  }
  return p;
}

/// The load has an element for each value of this variable beyond its old extent too: what results from it
/// sticks out as well, and nobody reads that. A term of a sum would be added to what is read.
bool has_room(const Load& load, const BlockIter& iter, int64_t extent) {
  if (iter.kind != IterKind::kSpatial) return false;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    const int64_t* room = as_int(load.buffer->shape[d]);
    if (uses_var(load.indices[d], iter.var.get()) &&
        !(load.indices[d] == iter.var && room && *room >= extent))
      return false;
  }
  return true;
}

/// Loads outside the old extents give 0.
Expr within_extents(const Padding& p, const Expr& value, const Buffer& written) {
  return rewrite(value,
                 [&](const NodeRef& node) -> NodeRef {
                   const Load* l = node.as<Load>();
                   // The accumulator itself has room for what sticks out.
                   if (!l || l->buffer == written) return node;
                   std::vector<Expr> inside;
                   for (const BlockIter& iter : p.block->iters) {
                     auto found = p.padded.find(iter.var.get());
                     bool used = std::any_of(l->indices.begin(), l->indices.end(), [&](const Expr& index) {
                       return uses_var(index, iter.var.get());
                     });
                     if (found != p.padded.end() && used && !has_room(*l, iter, found->second.second))
                       inside.push_back(less(iter.var, found->second.first));
                   }
                   if (inside.empty()) return node;
                   Expr all = inside[0];
                   for (size_t i = 1; i < inside.size(); ++i) all = logical_and(all, inside[i]);
                   return NodeRef(select(all, Expr(node.cast<ExprNode>()), constant(l->dtype, 0)));
                 })
      .cast<ExprNode>();
}

/// The buffer that the block writes, with places for what sticks out.
Buffer padded_buffer(const Application& a, const Padding& p, const Store& update) {
  std::vector<Expr> shape = update.buffer->shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    auto found = p.padded.find(update.indices[d].as<VarNode>());
    if (found != p.padded.end()) shape[d] = found->second.second;
  }
  const Buffer& old = update.buffer;
  return buffer(fresh_buffer_name(a.func, old->name + "_padded"), shape, old->dtype);
}

Stmt padded_nest(const Padding& p, const Buffer& from, const Buffer& to) {
  std::vector<std::pair<Var, Expr>> loops;
  Stmt block = changed(p.block, [&](Block& copy) {
    for (BlockIter& iter : copy.iters) {
      if (auto found = p.padded.find(iter.var.get()); found != p.padded.end())
        iter.extent = found->second.second;
      loops.emplace_back(iter.value.cast<VarNode>(), iter.extent);
    }
    const Store& update = *copy.body.as<Store>();
    copy.body = store(update.buffer, update.indices, within_extents(p, update.value, from));
    copy.body = substitute(copy.body, {}, {{from.get(), to}});
    if (copy.init) copy.init = substitute(copy.init, {}, {{from.get(), to}});
    declare_accesses(copy);
  });
  return nest(loops, block);
}

/// for v in the old extents: c[v] = padded[v]
Stmt valid_part(const std::string& name, const Buffer& padded, const Buffer& c) {
  Block block;
  block.name = name;
  std::vector<std::pair<Var, Expr>> loops;
  std::vector<Expr> indices;
  for (const Expr& extent : c->shape) {
    Var v = var(fmt::format("v{}", loops.size())), loop = var(fmt::format("c{}", loops.size()));
    block.iters.push_back({v, extent, IterKind::kSpatial, loop});
    loops.emplace_back(loop, extent);
    indices.emplace_back(v);
  }
  block.body = store(c, indices, load(padded, indices));
  declare_accesses(block);
  return nest(loops, seal(std::make_unique<Block>(std::move(block))));
}

void pad_einsum(Application& a) {
  Padding p = padding_of(a);
  const Store& update = *p.block->body.as<Store>();
  // False when reduction variables alone are padded: then the result is as large as before, and nothing is to
  // be copied.
  bool spatial = false;
  for (const Expr& index : update.indices) spatial |= p.padded.count(index.as<VarNode>()) > 0;
  for (const Ref<Block>& other : all_blocks(a.func))
    if (spatial && other != p.block && writes_buffer(*other, update.buffer.get()))
      a.fail("buffer {} is written by block `{}` too; pad before decompose_reduction", update.buffer->name,
             other->name);
  Buffer c = update.buffer, padded = spatial ? padded_buffer(a, p, update) : c;
  std::string name = fresh_block_name(a.func, p.block->name + "_valid");
  std::vector<Stmt> stmts{padded_nest(p, c, padded)};
  if (spatial) stmts.push_back(valid_part(name, padded, c));
  a.func = with_algorithm(a, *p.block, seq(std::move(stmts)),
                          spatial ? std::vector<Buffer>{padded} : std::vector<Buffer>{});
  a.give_block(spatial ? name : p.block->name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"pad_einsum",
     "for i in 0..n: c[i] += a[i] * b  ->  for i in 0..ceil(n/p)*p: p[i] += select(i < n, a[i], 0) * b; for "
     "i "
     "in 0..n: c[i] = p[i]; a multiple p for each variable",
     {{kBlock}, kInt},
     pad_einsum},
};
}  // namespace

std::span<const Primitive> pad_einsum_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
