// Padding without a copy: what stands inside is written where it is computed, the border apart; or it is
// computed without a border, so that the border can be inlined. And sums that pass over padding.
#include <algorithm>

#include "core/tir/regions.h"
#include "schedules/padded_image.h"
#include "schedules/primitives/algorithm.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Values [low, high) of a variable.
struct Part {
  Expr low = 0, high = 0;
};
struct Padding {
  Ref<Block> block;
  Ref<Store> store;
  Expr condition, inside_value, border_value;
  std::vector<Part> inside;  // by the block's variables
};

/// Narrows what is inside by `condition`, a bound of one variable; false when it is none.
bool narrow(Padding& p, const Expr& condition) {
  const Binary* compare = condition.as<Binary>();
  if (!compare || (compare->op != BinaryOp::kLe && compare->op != BinaryOp::kLt)) return false;
  bool strict = compare->op == BinaryOp::kLt;
  auto is_bound = [&](const Expr& e) {
    return std::none_of(p.block->iters.begin(), p.block->iters.end(),
                        [&](const BlockIter& iter) { return uses_var(e, iter.var.get()); });
  };
  for (size_t i = 0; i < p.block->iters.size(); ++i) {
    const VarNode* v = p.block->iters[i].var.get();
    if (compare->b.same_as(v) && is_bound(compare->a)) {
      p.inside[i].low = simplify(max(p.inside[i].low, compare->a + (strict ? 1 : 0)));
      return true;
    }
    if (compare->a.same_as(v) && is_bound(compare->b)) {
      p.inside[i].high = simplify(min(p.inside[i].high, compare->b + (strict ? 0 : 1)));
      return true;
    }
  }
  return false;
}

Padding padding_of(const Application& a) {
  Path path = a.block(0);
  require_unscheduled(a, path);
  Padding p;
  p.block = path.back().cast<Block>();
  const std::string& name = p.block->name;
  const Select* select = nullptr;
  if (p.block->body.as<Store>()) {
    p.store = p.block->body.cast<Store>();
    select = p.store->value.as<Select>();
  }
  if (!select || p.block->init ||
      !loads_nothing_else(select->if_false, constant(select->if_false.dtype(), 0)))
    a.fail("block `{}` does not choose between a value and a constant", name);
  p.inside_value = select->if_true;
  p.border_value = select->if_false;
  for (size_t i = 0; i < p.block->iters.size(); ++i) {
    const BlockIter& iter = p.block->iters[i];
    // Variable i is dimension i: then the box of values is the box that is written, and the border is all
    // outside of it.
    bool plain = iter.kind == IterKind::kSpatial && i < p.store->indices.size() &&
                 p.store->indices[i].same_as(iter.var.get()) && !uses_var(p.border_value, iter.var.get());
    if (!plain || p.block->iters.size() != p.store->indices.size())
      a.fail("block `{}` does not write each dimension at a variable of its own", name);
    p.inside.push_back({0, iter.extent});
  }
  // Bounds that always hold disappear here, so that a constant is left when there is nothing to decompose.
  p.condition = with_domain({}, domain_of(p.block->iters)).simplify(select->condition);
  if (as_int(p.condition))
    a.fail("block `{}` has nothing {} its border", name, int_value(p.condition) ? "outside" : "inside");
  for (const Expr& condition : conjuncts(p.condition))
    if (!narrow(p, condition)) a.fail("block `{}` chooses by more than bounds of its variables", name);
  for (const Part& part : p.inside)
    if (is_int(simplify(less(part.low, part.high)), 0))
      a.fail("block `{}` has nothing inside its border", name);
  return p;
}

