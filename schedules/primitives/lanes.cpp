// Reductions whose terms run along the lanes of vectors.
#include <bit>

#include "schedules/coverage.h"
#include "schedules/family.h"
#include "schedules/primitives/accumulation.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The reduction with its loops, the innermost of which is cut into steps of `vectors` vectors of `width`.
struct Lanes {
  Func program;
  Ref<Block> block;
  Accumulation sum;
  std::vector<Ref<For>> outer;  // the reduction's other loops, outermost first
  Ref<For> innermost;
  int64_t vectors = 1, width = 1;
  Var step, vector, lane;  // loops in place of the innermost one

  const Expr& extent() const { return innermost->extent; }
  Expr steps() const { return simplify_for_calls(*program, ceildiv(extent(), Expr(vectors * width))); }
  /// No step is shorter than the others.
  bool is_exact() const { return prove_equal(steps() * (vectors * width), extent()); }
  const Ref<For>& outermost() const { return outer.empty() ? innermost : outer[0]; }
  /// The value of the innermost loop's variable.
  Expr place(const Expr& s, const Expr& v, const Expr& l) const { return (s * vectors + v) * width + l; }
};

/// The loops that carry the reduction stand right around the block, one in the other.
void find_loops(const Application& a, const Path& path, Lanes& lanes) {
  const Block& block = *lanes.block;
  std::vector<Ref<For>> loops = loops_around(path);
  // From the innermost loop outwards: first those that reduce, then the others.
  bool inside = true;
  for (size_t i = loops.size(); i-- > 0;) {
    const Ref<For>& loop = loops[i];
    bool reduces = carries(block, loop->var, IterKind::kReduce);
    if (loop->iteration == Iteration::kVectorized)
      a.fail("block `{}` stands in the vectorized loop {}", block.name, loop->var->name);
    if (reduces && carries(block, loop->var, IterKind::kSpatial))
      a.fail("loop {} carries spatial and reduction variables of block `{}`", loop->var->name, block.name);
    if (reduces && !inside)
      a.fail("loop {} carries the reduction of block `{}` outside a loop that does not", loop->var->name,
             block.name);
    inside &= reduces;
    if (!reduces) continue;
    // The next statement of the path is the loop's whole body.
    if (loop->iteration != Iteration::kSerial || loop->body != path[path.size() - (loops.size() - i)])
      a.fail("loop {} is not a serial loop around block `{}` alone", loop->var->name, block.name);
    if (uses_var(block.predicate, loop->var.get()))
      a.fail("the predicate of block `{}` depends on loop {}", block.name, loop->var->name);
    if (lanes.innermost)
      lanes.outer.insert(lanes.outer.begin(), loop);
    else
      lanes.innermost = loop;
  }
  if (!lanes.innermost || loops.back() != lanes.innermost)
    a.fail("the innermost loop of block `{}` does not carry its reduction", block.name);
}

Lanes lanes_of(const Application& a) {
  Path path = a.block(0);
  a.require_outermost(path);
  Lanes lanes;
  lanes.block = path.back().cast<Block>();
  lanes.program = a.func;
  lanes.vectors = a.number(1);
  lanes.width = a.number(2);
  constexpr int64_t kMost = 64;
  auto fits = [](int64_t n) { return n >= 1 && n <= kMost && std::has_single_bit(static_cast<uint64_t>(n)); };
  if (!fits(lanes.vectors) || !fits(lanes.width))
    a.fail("{} vectors of {} lanes; both must be powers of 2 up to {}", lanes.vectors, lanes.width, kMost);
  lanes.sum = accumulation_of(a, *lanes.block);
  find_loops(a, path, lanes);
  for (const Ref<Block>& other : blocks_in(lanes.outermost()))
    if (other != lanes.block) a.fail("block `{}` stands in the same reduction loops", other->name);
  lanes.step = var(lanes.innermost->var->name + "_step");
  lanes.vector = var(lanes.innermost->var->name + "_vector");
  lanes.lane = var(lanes.innermost->var->name + "_lane");
  return lanes;
}

/// A block over the reduction's spatial variables, and the map from the old ones to its own.
struct Spatial {
  Block block;
  VarMap own;
  std::vector<Expr> indices;  // of the reduction's result

