#include "core/relay/ops/order.h"

#include "core/relay/ops/order_best.h"
#include "core/relay/ops/order_rows.h"
#include "core/relay/ops/row_programs.h"

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

/// One end of two runs that are merged: the next elements of both that are not merged yet, and whose turn it
/// is.
class MergedEnd {
 public:
  Expr left() const { return load(state_, {Expr(0)}); }
  Expr right() const { return load(state_, {Expr(1)}); }
  Expr is_rights_turn() const { return load(state_, {Expr(2)}); }
  tir::Stmt set_left(const Expr& e) const { return tir::store(state_, {Expr(0)}, e); }
  tir::Stmt set_right(const Expr& e) const { return tir::store(state_, {Expr(1)}, e); }
  tir::Stmt set_turn(const Expr& e) const { return tir::store(state_, {Expr(2)}, cast(kInt64, e)); }
  const Buffer& buffer() const { return state_; }

 private:
  const Buffer state_ = tir::buffer("state", {Expr(3)}, kInt64, tir::Scope::kLocal);
};

/// Runs of `width` in half `from` of `out`, merged by twos into the other half. Of each element is selected
/// whose it is; nothing branches on the data. Each step waits for the one before, so two are under way at a
/// time: one half is merged from the front, the other from the back.
tir::Stmt merged_runs(const Row& row, const Buffer& out, const Expr& n, const Expr& width, int64_t from,
                      bool ascending) {
  const Var pair = lathe::var("pair"), step = lathe::var("step");
  const Expr begin = pair * (2 * width), middle = min(begin + width, n), end = min(begin + 2 * width, n);
  const Expr length = end - begin, to_front = floordiv(length, 2), to_back = length - to_front;
  const MergedEnd front, back;
  // Where a run has ended an element beside it is read, and not taken.
  auto kept = [&](const Expr& i) { return row.kept(min(max(i, Expr(0)), n - 1), {Expr(from)}); };
  auto step_of = [&](const MergedEnd& at, const Expr& is_right, const Expr& place, const Expr& next_right,
                     const Expr& next_left) {
    return tir::seq(
        {at.set_turn(is_right),
         tir::store(out, row.place(place, {Expr(1 - from)}),
                    select(equal(at.is_rights_turn(), Expr(1)), kept(at.right()), kept(at.left()))),
         at.set_right(next_right), at.set_left(next_left)});
  };
  auto right_before_left = [&](const MergedEnd& at) {
    return comes_before(row.element(kept(at.right())), row.element(kept(at.left())), ascending);
  };
  const Expr first_is_right = logical_and(
      less(front.right(), end), logical_or(less_equal(middle, front.left()), right_before_left(front)));
  const Expr last_is_right =
      logical_and(less_equal(middle, back.right()),
                  logical_or(less(back.left(), begin), logical_not(right_before_left(back))));
  // So many are merged, and those of them that are not of one run were of the other.
  const tir::Stmt first = step_of(front, first_is_right, begin + step, front.right() + front.is_rights_turn(),
                                  begin + step + 1 - (front.right() - middle));
  const tir::Stmt last = step_of(back, last_is_right, end - 1 - step, back.right() - back.is_rights_turn(),
                                 end - step - 3 - (back.right() - middle));
  const tir::Stmt merge = tir::for_loop(
      step, width,
      tir::seq({make<tir::If>(less(step, to_front), first), make<tir::If>(less(step, to_back), last)}));
  const tir::Stmt both = tir::seq({front.set_left(begin), front.set_right(middle), back.set_left(middle - 1),
                                   back.set_right(end - 1), merge});
  return tir::for_loop(pair, floordiv(n + 2 * width - 1, 2 * width),
                       make<tir::Alloc>(front.buffer(), make<tir::Alloc>(back.buffer(), both)));
}