/// for j in 0..size of the box: out[j + low] = value(j + low), or `apart`[j] when there is such a buffer.
Stmt inner_nest(const Padding& p, const std::string& name, const Buffer& apart = {}) {
  Block block;
  block.name = name;
  std::vector<std::pair<Var, Expr>> loops;
  std::vector<Expr> indices, own;
  // The old variables, by the new ones: moved by the border.
  VarMap places;
  Analyzer analyzer;
  for (size_t i = 0; i < p.inside.size(); ++i) {
    const std::string& old = p.block->iters[i].var->name;
    Var v = var(old), loop = var(old + "_in");
    Expr extent = simplify(p.inside[i].high - p.inside[i].low);
    block.iters.push_back({v, extent, IterKind::kSpatial, loop});
    loops.emplace_back(loop, extent);
    analyzer.bind_range(v, extent);
    own.push_back(v);
    indices.push_back(analyzer.simplify(v + p.inside[i].low));
    places[p.block->iters[i].var.get()] = indices.back();
  }
  block.body = store(apart ? apart : p.store->buffer, apart ? own : indices,
                     analyzer.simplify_value(substitute(p.inside_value, places, {})));
  declare_accesses(block);
  return nest(loops, seal(std::make_unique<Block>(block)));
}

/// for i where the condition does not hold: out[i] = constant.
Stmt border_nest(const Padding& p, const std::string& name) {
  std::vector<std::pair<Var, Expr>> loops;
  Stmt border = changed(p.block, [&](Block& copy) {
    copy.name = name;
    copy.predicate = logical_not(p.condition);
    copy.body = store(p.store->buffer, p.store->indices, p.border_value);
    for (BlockIter& iter : copy.iters) {
      loops.emplace_back(var(iter.var->name + "_border"), iter.extent);
      iter.value = loops.back().first;
      // A predicate speaks of loops, the condition of the block's variables.
      copy.predicate = substitute(copy.predicate, {{iter.var.get(), iter.value}});
    }
    declare_accesses(copy);
  });
  return nest(loops, border);
}

void decompose_padding(Application& a) {
  Padding p = padding_of(a);
  std::string border = fresh_block_name(a.func, p.block->name + "_border"),
              inner = fresh_block_name(a.func, p.block->name + "_inside");
  // Both nests write the same buffer at different elements, so their order does not matter.
  Stmt parts = seq({border_nest(p, border), inner_nest(p, inner)});
  a.func = replace(a.func, top_statement(a.block(0)), parts);
  a.give_block(border);
  a.give_block(inner);
}

void separate_padding(Application& a) {
  Padding p = padding_of(a);
  std::vector<Expr> shape, places;
  for (size_t i = 0; i < p.inside.size(); ++i) {
    shape.emplace_back(p.inside[i].high - p.inside[i].low);
    // The element that is written at index i comes from i less the border before it.
    places.push_back(p.store->indices[i] - p.inside[i].low);
  }
  const Buffer& padded = p.store->buffer;
  Buffer inside = buffer(fresh_buffer_name(a.func, padded->name + "_inside"), shape, padded->dtype);
  std::string name = fresh_block_name(a.func, p.block->name + "_inside");
  Stmt padding = replace(top_statement(a.block(0)), p.block, changed(p.block, [&](Block& copy) {
                           copy.body = store(padded, p.store->indices,
                                             select(p.condition, load(inside, places), p.border_value));
                           declare_accesses(copy);
                         }));
  a.func = with_algorithm(a, *p.block, seq({inner_nest(p, name, inside), padding}), {inside});
  a.give_block(name);
}

/// A bound `small` <= or < `large` as it is for the iterations of a tile that it holds for, if any: with each
/// of the tile's loops where it holds most easily. Null where it is no sum of these.
Expr for_some(const Expr& bound, const std::vector<Ref<For>>& tile) {
  const Binary* compare = bound.as<Binary>();
  if (!compare || (compare->op != BinaryOp::kLe && compare->op != BinaryOp::kLt)) return {};
  std::vector<Var> vars;
  for (const Ref<For>& loop : tile) vars.push_back(loop->var);
  const auto form = linear_form(compare->b - compare->a, vars);
  if (!form) return {};
  VarMap easiest;
  for (const Ref<For>& loop : tile) {
    const auto found = form->coefficients.find(loop->var.get());
    if (found == form->coefficients.end()) continue;
    easiest[loop->var.get()] = found->second > 0 ? loop->extent - 1 : Expr(0);
  }
  return substitute(bound, easiest);
}