  /// The variables of the reduction that are no reduction variables, each bound as before.
  Spatial(const Lanes& lanes, std::string name) {
    block.name = std::move(name);
    block.predicate = lanes.block->predicate;
    for (const BlockIter& iter : lanes.block->iters) {
      if (iter.kind == IterKind::kReduce) continue;
      own[iter.var.get()] = add(iter.var->name, iter.extent, iter.kind, iter.value);
    }
    for (const Expr& index : lanes.sum.indices) indices.push_back(substitute(index, own));
  }

  Var add(const std::string& variable, const Expr& extent, IterKind kind, const Expr& value) {
    block.iters.push_back({var(variable), extent, kind, value});
    return block.iters.back().var;
  }

  std::vector<Expr> indices_and(std::vector<Expr> more) const {
    more.insert(more.begin(), indices.begin(), indices.end());
    return more;
  }

  Stmt finish(Stmt body) {
    block.body = std::move(body);
    declare_accesses(block);
    return seal(std::make_unique<Block>(std::move(block)));
  }
};

/// The result's shape and `more` dimensions, private to a thread.
Buffer partial_buffer(const Application& a, const Lanes& lanes, const std::string& suffix,
                      const std::vector<int64_t>& more) {
  std::vector<Expr> shape = lanes.sum.out->shape;
  shape.insert(shape.end(), more.begin(), more.end());
  return buffer(fresh_buffer_name(a.func, lanes.sum.out->name + suffix), shape, lanes.sum.out->dtype,
                Scope::kLocal);
}

/// All vectors unrolled, so that each keeps its partial results in a register of its own.
Stmt in_lanes(const Var& vector, int64_t vectors, const Var& lane, int64_t width, Stmt body) {
  return for_loop(vector, vectors, for_loop(lane, width, std::move(body), Iteration::kVectorized),
                  Iteration::kUnrolled);
}

/// for v: for l: partial[i, v, l] = neutral
Stmt clear_nest(const Application& a, const Lanes& lanes, const Buffer& partial) {
  Spatial clear(lanes, fresh_block_name(a.func, lanes.block->name + "_clear"));
  Var vector = var(lanes.vector->name), lane = var(lanes.lane->name);
  Var v = clear.add("v", lanes.vectors, IterKind::kSpatial, vector);
  Var l = clear.add("l", lanes.width, IterKind::kSpatial, lane);
  Stmt body = store(partial, clear.indices_and({v, l}), identity_of(lanes.sum.combiner, partial->dtype));
  return in_lanes(vector, lanes.vectors, lane, lanes.width, clear.finish(body));
}

/// for s: for v: for l: partial[i, v, l] = partial[i, v, l] (combiner) value, where there is such a term
Stmt partial_nest(const Application& a, const Lanes& lanes, const Buffer& partial) {
  Spatial part(lanes, fresh_block_name(a.func, lanes.block->name + "_lanes"));
  Var v = part.add("v", lanes.vectors, IterKind::kSpatial, lanes.vector);
  Var l = part.add("l", lanes.width, IterKind::kSpatial, lanes.lane);
  // Reduction loops as variables of the block: bindings of the old variables, which speak of the loops, are
  // rewritten in these.
  VarMap by_loop;
  for (const Ref<For>& loop : lanes.outer)
    by_loop[loop->var.get()] = part.add(loop->var->name, loop->extent, IterKind::kReduce, loop->var);
  Var s = part.add("s", lanes.steps(), IterKind::kReduce, lanes.step);
  by_loop[lanes.innermost->var.get()] = lanes.place(s, v, l);
  for (const BlockIter& iter : lanes.block->iters)
    if (iter.kind == IterKind::kReduce) part.own[iter.var.get()] = substitute(iter.value, by_loop);
  // The last step may be shorter; its lanes without a term keep what they have, which at worst is the neutral
  // element.
  if (!lanes.is_exact())
    part.block.predicate = logical_and(
        part.block.predicate, less(lanes.place(lanes.step, lanes.vector, lanes.lane), lanes.extent()));
  std::vector<Expr> at = part.indices_and({v, l});
  Stmt body = store(
      partial, at, combine(lanes.sum.combiner, load(partial, at), substitute(lanes.sum.value, part.own, {})));
  Stmt nest = in_lanes(lanes.vector, lanes.vectors, lanes.lane, lanes.width, part.finish(body));
  nest = for_loop(lanes.step, lanes.steps(), nest);
  for (size_t i = lanes.outer.size(); i-- > 0;)
    nest = for_loop(lanes.outer[i]->var, lanes.outer[i]->extent, nest);
  return nest;
}

