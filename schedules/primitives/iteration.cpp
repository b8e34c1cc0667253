// How loops run, and hints on them.
#include "core/tir/passes/vectorize_loops.h"
#include "schedules/anatomy.h"
#include "schedules/coverage.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Every block below binds only spatial variables to the loop, so its iterations touch different elements.
void require_data_parallel(const Application& a, const For& loop) {
  for (const Ref<Block>& block : blocks_in(loop.body))
    for (const BlockIter& iter : block->iters)
      if (iter.kind != IterKind::kSpatial && uses_var(iter.value, loop.var.get()))
        a.fail("loop {} carries the {} variable {} of block `{}`; only spatial iterations are independent",
               loop.var->name, iter.kind == IterKind::kReduce ? "reduction" : "opaque", iter.var->name,
               block->name);
}

/// Loops change their kind once: what another step relied on stays so. The same kind again is no error.
void set_iteration(Application& a, Iteration iteration) {
  Path path = a.loop(0);
  const For& loop = *path.back().as<For>();
  if (loop.iteration != Iteration::kSerial && loop.iteration != iteration)
    a.fail("loop {} is {} already", loop.var->name, spelling(loop.iteration));
  a.func = replace(a.func, path.back(),
                   changed(path.back().cast<For>(), [&](For& copy) { copy.iteration = iteration; }));
}

void require_constant(const Application& a, const For& loop) {
  if (!as_int(loop.extent)) a.fail("loop {} has no constant extent", loop.var->name);
}

/// Parallel loops from `outer` to just around `inner`, each all that the one before does: with it they are
/// one loop over tasks.
bool continues(const For& outer, const For& inner) {
  for (const For* loop = &outer; loop != &inner;) {
    const For* next = loop->body.as<For>();
    if (loop->iteration != Iteration::kParallel || !next || uses_var(next->extent, loop->var.get()))
      return false;
    loop = next;
  }
  return true;
}

/// Not inside a parallel loop with something else, since cores are busy already, nor in a vectorized one.
void parallel(Application& a) {
  Path path = a.loop(0);
  const For& loop = *path.back().as<For>();
  require_data_parallel(a, loop);
  for (const Stmt& around : path) {
    const For* outer = around.as<For>();
    if (outer && outer != &loop &&
        (outer->iteration == Iteration::kVectorized ||
         (outer->iteration == Iteration::kParallel && !continues(*outer, loop))))
      a.fail("loop {} stands inside the {} loop {}", loop.var->name, spelling(outer->iteration),
             outer->var->name);
  }
  set_iteration(a, Iteration::kParallel);
}

/// The loop may stand around others, which the lanes go through together; in the end there is one block, and
/// one vectorized loop in its nest.
void vectorize(Application& a) {
  Path path = a.loop(0);
  const Ref<For> loop = path.back().cast<For>();
  require_constant(a, *loop);
  require_data_parallel(a, *loop);
  std::vector<Ref<For>> others;  // around it, blocks between them or not, and inside it
  for (const Stmt& around : path)
    if (around.as<For>()) others.push_back(around.cast<For>());
  Stmt body = loop->body;
  for (; !body.as<Block>(); body = body.as<For>()->body) {
    if (!body.as<For>()) a.fail("loop {} has several statements in it, must hold one block", loop->var->name);
    if (body.as<For>()->iteration == Iteration::kParallel)
      a.fail("the parallel loop {} stands inside loop {}", body.as<For>()->var->name, loop->var->name);
    others.push_back(body.cast<For>());
  }
  // The lanes would have to go through the inner block's loops.
  if (!blocks_in(body.as<Block>()->body).empty())
    a.fail("block `{}` holds blocks; vectorize a loop inside it", body.as<Block>()->name);
  for (const Ref<For>& other : others)
    if (other != loop && other->iteration == Iteration::kVectorized)
      a.fail("loop {} is vectorized already in the nest of loop {}", other->var->name, loop->var->name);
  // Each lane needs elements of its own.
  for (const Ref<Block>& block : blocks_in(loop))
    if (!carries(*block, loop->var, IterKind::kSpatial))
      a.fail("block `{}` does the same in all iterations of loop {}", block->name, loop->var->name);
  set_iteration(a, Iteration::kVectorized);
}

void unroll(Application& a) {
  require_constant(a, *a.loop(0).back().as<For>());
  set_iteration(a, Iteration::kUnrolled);
}

/// Takes effect where the loop stands in a vectorized one, the initial value apart (decompose_reduction).
void dot_product(Application& a) {
  Path path = a.loop(0);
  const Ref<For> loop = path.back().cast<For>();
  const Block* block = loop->body.as<Block>();
  if (!block) a.fail("loop {} must be innermost, around one block", loop->var->name);
  std::optional<DotProduct> dot = schedule::dot_product(*block);
  if (!dot)
    a.fail(
        "block `{}` is no sum of products of 4 neighbouring 8-bit integers as int32, or of 2 bfloat16 as "
        "float32",
        block->name);
  for (const BlockIter& iter : block->iters)
    if (uses_var(iter.value, loop->var.get()) != (iter.var == dot->variable) ||
        (iter.var == dot->variable && iter.value != loop->var))
      a.fail("loop {} is not variable {} of block `{}`", loop->var->name, dot->variable->name, block->name);
  a.func = replace(a.func, path.back(), changed(loop, [](For& copy) { copy.annotations[kDotProduct] = 1; }));
}

/// A hint of 0 is none: a sampled one may be left out.
void annotate_loop(Application& a) {
  Path path = a.loop(0);
  a.func = replace(a.func, path.back(), changed(path.back().cast<For>(), [&](For& copy) {
                     if (a.number(2) == 0)
                       copy.annotations.erase(a.text(1));
                     else
                       copy.annotations[a.text(1)] = a.number(2);
                   }));
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"parallel", "for i: S  ->  parallel for i: S", {{kLoop}}, parallel},
    {"vectorize", "for i: S  ->  vectorized for i: S", {{kLoop}}, vectorize},
    {"unroll", "for i: S  ->  unrolled for i: S", {{kLoop}}, unroll},
    {"dot_product",
     "vectorized for i: for k in 0..4: c[i] += cast(x[k]) * cast(y[i, k])  ->  vectorized for i: c[i] += "
     "cast(x[0]) * cast(y[i, 0]) + ... + cast(x[3]) * cast(y[i, 3])",
     {{kLoop}},
     dot_product},
    {"annotate_loop",
     "for i: S  ->  for i {key: value}: S, for value 0 without the key",
     {{kLoop, kText, kInt}},
     annotate_loop},
};
}  // namespace

std::span<const Primitive> iteration_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
