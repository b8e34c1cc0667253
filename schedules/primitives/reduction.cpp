// Reductions: when the initial value is stored.
#include "schedules/coverage.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The loops from `outermost` down to the block that carry its spatial variables, with new variables.
struct InitLoops {
  std::vector<Ref<For>> loops;
  VarMap renamed;
  std::set<const VarNode*> reduce;
};

InitLoops init_loops(const Application& a, const Path& path, const Stmt& outermost) {
  const Block& block = *path.back().as<Block>();
  InitLoops result;
  bool below = false;
  for (const Ref<For>& loop : loops_around(path)) {
    below |= loop == outermost;
    bool reduces = carries(block, loop->var, IterKind::kReduce),
         spatial = carries(block, loop->var, IterKind::kSpatial);
    if (!below && reduces)
      a.fail("loop {} outside loop {} carries the reduction; the initial value must be stored before it",
             loop->var->name, outermost.as<For>()->var->name);
    // Such a loop could not be left out around the initial value, nor kept: it would store elements too often
    // or not at all.
    if (reduces && spatial)
      a.fail("loop {} carries spatial and reduction variables of block `{}`", loop->var->name, block.name);
    if (reduces) result.reduce.insert(loop->var.get());
    if (!below || reduces) continue;
    if (!spatial) {
      if (!is_int(loop->extent, 1))
        a.fail("loop {} repeats block `{}`; the initial value must be stored inside it", loop->var->name,
               block.name);
      // One iteration: the loop can go.
      result.renamed[loop->var.get()] = Expr(0);
      continue;
    }
    result.renamed[loop->var.get()] = var(loop->var->name + "_init");
    result.loops.push_back(loop);
  }
  if (!below) a.fail("loop {} is not around block `{}`", outermost.as<For>()->var->name, block.name);
  return result;
}

void decompose_reduction(Application& a) {
  Path path = a.block(0);
  auto block = path.back().cast<Block>();
  Stmt outermost = a.loop(1).back();
  if (!block->init) a.fail("block `{}` has no initial value to store, or it was decomposed", block->name);
  for (const BlockIter& iter : block->iters)
    if (iter.kind == IterKind::kOpaque)
      a.fail("variable {} of block `{}` is opaque", iter.var->name, block->name);
  InitLoops loops = init_loops(a, path, outermost);
  // An element that is computed again would add to its old sum, if the initial value were stored outside of
  // the repetition.
  if (!writes_once(path, loops_below(path, outermost, true)))
    a.fail("block `{}` computes some elements several times in loop {}; the initial value belongs inside it",
           block->name, outermost.as<For>()->var->name);

  Block init;
  init.name = fresh_block_name(a.func, block->name + "_init");
  VarMap own;
  for (const BlockIter& iter : block->iters) {
    if (iter.kind == IterKind::kReduce) continue;
    init.iters.push_back(
        {var(iter.var->name), iter.extent, iter.kind, substitute(iter.value, loops.renamed)});
    own[iter.var.get()] = init.iters.back().var;
  }
  init.body = substitute(block->init, own);
  // What depends on reduction loops says which terms there are, and not which results: the initial value is
  // stored whatever it says.
  for (const Expr& condition : conjuncts(block->predicate)) {
    bool reduce = false, spatial = false;
    for (const VarNode* v : loops.reduce) reduce |= uses_var(condition, v);
    for (const auto& [v, renamed] : loops.renamed) spatial |= uses_var(condition, v);
    if (reduce && spatial) a.fail("a predicate of block `{}` mixes spatial and reduction loops", block->name);
    if (!reduce) init.predicate = logical_and(init.predicate, substitute(condition, loops.renamed));
  }
  declare_accesses(init);

  std::string name = init.name;
  Stmt nest = seal(std::make_unique<Block>(std::move(init)));
  for (size_t i = loops.loops.size(); i-- > 0;) {
    const For& loop = *loops.loops[i];
    Iteration iteration = loop.iteration == Iteration::kParallel ? Iteration::kSerial : loop.iteration;
    nest = for_loop(loops.renamed.at(loop.var.get()).cast<VarNode>(), loop.extent, nest, iteration);
  }
  Stmt update = replace(outermost, block, changed(block, [](Block& copy) {
                          copy.init = nullptr;
                          declare_accesses(copy);  // it reads what it accumulates from now on
                        }));
  a.func = replace(a.func, outermost, seq({nest, update}));
  a.give_block(name);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"decompose_reduction",
     "for i: for k: { if k == 0: c[i] = 0; c[i] += f(i, k) }  ->  for i: { c[i] = 0; for k: c[i] += f(i, k) "
     "}",
     {{kBlock, kLoop}},
     decompose_reduction},
};
}  // namespace

std::span<const Primitive> reduction_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
