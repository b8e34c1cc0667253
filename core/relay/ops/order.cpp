#include "core/relay/ops/order.h"

#include <algorithm>
#include <cmath>

#include "core/relay/ops/order_best.h"
#include "core/relay/ops/order_rows.h"

namespace lathe::relay::ops {

std::vector<Var> variables_of(const Buffer& x) {
  std::vector<Var> vars;
  for (size_t d = 0; d < x->shape.size(); ++d) vars.push_back(lathe::var(fmt::format("i{}", d)));
  return vars;
}

Expr comes_before(const Expr& a, const Expr& b, bool ascending) {
  if (!a.dtype().is_float()) return ascending ? less(a, b) : less(b, a);
  // True for a NaN b as well.
  const Expr is_less = logical_not(ascending ? less_equal(b, a) : less_equal(a, b));
  return logical_and(is_less, logical_not(is_nan(a)));
}

namespace {

/// rank[i] = how many elements along the axis come before element i; equal ones keep their order, and NaN
/// stands behind all numbers.
Buffer ranks(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending) {
  Buffer rank = f.reduce("rank", x->shape, {x->shape[axis]}, tir::Combiner::kSum, [&](Vars i, Vars r) {
    std::vector<Expr> other = as_indices(i);
    other[axis] = r[0];
    Expr mine = at(x, i), theirs = load(x, other);
    Expr before = ascending ? less(theirs, mine) : less(mine, theirs);
    Expr tie = logical_and(equal(theirs, mine), less(r[0], i[axis]));
    // Of 32 bits: twice as many are counted at once, and nobody compares more elements with each other.
    return cast(kInt32, logical_or(before, tie));
  });
  if (!x->dtype.is_float()) return rank;
  // A NaN compares with nothing and so is before no number. Its own rank follows from the number of NaNs,
  // which costs less than comparisons of all with all that know of it.
  const Expr& extent = x->shape[axis];
  Buffer nans = f.ordered("nans", x->shape, axis, kInt64, [&](const Buffer& out, Vars i) {
    std::vector<Expr> before = as_indices(i);
    before[axis] = before[axis] - 1;
    Expr so_far = select(less(i[axis], Expr(1)), Expr(0), load(out, before));
    return so_far + cast(kInt64, is_nan(at(x, i)));
  });
  return f.compute("place", x->shape, [&](Vars i) {
    std::vector<Expr> last = as_indices(i);
    last[axis] = extent - 1;
    Expr numbers = extent - load(nans, last);
    return select(is_nan(at(x, i)), numbers + at(nans, i) - 1, cast(kInt64, at(rank, i)));
  });
}

/// positions[r] = the index along the axis of the element of rank r, for the first `count` ranks.
Buffer order_by_ranks(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  // n comparisons for each element, but all alike and in vectors: no branches, no swaps.
  Buffer rank = ranks(f, x, axis, ascending);
  Shape shape = x->shape;
  shape[axis] = count;
  return f.opaque("order", shape, kInt64, {rank}, [&](const Buffer& out) {
    const std::vector<Var> vars = variables_of(x);
    std::vector<Expr> from{vars.begin(), vars.end()}, to = from;
    to[axis] = cast(kInt64, load(rank, from));
    // Ranks are a permutation: each position is written once.
    tir::Stmt nest = tir::store(out, to, from[axis]);
    // Those of later ranks have no place.
    if (!structural_equal(count, x->shape[axis])) nest = make<tir::If>(less(to[axis], count), nest);
    for (size_t d = vars.size(); d-- > 0;) nest = tir::for_loop(vars[d], x->shape[d], nest);
    return nest;
  });
}

/// Runs of `width` in half `from` of `out`, merged by twos into the other half. Of each element is selected
/// whose it is; nothing branches on the data.
tir::Stmt merged_runs(const Row& row, const Buffer& out, int64_t n, int64_t width, int64_t from,
                      bool ascending) {
  const Var pair = lathe::var("pair"), step = lathe::var("step");
  const Expr begin = pair * (2 * width), middle = min(begin + width, Expr(n)),
             end = min(begin + 2 * width, Expr(n));
  // The first elements of both runs that are not merged yet, and whose turn it is.
  const Buffer state = tir::buffer("state", {Expr(3)}, kInt64, tir::Scope::kLocal);
  auto set = [&](int64_t i, const Expr& value) { return tir::store(state, {Expr(i)}, value); };
  const Expr a = load(state, {Expr(0)}), b = load(state, {Expr(1)}), turn = load(state, {Expr(2)});
  // Where a run has ended its last element is read once more, and not taken.
  const Expr left = row.kept(min(a, Expr(n - 1)), {Expr(from)}),
             right = row.kept(min(b, Expr(n - 1)), {Expr(from)});
  const Expr is_right = logical_and(
      less(b, end),
      logical_or(less_equal(middle, a), comes_before(row.element(right), row.element(left), ascending)));
  const tir::Stmt next = tir::seq({
      set(2, cast(kInt64, is_right)),
      tir::store(out, row.place(begin + step, {Expr(1 - from)}), select(equal(turn, Expr(1)), right, left)),
      set(1, b + turn),
      // So many are merged, and the others of them were of the first run.
      set(0, begin + step + 1 - (b - middle)),
  });
  const tir::Stmt merge =
      tir::for_loop(step, Expr(2 * width), make<tir::If>(less(begin + step, Expr(n)), next));
  return tir::for_loop(pair, Expr((n + 2 * width - 1) / (2 * width)),
                       make<tir::Alloc>(state, tir::seq({set(0, begin), set(1, middle), merge})));
}

/// The same by merging runs of 1, 2, 4, ... from the bottom up (Knuth, 5.2.4): n log n steps.
Buffer order_by_merging(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  const int64_t n = int_value(x->shape[axis]);
  Shape halves = x->shape;
  halves.insert(halves.begin(), Expr(2));
  int64_t half = 0;  // that the runs are in
  const Buffer runs = f.opaque("runs", halves, kInt64, {x}, [&](const Buffer& out) {
    const Row row(x, out, axis, variables_of(x));
    const Var i = lathe::var("i");
    std::vector<tir::Stmt> passes = {
        tir::for_loop(i, Expr(n), tir::store(out, row.place(i, {Expr(0)}), cast(kInt64, i)))};
    for (int64_t width = 1; width < n; width *= 2) {
      passes.push_back(merged_runs(row, out, n, width, half, ascending));
      half = 1 - half;
    }
    return row.for_each(tir::seq(std::move(passes)));
  });
  Shape shape = x->shape;
  shape[axis] = count;
  return f.compute("order", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices.insert(indices.begin(), Expr(half));
    return load(runs, indices);
  });
}

}  // namespace

Buffer order(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  if (!as_int(x->shape[axis]) || !as_int(count)) return order_by_ranks(f, x, axis, ascending, count);
  const int64_t n = int_value(x->shape[axis]), k = int_value(count);
  constexpr double kOfMerging = 54;  // a step, in the unit of cost_of_best: it looks up, and selects
  const double by_merging =
      kOfMerging * static_cast<double>(n) * std::ceil(std::log2(std::max(static_cast<double>(n), 2.0)));
  if (cost_of_best(n, k) < by_merging) return order_of_best(f, x, axis, ascending, k);
  return order_by_merging(f, x, axis, ascending, count);
}

}  // namespace lathe::relay::ops
