#include "core/relay/ops/order.h"

#include <bit>

#include "core/relay/ops/best_of_row.h"
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
tir::Stmt merged_runs(const Row& row, const Buffer& out, const Expr& n, const Expr& width, const Expr& from,
                      bool ascending) {
  const Var pair = lathe::var("pair"), step = lathe::var("step");
  const Expr begin = pair * (2 * width), middle = min(begin + width, n), end = min(begin + 2 * width, n);
  const Expr length = end - begin, to_front = floordiv(length, 2), to_back = length - to_front;
  const MergedEnd front, back;
  // Where a run has ended an element beside it is read, and not taken.
  auto kept = [&](const Expr& i) { return row.kept(min(max(i, Expr(0)), n - 1), {from}); };
  auto step_of = [&](const MergedEnd& at, const Expr& is_right, const Expr& place, const Expr& next_right,
                     const Expr& next_left) {
    return tir::seq(
        {at.set_turn(is_right),
         tir::store(out, row.place(place, {1 - from}),
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

/// A row of at most kLanes elements, in half 0, put in order at once: the place of each is how many come
/// before it.
tir::Stmt short_row(const Row& row, const Buffer& out, const Expr& n, bool ascending) {
  return in_lanes([&](const Expr& lane) {
    const Expr mine = row.element(lane);
    Expr place = 0;
    for (int64_t other = 0; other < kLanes; ++other) {
      const Expr i = other, theirs = row.element(min(i, n - 1));
      // Of equal ones the first.
      const Expr before = logical_or(
          comes_before(theirs, mine, ascending),
          logical_and(less(Expr(other), lane), logical_not(comes_before(mine, theirs, ascending))));
      place = place + cast(kInt64, logical_and(less(i, n), before));
    }
    return make<tir::If>(less(lane, n), tir::store(out, row.place(place, {Expr(0)}), lane));
  });
}

/// Runs of kRun in half 0, each placed at once: what merging them from less would take several times as long
/// for.
constexpr int64_t kRun = 128;

tir::Stmt first_runs(const Row& row, const Buffer& x, const Buffer& out, const Expr& n, bool ascending) {
  if (as_int(n) && int_value(n) <= kLanes) return short_row(row, out, n, ascending);
  return loop("run", ceildiv(n, Expr(kRun)), [&](const Expr& run) {
    const Expr begin = run * kRun, length = min(Expr(kRun), n - begin);
    const BestOf all = {.element = [&](const Expr& i) { return row.element(begin + i); },
                        .put =
                            [&](const Expr& rank, const Expr& position) {
                              return tir::store(out, row.place(begin + rank, {Expr(0)}), begin + position);
                            },
                        .dtype = x->dtype,
                        .n = length,
                        .k = length,
                        .ascending = ascending};
    return best_by_placing(all, kRun);
  });
}

/// Rows are no longer than 2^40 elements: so often are runs doubled at most.
constexpr int64_t kMostPasses = 40 - std::bit_width(static_cast<uint64_t>(kRun - 1));

/// The width of runs in pass `pass`, which are in half `pass` % 2.
int64_t width_in(int64_t pass) { return kRun << pass; }
Expr width_in(const Expr& pass) { return binary(BinaryOp::kShiftLeft, Expr(kRun), pass); }

/// The half in which the last of the passes leaves rows of `n`.
Expr last_half(const Expr& n) {
  Expr half = kMostPasses % 2;
  for (int64_t passes = kMostPasses; passes-- > 0;)
    half = select(less_equal(n, Expr(width_in(passes))), Expr(passes % 2), half);
  return half;
}

/// Passes over rows, one after the other, from half 0.
void add_passes(const Row& row, const Buffer& out, const Expr& n, bool ascending,
                std::vector<tir::Stmt>& passes) {
  if (const int64_t* known = as_int(n)) {
    for (int64_t pass = 0; width_in(pass) < *known; ++pass)
      passes.push_back(merged_runs(row, out, n, width_in(pass), pass % 2, ascending));
    return;
  }
  passes.push_back(loop("pass", kMostPasses, [&](const Expr& pass) {
    const Expr width = width_in(pass);
    return make<tir::If>(less(width, n), merged_runs(row, out, n, width, floormod(pass, Expr(2)), ascending));
  }));
}

/// Rows in order, in one half of a buffer.
struct Runs {
  Buffer buffer;
  Expr half;
};

/// By merging runs of 128, 256, 512, ... from the bottom up (Knuth, 5.2.4): n log n steps. Nothing is done
/// where `holds` is false.
Runs merged_rows(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& holds) {
  const Expr& n = x->shape[axis];
  Shape halves = x->shape;
  halves.insert(halves.begin(), Expr(2));
  const Buffer runs = f.opaque("runs", halves, kInt64, {x}, [&](const Buffer& out) {
    const Row row(x, out, axis, variables_of(x));
    std::vector<tir::Stmt> passes = {first_runs(row, x, out, n, ascending)};
    add_passes(row, out, n, ascending, passes);
    const tir::Stmt rows = row.for_each(tir::seq(std::move(passes)));
    return is_int(holds, 1) ? rows : make<tir::If>(holds, rows);
  });
  return {runs, last_half(n)};
}

/// Element `i` of what is in order.
Expr in_order(const Runs& runs, std::vector<Expr> i) {
  i.insert(i.begin(), runs.half);
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