/// Runs of kLanes in half 0, each put in order at once: an element's place is how many of its run come before
/// it.
tir::Stmt first_runs(const Row& row, const Buffer& out, const Expr& n, bool ascending) {
  return loop("run", floordiv(n + (kLanes - 1), kLanes), [&](const Expr& run) {
    return in_lanes([&](const Expr& lane) {
      const Expr begin = run * kLanes, mine = row.element(begin + lane);
      Expr place = 0;
      for (int64_t other = 0; other < kLanes; ++other) {
        const Expr i = begin + other, theirs = row.element(min(i, n - 1));
        // Of equal ones the first.
        const Expr before = logical_or(
            comes_before(theirs, mine, ascending),
            logical_and(less(Expr(other), lane), logical_not(comes_before(mine, theirs, ascending))));
        place = place + cast(kInt64, logical_and(less(i, n), before));
      }
      return make<tir::If>(less(begin + lane, n),
                           tir::store(out, row.place(begin + place, {Expr(0)}), begin + lane));
    });
  });
}

/// Passes over rows of a known length, one after the other; returns the half that the last one left.
int64_t add_passes(const Row& row, const Buffer& out, int64_t n, bool ascending,
                   std::vector<tir::Stmt>& passes) {
  int64_t half = 0;
  for (int64_t width = kLanes; width < n; width *= 2, half = 1 - half)
    passes.push_back(merged_runs(row, out, n, width, half, ascending));
  return half;
}

/// Passes over open rows, by twos, so that they end in the half in which they began whatever the length: of a
/// second one that is not needed all is one run.
tir::Stmt passes_by_twos(const Row& row, const Buffer& out, const Expr& n, bool ascending) {
  constexpr int64_t kMost = 18;  // of rows of up to 2^40
  const Var twice = lathe::var("twice");
  const Expr width = binary(BinaryOp::kShiftLeft, Expr(kLanes), 2 * twice);
  const tir::Stmt two = tir::seq(
      {merged_runs(row, out, n, width, 0, ascending), merged_runs(row, out, n, 2 * width, 1, ascending)});
  return tir::for_loop(twice, kMost, make<tir::If>(less(width, n), two));
}

/// Rows in order, in one half of a buffer.
struct Runs {
  Buffer buffer;
  int64_t half = 0;
};

/// By merging runs of 16, 32, 64, ... from the bottom up (Knuth, 5.2.4): n log n steps. Nothing is done where
/// `holds` is false.
Runs merged_rows(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& holds) {
  const Expr& n = x->shape[axis];
  Shape halves = x->shape;
  halves.insert(halves.begin(), Expr(2));
  int64_t half = 0;  // that the runs are in
  const Buffer runs = f.opaque("runs", halves, kInt64, {x}, [&](const Buffer& out) {
    const Row row(x, out, axis, variables_of(x));
    std::vector<tir::Stmt> passes = {first_runs(row, out, n, ascending)};
    if (const int64_t* known = as_int(n))
      half = add_passes(row, out, *known, ascending, passes);
    else
      passes.push_back(passes_by_twos(row, out, n, ascending));
    const tir::Stmt rows = row.for_each(tir::seq(std::move(passes)));
    return is_int(holds, 1) ? rows : make<tir::If>(holds, rows);
  });
  return {runs, half};
}

/// Element `i` of what is in order.
Expr in_order(const Runs& runs, std::vector<Expr> i) {
  i.insert(i.begin(), Expr(runs.half));
  return load(runs.buffer, i);
}

}  // namespace

Buffer order(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count) {
  const WaysToOrder ways = ways_to_order(x->shape[axis], count);
  if (is_int(ways.by_merging, 0)) return order_of_best(f, x, axis, ascending, count, ways);
  const Runs runs = merged_rows(f, x, axis, ascending, ways.by_merging);
  if (is_int(ways.by_merging, 1)) {
    Shape shape = x->shape;
    shape[axis] = count;
    return f.compute("order", shape, [&](Vars i) { return in_order(runs, as_indices(i)); });
  }
  return order_of_best(f, x, axis, ascending, count, ways, {runs.buffer}, [&](const Buffer& out) {
    const std::vector<Var> vars = variables_of(x);
    const std::vector<Expr> i(vars.begin(), vars.end());
    return for_all(
        out->shape, vars, [](size_t) { return false; }, tir::store(out, i, in_order(runs, i)));
  });
}

}  // namespace lathe::relay::ops
