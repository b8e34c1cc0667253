// Splitting a reduction into independent partial ones (Suriana, Adams, Kamil: "Parallel associative
// reductions in Halide", 2017).
#include "schedules/coverage.h"
#include "schedules/primitives/accumulation.h"

namespace lathe::schedule {

using namespace tir;

Accumulation accumulation_of(const Application& a, const Block& block) {
  const Store* update = block.body.as<Store>();
  const Store* init = block.init.as<Store>();
  const Binary* binary = update ? update->value.as<Binary>() : nullptr;
  std::optional<Combiner> combiner;
  if (binary) combiner = combiner_of(binary->op);
  if (!init || !combiner)
    a.fail("block `{}` does not accumulate with sum, product, minimum, maximum, and or or", block.name);
  if (!accumulates(*update) || !structural_equal(init->value, identity_of(*combiner, update->buffer->dtype)))
    a.fail("block `{}` does not accumulate from the neutral element of its operation", block.name);
  return {update->buffer, update->indices, *combiner, binary->b};
}

namespace {
/// Throws Error unless the block accumulates without a predicate, `factored` carries its reduction, and
/// nothing reads the result in the same loops, where it is not added up yet.
void check_shape(const Application& a, const Path& path, const For& factored) {
  const Block& block = *path.back().as<Block>();
  if (!is_int(block.predicate, 1))
    a.fail("block `{}` has a predicate; split its reduction by a divisor of the extent", block.name);
  bool around = false;
  for (const Ref<For>& loop : loops_around(path)) {
    around |= loop->var == factored.var;
    if (carries(block, loop->var, IterKind::kReduce) && carries(block, loop->var, IterKind::kSpatial))
      a.fail("loop {} carries spatial and reduction variables of block `{}`", loop->var->name, block.name);
  }
  if (!around || !carries(block, factored.var, IterKind::kReduce))
    a.fail("loop {} does not carry a reduction of block `{}`", factored.var->name, block.name);
  for (const Ref<Block>& other : blocks_in(top_statement(path)))
    if (other->name != block.name && reads_buffer(*other, block.writes[0].buffer.get()))
      a.fail("block `{}` reads {} in the same loops", other->name, block.writes[0].buffer->name);
}

/// partial[indices, f] = partial[indices, f] (combiner) value, where the loop `factored` runs along f.
Block partial_block(const Path& path, const For& factored, const Accumulation& sum, const Buffer& partial) {
  const Block& block = *path.back().as<Block>();
  Block result;
  VarMap own;      // the original's variables
  VarMap by_loop;  // reduction loops as variables of the new block
  for (const BlockIter& iter : block.iters) {
    if (iter.kind == IterKind::kReduce) continue;
    result.iters.push_back({var(iter.var->name), iter.extent, iter.kind, iter.value});
    own[iter.var.get()] = result.iters.back().var;
  }
  Var f = var(factored.var->name);
  // The factored loop no longer reduces: each of its iterations has a partial result of its own, so it may
  // run in any way.
  result.iters.push_back({f, factored.extent, IterKind::kSpatial, factored.var});
  by_loop[factored.var.get()] = f;
  for (const Ref<For>& loop : loops_around(path)) {
    if (loop->var == factored.var || !carries(block, loop->var, IterKind::kReduce)) continue;
    // Each loop of the reduction becomes a variable of the new block: the old one's variable may mix it with
    // the factored loop.
    result.iters.push_back({var(loop->var->name), loop->extent, IterKind::kReduce, loop->var});
    by_loop[loop->var.get()] = result.iters.back().var;
  }
  for (const BlockIter& iter : block.iters)
    if (iter.kind == IterKind::kReduce) own[iter.var.get()] = substitute(iter.value, by_loop);
  std::vector<Expr> indices;
  for (const Expr& index : sum.indices) indices.push_back(substitute(index, own));
  indices.push_back(f);
  result.init = store(partial, indices, identity_of(sum.combiner, partial->dtype));
  result.body =
      store(partial, indices, combine(sum.combiner, load(partial, indices), substitute(sum.value, own)));
  declare_accesses(result);
  return result;
}

/// out[indices] = out[indices] (combiner) partial[indices, f], in loops of its own.
Stmt final_nest(const Block& block, const For& factored, const Accumulation& sum, const Buffer& partial) {
  Block result;
  result.name = block.name;
  result.annotations = block.annotations;
  VarMap own;
  std::vector<std::pair<Var, Expr>> loops;
  auto add = [&](const Var& v, const Expr& extent, IterKind kind) {
    loops.emplace_back(var(v->name), extent);
    result.iters.push_back({var(v->name), extent, kind, loops.back().first});
    own[v.get()] = result.iters.back().var;
  };
  for (const BlockIter& iter : block.iters)
    if (iter.kind != IterKind::kReduce) add(iter.var, iter.extent, iter.kind);
  add(factored.var, factored.extent, IterKind::kReduce);
  std::vector<Expr> indices;
  for (const Expr& index : sum.indices) indices.push_back(substitute(index, own));
  std::vector<Expr> partial_indices = indices;
  partial_indices.push_back(own.at(factored.var.get()));
  result.init = store(sum.out, indices, identity_of(sum.combiner, sum.out->dtype));
  result.body =
      store(sum.out, indices, combine(sum.combiner, load(sum.out, indices), load(partial, partial_indices)));
  declare_accesses(result);
  return nest(loops, seal(std::make_unique<Block>(std::move(result))));
}

void rfactor(Application& a) {
  Path path = a.block(0);
  a.require_outermost(path);
  auto block = path.back().cast<Block>();
  auto factored = a.loop(1).back().cast<For>();
  Accumulation sum = accumulation_of(a, *block);
  check_shape(a, path, *factored);
  std::vector<Expr> shape = sum.out->shape;
  shape.push_back(factored->extent);
  // The factored dimension comes last: lanes along it are neighbours.
  Buffer partial = buffer(fresh_buffer_name(a.func, sum.out->name + "_rf"), shape, sum.out->dtype);
  Block rf = partial_block(path, *factored, sum, partial);
  rf.name = fresh_block_name(a.func, block->name + "_rf");
  std::string name = rf.name;
  Stmt top = top_statement(path);
  // The partial results are computed where the reduction was; the sum stands behind all of its loops.
  Stmt partials = replace(top, block, seal(std::make_unique<Block>(std::move(rf))));
  a.func = with_alloc(replace(a.func, top, seq({partials, final_nest(*block, *factored, sum, partial)})),
                      scope_of(path)->name, partial);
  a.give_block(name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"rfactor",
     "for k: for f: c[i] += g(i, k, f)  ->  for k: for f: c_rf[i, f] += g(i, k, f); for f: c[i] += c_rf[i, "
     "f]",
     {{kBlock, kLoop}},
     rfactor},
};
}  // namespace

std::span<const Primitive> rfactor_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