/// Combined two and two, so that few of the operations wait for each other.
Expr in_pairs(Combiner combiner, std::vector<Expr> values) {
  for (; values.size() > 1; values.resize(values.size() / 2))
    for (size_t i = 0; i < values.size() / 2; ++i)
      values[i] = combine(combiner, values[i], values[i + values.size() / 2]);
  return values[0];
}

/// for l in 0..width: to[i, l] = from[i, 0, l] (combiner) from[i, 1, l] ...
Stmt vectors_nest(const Application& a, const Lanes& lanes, const Buffer& from, const Buffer& to) {
  Spatial all(lanes, fresh_block_name(a.func, lanes.block->name + "_vectors"));
  Var lane = var(lanes.lane->name), l = all.add("l", lanes.width, IterKind::kSpatial, lane);
  std::vector<Expr> values;
  for (int64_t v = 0; v < lanes.vectors; ++v) values.push_back(load(from, all.indices_and({v, l})));
  Stmt body = store(to, all.indices_and({l}), in_pairs(lanes.sum.combiner, values));
  return for_loop(lane, lanes.width, all.finish(body), Iteration::kVectorized);
}

/// for l in 0..half: to[i, l] = from[i, l] (combiner) from[i, l + half]
Stmt halves_nest(const Application& a, const Lanes& lanes, const Buffer& from, const Buffer& to,
                 int64_t half) {
  Spatial sum(lanes, fresh_block_name(a.func, fmt::format("{}_of{}", lanes.block->name, half)));
  Var lane = var(lanes.lane->name), l = sum.add("l", half, IterKind::kSpatial, lane);
  Stmt body = store(
      to, sum.indices_and({l}),
      combine(lanes.sum.combiner, load(from, sum.indices_and({l})), load(from, sum.indices_and({l + half}))));
  return for_loop(lane, half, sum.finish(body), Iteration::kVectorized);
}

/// out[i] = from[i, 0] (combiner) from[i, 1], or what is left.
Stmt result(const Lanes& lanes, const Buffer& from, int64_t width) {
  Spatial last(lanes, lanes.block->name);
  last.block.annotations = lanes.block->annotations;
  std::vector<Expr> values;
  for (int64_t l = 0; l < width; ++l) values.push_back(load(from, last.indices_and({l})));
  return last.finish(store(lanes.sum.out, last.indices, in_pairs(lanes.sum.combiner, values)));
}

void reduce_in_lanes(Application& a) {
  Lanes lanes = lanes_of(a);
  std::vector<Buffer> buffers{partial_buffer(a, lanes, "_lanes", {lanes.vectors, lanes.width}),
                              partial_buffer(a, lanes, "_vectors", {lanes.width})};
  std::vector<Stmt> stmts{clear_nest(a, lanes, buffers[0]), partial_nest(a, lanes, buffers[0]),
                          vectors_nest(a, lanes, buffers[0], buffers[1])};
  int64_t width = lanes.width;
  // A tree of halves: log2(width) vector operations in place of as many single ones as there are lanes. The
  // last two lanes are added with the store of the result.
  for (; width > 2; width /= 2) {
    int64_t half = width / 2;
    Buffer from = buffers.back();
    buffers.push_back(partial_buffer(a, lanes, fmt::format("_of{}", half), {half}));
    stmts.push_back(halves_nest(a, lanes, from, buffers.back(), half));
  }
  stmts.push_back(result(lanes, buffers.back(), width));
  std::string scope = scope_of(a.block(0))->name;
  a.func = replace(a.func, lanes.outermost(), seq(std::move(stmts)));
  for (const Buffer& buffer : buffers) a.func = with_alloc(a.func, scope, buffer);
}

using enum InputKind;
constexpr Primitive kPrimitives[] = {
    {"reduce_in_lanes",
     "for k in 0..n: c[i] += g(i, k)  ->  for v: for l: p[i, v, l] = 0; for s: for v: for l: if (k < n) p[i, "
     "v, l] += g(i, k); for l: q[i, l] = p[i, 0, l] + p[i, 1, l]; ...; c[i] = q[i, 0] + q[i, 1], where k = "
     "(s * vectors + v) * width + l",
     {{kBlock, kInt, kInt}},
     reduce_in_lanes},
};
}  // namespace

std::span<const Primitive> lane_primitives() { return kPrimitives; }

}  // namespace lathe::schedule
