// The shape of loop nests: split, fuse, reorder.
#include "core/tir/text.h"
#include "schedules/coverage.h"
#include "schedules/family.h"
#include "schedules/primitive.h"

namespace lathe::schedule {

using namespace tir;

namespace {

/// A parallel or vectorized loop that is split or fused would leave the question which part keeps the kind.
void require_serial(const Application& a, const For& loop) {
  if (loop.iteration != Iteration::kSerial)
    a.fail("loop {} is {}, must be serial; change the shape of loops before their kind", loop.var->name,
           spelling(loop.iteration));
}

/// Of a loop over an open dimension: the one to infer, else the first, is as large as the others leave it.
std::vector<Expr> open_split_factors(const Application& a, const For& loop) {
  std::vector<Expr> factors;
  int64_t known = 1;
  size_t open = 0;
  for (size_t i = 1; i < a.size(); ++i) {
    int64_t factor = a.number(i);
    if (factor < 0) a.fail("factor is {}, must be at least 1, or 0 to infer it", factor);
    if (factor == 0) open = i - 1;
    factors.emplace_back(factor);
  }
  if (factors.size() < 2) a.fail("{} factors, must be at least 2", factors.size());
  for (size_t i = 0; i < factors.size(); ++i)
    if (i != open && (is_int(factors[i], 0) || __builtin_mul_overflow(known, int_value(factors[i]), &known)))
      a.fail("the factors of loop {} must be numbers but for one", loop.var->name);
  factors[open] = simplify_for_calls(*a.func, ceildiv(loop.extent, Expr(known)));
  return factors;
}

/// The factors with the one to infer filled in.
std::vector<int64_t> split_factors(const Application& a, const For& loop, int64_t extent) {
  std::vector<int64_t> factors;
  int64_t known = 1, inferred = 0;
  for (size_t i = 1; i < a.size(); ++i) {
    int64_t factor = a.number(i);
    if (factor < 0)
      a.fail("factor is {}, must be at least 1, or 0 to infer it (loop {} runs 0..{})", factor,
             loop.var->name, extent);
    inferred += factor == 0;
    if (factor > 0 && __builtin_mul_overflow(known, factor, &known))
      a.fail("the product of the factors overflows");
    factors.push_back(factor);
  }
  if (factors.size() < 2) a.fail("{} factors, must be at least 2", factors.size());
  if (inferred > 1) a.fail("{} factors are to be inferred, at most one can be", inferred);
  for (int64_t& factor : factors) {
    if (factor > 0) continue;
    factor = std::max<int64_t>(extent / known + (extent % known != 0), 1);
    if (__builtin_mul_overflow(known, factor, &known)) a.fail("the product of the factors overflows");
  }
  if (known < extent)
    a.fail("the product of the factors is {}, less than the extent {} of loop {}", known, extent,
           loop.var->name);
  return factors;
}

/// Adds `condition` to the predicates of the outermost blocks in `stmt`.
Stmt guarded(Stmt stmt, const Expr& condition) {
  for (const Ref<Block>& block : blocks_in(stmt))
    stmt = replace(stmt, block, changed(block, [&](Block& copy) {
                     copy.predicate = logical_and(copy.predicate, condition);
                   }));
  return stmt;
}

/// No variable is below 0, so neither is what only adds and multiplies them.
bool is_sum_of_loops(const Expr& e) {
  bool found = true;
  post_order(e, [&](const NodeRef& node) {
    const Binary* b = node.as<Binary>();
    const IntImm* number = node.as<IntImm>();
    found &= node.as<VarNode>() || (number && number->value >= 0) ||
             (b && (b->op == BinaryOp::kAdd || b->op == BinaryOp::kMul));
  });
  return found;
}

/// `loop` runs over the parts of an open dimension, and the guard against the last one sticking out, f * loop
/// + i < n, also keeps the loop within its own extent, ceil(n / f).
bool guards_itself(const For& loop) {
  for (const Ref<Block>& block : blocks_in(loop.body)) {
    bool guarded = false;
    for (const Expr& condition : conjuncts(block->predicate)) {
      const Binary* less = condition.as<Binary>();
      if (!less || less->op != BinaryOp::kLt) continue;
      std::optional<LinearForm> form = linear_form(less->a, {&loop.var, 1});
      if (!form || form->coefficients.size() != 1 || !is_sum_of_loops(form->rest)) continue;
      const int64_t factor = form->coefficients.begin()->second;
      guarded |= factor > 0 && prove_equal(loop.extent, ceildiv(less->b, Expr(factor)));
    }
    if (!guarded) return false;
  }
  return true;
}

void split(Application& a) {
  Path path = a.loop(0);
  const For& loop = *path.back().as<For>();
  require_serial(a, loop);
  std::vector<Expr> factors;
  if (const int64_t* extent = as_int(loop.extent)) {
    for (int64_t factor : split_factors(a, loop, *extent)) factors.emplace_back(factor);
  } else {
    factors = open_split_factors(a, loop);
  }

  // The new loops are the digits of the old one's value, the outermost first.
  std::vector<std::pair<Var, Expr>> loops;
  Expr index = 0, product = 1;
  for (size_t i = 0; i < factors.size(); ++i) {
    loops.emplace_back(var(fmt::format("{}_{}", loop.var->name, i)), factors[i]);
    index = index * factors[i] + loops.back().first;
    product = product * factors[i];
    a.give_loop(loops.back().first);
  }
  const bool exact = prove_equal(product, loop.extent) || (!as_int(loop.extent) && guards_itself(loop));
  // The tile's declared regions know nothing of a guard inside.
  if (!exact && scope_of(path)->name != "root")
    a.fail("loop {} stands inside block `{}`, so the factors must multiply to its extent {}", loop.var->name,
           scope_of(path)->name, print(loop.extent));
  // A product beyond the extent gives iterations that the old loop did not have: the predicate leaves them
  // out.
  Stmt body = substitute(loop.body, {{loop.var.get(), index}});
  if (!exact) body = guarded(body, less(index, loop.extent));
  Stmt result = simplify_bindings(nest(loops, body), analyzer_at(path));
  // Hints stay on the outermost part.
  if (!loop.annotations.empty())
    result = changed(result.cast<For>(), [&](For& outer) { outer.annotations = loop.annotations; });
  a.func = replace(a.func, path.back(), result);
}

void fuse(Application& a) {
  if (a.size() == 0) a.fail("no loops are given");
  Path path = a.loop(0);
  std::vector<Ref<For>> loops{path.back().cast<For>()};
  for (size_t i = 1; i < a.size(); ++i) {
    auto next = a.loop(i).back().cast<For>();
    if (loops.back()->body != next)
      a.fail("loop {} is not the only statement right inside loop {}", next->var->name,
             loops.back()->var->name);
    loops.push_back(next);
  }
  std::string name;
  for (const Ref<For>& loop : loops) {
    require_serial(a, *loop);
    name += (name.empty() ? "" : "_") + loop->var->name;
  }
  Var fused = var(name + "_fused");
  VarMap values;
  Expr inner = 1;
  int64_t known = 1;
  // From the innermost, the last digit, outwards; the outermost needs no remainder.
  for (size_t i = loops.size(); i-- > 0;) {
    const Expr& extent = loops[i]->extent;
    Expr value = floordiv(Expr(fused), inner);
    values[loops[i]->var.get()] = i == 0 ? value : floormod(value, extent);
    if (as_int(extent) && __builtin_mul_overflow(known, int_value(extent), &known))
      a.fail("the product of the extents overflows");
    inner = simplify(inner * extent);
  }
  Stmt result = for_loop(fused, inner, substitute(loops.back()->body, values));
  a.func = replace(a.func, path.back(), simplify_bindings(result, analyzer_at(path)));
  a.give_loop(fused);
}

/// The loops of the inputs and those between them, outermost first; all on one path, each but the last having
/// just the next as its body.
std::vector<Ref<For>> chain_of(const Application& a) {
  // The deepest loop's path leads through all others, if they are nested at all.
  Path longest;
  for (size_t i = 0; i < a.size(); ++i) {
    Path path = a.loop(i);
    if (path.size() > longest.size()) longest = std::move(path);
  }
  std::set<const Node*> wanted;
  for (size_t i = 0; i < a.size(); ++i)
    if (!wanted.insert(a.loop(i).back().get()).second)
      a.fail("loop {} is given twice", a.loop(i).back().as<For>()->var->name);
  std::vector<Ref<For>> chain;
  size_t found = 0;
  for (size_t i = longest.size(); i-- > 0 && found < wanted.size();) {
    const For* loop = longest[i].as<For>();
    if (!loop) a.fail("the loops are not nested perfectly: another statement stands between them");
    found += wanted.count(loop);
    chain.insert(chain.begin(), longest[i].cast<For>());
  }
  if (found != wanted.size()) a.fail("the loops are not nested in each other");
  return chain;
}

/// Iterations along opaque variables stay in order: the loops that carry them keep theirs. Those of other
/// variables are independent of each other, so they may come between.
void require_order_kept(const Application& a, const std::vector<Ref<For>>& before,
                        const std::vector<Ref<For>>& after) {
  auto ordered = [](const Block& block, const std::vector<Ref<For>>& loops) {
    std::vector<Ref<For>> carrying;
    for (const Ref<For>& loop : loops)
      if (carries(block, loop->var, IterKind::kOpaque)) carrying.push_back(loop);
    return carrying;
  };
  for (const Ref<Block>& block : blocks_in(before.back()))
    if (ordered(*block, before) != ordered(*block, after))
      a.fail("block `{}` runs its iterations in order: the loops of its opaque variables keep theirs",
             block->name);
}

/// The lanes of a vector go through what is inside together: they cannot be spread over cores there.
void require_vectors_inside(const Application& a, const std::vector<Ref<For>>& order) {
  const For* vectorized = nullptr;
  for (const Ref<For>& loop : order) {
    if (vectorized && loop->iteration == Iteration::kParallel)
      a.fail("the parallel loop {} would stand inside the vectorized loop {}", loop->var->name,
             vectorized->var->name);
    if (loop->iteration == Iteration::kVectorized) vectorized = loop.get();
  }
}

void reorder(Application& a) {
  if (a.size() == 0) a.fail("no loops are given");
  std::vector<Ref<For>> chain = chain_of(a), order = chain;
  std::set<const Node*> wanted;
  for (size_t i = 0; i < a.size(); ++i) wanted.insert(a.loop(i).back().get());
  size_t next = 0;
  for (Ref<For>& loop : order)
    // Loops that are not named keep their places; the named ones take the places of the named, in the order
    // given.
    if (wanted.count(loop.get())) loop = a.loop(next++).back().cast<For>();
  require_order_kept(a, chain, order);
  require_vectors_inside(a, order);
  Stmt body = chain.back()->body;
  for (size_t i = order.size(); i-- > 0;) body = changed(order[i], [&](For& copy) { copy.body = body; });
  a.func = replace(a.func, chain.front(), body);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"split",
     "for i in 0..n: S(i)  ->  for i0 in 0..f0: for i1 in 0..f1: S(i0*f1 + i1), where i0*f1 + i1 < n unless "
     "f0*f1 == n",
     {{kLoop}, kInt},
     split},
    {"fuse",
     "for i in 0..n: for j in 0..m: S(i, j)  ->  for f in 0..n*m: S(f // m, f % m)",
     {{}, kLoop},
     fuse},
    {"reorder", "for i: for j: S  ->  for j: for i: S", {{}, kLoop}, reorder},
};
}  // namespace

std::span<const Primitive> loop_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