/// What has to hold for the sums of a tile to see the image: the loops below the first one of the reduction
/// that are none of it are the tile's.
Expr sight_of_image(const Application& a, const Path& path, const PaddedImage& padded, const Load& load) {
  const Block& block = *path.back().as<Block>();
  const std::vector<Ref<For>> loops = loops_around(path);
  auto is_of = [&](const Ref<For>& loop, IterKind kind) {
    return std::any_of(block.iters.begin(), block.iters.end(), [&](const BlockIter& iter) {
      return iter.kind == kind && uses_var(iter.value, loop->var.get());
    });
  };
  const auto first = std::find_if(loops.begin(), loops.end(),
                                  [&](const Ref<For>& loop) { return is_of(loop, IterKind::kReduce); });
  std::vector<Ref<For>> tile;
  for (auto loop = first; loop != loops.end(); ++loop)
    if (is_of(*loop, IterKind::kSpatial)) tile.push_back(*loop);
  VarMap places;
  for (const BlockIter& iter : block.iters) places[iter.var.get()] = iter.value;
  const Analyzer known = analyzer_at(path);
  Expr sight = imm(kBool, 1);
  for (const Expr& bound : conjuncts(substitute(padded.condition_at(load), places))) {
    const Expr some = for_some(bound, tile);
    auto depends = [&](auto begin, auto end) {
      return some &&
             std::any_of(begin, end, [&](const Ref<For>& loop) { return uses_var(some, loop->var.get()); });
    };
    // What depends on where the tile is alone holds for each tile that has anything to do; what does not
    // depend on that is the same for all, and cropped (crop_sums.h).
    if (depends(first, loops.end()) && depends(loops.begin(), first))
      sight = logical_and(sight, known.simplify(some));
  }
  sight = known.simplify(sight);
  if (as_int(sight)) a.fail("each tile of block `{}` sees some of the image all the time", block.name);
  return sight;
}

void skip_padding(Application& a) {
  const Path path = a.block(0);
  const auto block = path.back().cast<Block>();
  if (block->init)
    a.fail("block `{}` also sets the sums to their first value; decompose_reduction first", block->name);
  for (const Ref<Block>& producer : producers_of(a.func, block)) {
    const auto padded = padded_image(a.func, *producer);
    const Load* load = padded ? neutral_load(*block, *padded) : nullptr;
    if (!load) continue;
    const Expr sight = sight_of_image(a, path, *padded, *load);
    a.func =
        replace(a.func, block,
                changed(block, [&](Block& copy) { copy.predicate = logical_and(copy.predicate, sight); }));
    return;
  }
  a.fail("block `{}` adds up nothing of a padded image", block->name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"decompose_padding",
     "for i: p[i] = select(1 <= i && i < n, f(i), 0)  ->  for i: if (!(1 <= i && i < n)) p[i] = 0; for j in "
     "0..n-1: p[j+1] = f(j+1)",
     {{kBlock}},
     decompose_padding},
    {"separate_padding",
     "for i: p[i] = select(1 <= i && i < n, f(i), 0)  ->  for j in 0..n-1: x[j] = f(j+1); for i: p[i] = "
     "select(1 <= i && i < n, x[i-1], 0)",
     {{kBlock}},
     separate_padding},
    {"skip_padding",
     "for k, j in 0..4: c[j] += p[j + 8 * k] * f[k]  ->  for k, j in 0..4: if (8 <= 3 + 8 * k && 8 * k < n + "
     "8) c[j] += p[j "
     "+ 8 * k] * f[k], where p is 0 at 0..8 and n + 8.. : register tiles pass over terms that are nothing "
     "for all "
     "of their results",
     {{kBlock}},
     skip_padding},
};
}  // namespace

std::span<const Primitive> padding_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
