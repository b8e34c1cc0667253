// A variable of a block as two: groups of neighbours, and the place within a group. What loops are split for
// is order; a variable is split for what the block itself says of neighbours: the terms of a dot product,
// elements that divisions by the length of a group find.
#include "core/arith/simplify.h"
#include "schedules/anatomy.h"
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Indices in terms of the new variables are simple again: (ko * 4 + ki) // 4 is ko.
Stmt simplified(const Block& block) {
  Analyzer context;
  for (const BlockIter& iter : block.iters) context.bind_range(iter.var, iter.extent);
  const Store& update = *block.body.as<Store>();
  std::vector<Expr> indices;
  for (const Expr& index : update.indices) indices.push_back(context.simplify(index));
  return store(update.buffer, indices, context.simplify_value(update.value));
}

void split_variable(Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  auto block = path.back().cast<Block>();
  int64_t number = a.number(1), factor = a.number(2);
  if (number < 0 || number >= static_cast<int64_t>(block->iters.size()))
    a.fail("variable {} of the {} of block `{}`", number, block->iters.size(), block->name);
  const BlockIter whole = block->iters[static_cast<size_t>(number)];
  const bool reduces = whole.kind == IterKind::kReduce;
  if ((!reduces && !is_injective(*block)) || !block->body.as<Store>())
    a.fail("variable {} of block `{}` is no variable of a reduction", whole.var->name, block->name);
  if (!as_int(whole.extent)) a.fail("variable {} has no constant extent", whole.var->name);
  if (factor < 1 || int_value(whole.extent) % factor != 0)
    a.fail("factor is {}, must divide the extent {} of {}", factor, int_value(whole.extent), whole.var->name);
  Var group = var(whole.var->name + "o"), place = var(whole.var->name + "i"), group_loop = var(group->name),
      place_loop = var(place->name);
  std::vector<std::pair<Var, Expr>> loops;
  Stmt taken_apart = changed(block, [&](Block& copy) {
    copy.iters[static_cast<size_t>(number)] = {group, int_value(whole.extent) / factor, whole.kind,
                                               group_loop};
    // A dot product's terms are the last variable (anatomy.h); of elements those of a group are neighbours.
    const auto at = reduces ? copy.iters.end() : copy.iters.begin() + number + 1;
    copy.iters.insert(at, {place, factor, whole.kind, place_loop});
    copy.body = substitute(copy.body, {{whole.var.get(), Expr(group) * factor + place}}, {});
    copy.body = simplified(copy);
    for (const BlockIter& iter : copy.iters) loops.emplace_back(iter.value.cast<VarNode>(), iter.extent);
    declare_accesses(copy);
  });
  a.func = with_algorithm(a, *block, nest(loops, taken_apart), {});
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"split_variable",
     "for i, k in 0..n: block b(k): c[i] += a[i, k]  ->  for i, ko in 0..n/f: for ki in 0..f: block b(ko, "
     "ki): "
     "c[i] += a[i, ko*f + ki], for the given variable of the block; the place in the group is the last one. "
     "Where all are spatial it comes next: for i in 0..n: c[i] = a[i % f]  ->  for io in 0..n/f: for ii in "
     "0..f: c[io*f + ii] = a[ii]",
     {{kBlock, kInt, kInt}},
     split_variable},
};
}  // namespace

std::span<const Primitive> split_variable_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
