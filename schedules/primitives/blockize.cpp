// Making a nest of loops one block, whose iterations are the tiles: what a tensor instruction computes, say.
#include "core/arith/one_to_one.h"
#include "core/tir/regions.h"
#include "schedules/coverage.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// A variable's binding taken apart: value = outer * size + inner, where `inner` runs over 0 .. size-1 with
/// the loops of the tile and `outer` does not change with them.
struct Parts {
  Expr outer, inner;
  int64_t size = 1;
};

/// Takes the binding of `iter` apart. The loops of the tile that move it must be digits of one number, inner
/// = sum of loop * step: as many combinations as values from 0 to the largest, each giving another one.
Parts parts_of(const Application& a, const Block& block, const BlockIter& iter, const Domain& tile,
               const Analyzer& context) {
  std::vector<Var> vars;
  for (const auto& [v, extent] : tile) vars.push_back(v);
  auto form = linear_form(iter.value, vars);
  if (!form || !as_int(iter.extent))
    a.fail("variable {} of block `{}` is not linear in the loops of the tile", iter.var->name, block.name);
  Parts parts{form->rest, 0, 1};
  int64_t values = 1;
  std::vector<Var> digits;
  for (const auto& [v, extent] : tile) {
    int64_t step = form->coefficients[v.get()];
    if (step == 0) continue;
    if (step < 0 || !as_int(extent))
      a.fail("variable {} of block `{}` runs backwards", iter.var->name, block.name);
    if (int_value(extent) < 1) a.fail("loop {} of the tile is empty", v->name);
    digits.push_back(v);
    parts.inner = parts.inner + Expr(v) * step;
    // The largest value of the digits so far, and one.
    parts.size += step * (int_value(extent) - 1);
    values *= int_value(extent);
  }
  parts.outer = context.simplify(floordiv(form->rest, parts.size));
  // The outer part has to be a multiple of the tile, and the extent too: else tiles would overlap, or one
  // would stick out.
  bool aligned = context.can_prove_equal(parts.outer * parts.size, form->rest) &&
                 int_value(iter.extent) % parts.size == 0;
  if (values != parts.size || !aligned || !one_to_one({&parts.inner, 1}, digits, context))
    a.fail("variable {} of block `{}` takes {} values in the tile, which are no aligned range",
           iter.var->name, block.name, values);
  return parts;
}

/// The tile's loops, from `loop` down to the one block they hold.
Domain tile_loops(const Application& a, const Stmt& loop) {
  Domain tile;
  Stmt body = loop;
  for (; body.as<For>(); body = body.as<For>()->body)
    tile.emplace_back(body.as<For>()->var, body.as<For>()->extent);
  if (!body.as<Block>())
    a.fail("loop {} holds several statements, must hold one block", loop.as<For>()->var->name);
  return tile;
}

void blockize(Application& a) {
  Path loop_path = a.loop(0);
  Stmt loop = loop_path.back();
  Domain tile = tile_loops(a, loop);
  // tile_loops() has seen to it that it is the only one.
  auto block = blocks_in(loop)[0];
  if (!is_int(block->predicate, 1))
    a.fail("block `{}` has a predicate; its tiles are not all alike", block->name);
  Analyzer context = analyzer_at(path_to(a.func, block));
  Block outer;
  outer.name = fresh_block_name(a.func, block->name + "_tile");
  VarMap bindings;
  std::vector<Expr> inner_values;
  for (const BlockIter& iter : block->iters) {
    Parts parts = parts_of(a, *block, iter, tile, context);
    Expr tiles = int_value(iter.extent) / parts.size;
    if (iter.kind == IterKind::kReduce && block->init && !is_int(tiles, 1))
      a.fail("the reduction of block `{}` continues in other tiles; decompose_reduction first", block->name);
    if (iter.kind == IterKind::kReduce && is_int(tiles, 1)) {  // wholly inside: no reduction of the tile
      inner_values.push_back(parts.inner);
    } else {
      Var v = var(iter.var->name);
      outer.iters.push_back({v, tiles, iter.kind, parts.outer});
      inner_values.push_back(Expr(v) * parts.size + parts.inner);
    }
    bindings[iter.var.get()] = inner_values.back();
  }
  // Regions of the outer block are in terms of its variables, with the tile's loops run through.
  Analyzer inside = with_domain(with_domain({}, domain_of(outer.iters)), tile);
  auto relaxed = [&](const std::vector<Region>& regions) {
    std::vector<Region> boxes;
    for (const Region& region : regions)
      boxes.push_back(relax(tir::substitute(region, bindings), tile, inside));
    return boxes;
  };
  outer.reads = relaxed(block->reads);
  outer.writes = relaxed(block->writes);
  Stmt inner = changed(block, [&](Block& copy) {
    for (size_t i = 0; i < copy.iters.size(); ++i) copy.iters[i].value = inside.simplify(inner_values[i]);
  });
  outer.body = replace(loop, block, inner);
  a.give_block(outer.name);
  a.func = replace(a.func, loop, seal(std::make_unique<Block>(std::move(outer))));
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"blockize",
     "for i: for j in 0..n: block b(v = i*n + j)  ->  for i: block b_tile(w = i): for j in 0..n: block b(v = "
     "w*n + j)",
     {{kLoop}},
     blockize},
};
}  // namespace

std::span<const Primitive> blockize_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
