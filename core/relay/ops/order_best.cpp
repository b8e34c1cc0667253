#include "core/relay/ops/order_best.h"

#include <algorithm>
#include <bit>

#include "core/arith/simplify.h"
#include "core/relay/ops/best_of_row.h"
#include "core/relay/ops/order.h"
#include "core/relay/ops/order_rows.h"

namespace lathe::relay::ops {
namespace {

/// A row longer than so many elements is worth the work of several cores, where there are few rows.
constexpr int64_t kLongRow = 16384, kFewRows = 8;

/// Into so many parts of equal length a row is cut.
int64_t parts_of(const Buffer& x, size_t axis, const Expr& count) {
  if (!as_int(x->shape[axis]) || !as_int(count)) return 1;
  const int64_t n = int_value(x->shape[axis]);
  const Expr elements = dims_product(x->shape, 0, x->shape.size());
  if (n < kLongRow || !as_int(elements) || int_value(elements) / n >= kFewRows) return 1;
  // What parts find is ordered once more.
  return std::clamp<int64_t>(n / std::max<int64_t>(kLongRow / 4, 16 * int_value(count)), 1, 2 * kFewRows);
}

/// The most of `count` that is known, or as many as are ever looked for.
int64_t most_of(const Expr& count) {
  return std::min(kMostBest, as_int(count) ? int_value(count) : Analyzer().bound(simplify(count)).max);
}

/// ceil(log2(n)) of rows of more than some tens.
Expr doublings_of(const Expr& n) {
  constexpr int64_t kFewest = 6, kMost = 16;
  if (as_int(n))
    return Expr(
        static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(int_value(n), 2) - 1))));
  Expr doublings = kMost;
  for (int64_t d = kMost - 1; d >= kFewest; --d)
    doublings = select(less_equal(n, Expr(int64_t{1} << d)), Expr(d), doublings);
  return doublings;
}

using RowProgram = std::function<tir::Stmt(const BestOf& row)>;

/// `rows` with the program that serves: what decides is one for all rows.
tir::Stmt chosen(const WaysToOrder& ways, const Expr& n, const Expr& count,
                 const std::function<tir::Stmt(const RowProgram& program)>& rows) {
  auto placing = [&](int64_t most) {
    return rows([most](const BestOf& row) { return best_by_placing(row, most); });
  };
  auto when = [](const Expr& holds, const std::function<tir::Stmt()>& make_it, std::vector<tir::Stmt>& into) {
    if (is_int(holds, 0)) return;
    into.push_back(is_int(holds, 1) ? make_it() : make<tir::If>(holds, make_it()));
  };
  std::vector<tir::Stmt> statements;
  // Of few numbers fewer vectors are compared at once.
  constexpr int64_t kFew = 96;
  if (as_int(n)) {
    when(
        ways.by_placing, [&] { return placing(int_value(n)); }, statements);
  } else {
    const Expr few = less_equal(n, Expr(kFew));
    when(
        simplify(logical_and(ways.by_placing, few)), [&] { return placing(kFew); }, statements);
    when(
        simplify(logical_and(ways.by_placing, logical_not(few))), [&] { return placing(kMostBest); },
        statements);
  }
  when(
      ways.by_filtering,
      [&] { return rows([&](const BestOf& row) { return best_by_filtering(row, most_of(count)); }); },
      statements);
  return tir::seq(std::move(statements));
}

/// positions[part, r]: those of the best of each part of each row.
Buffer best_of_parts(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count,
                     int64_t parts, const WaysToOrder& ways, const std::vector<Buffer>& reads,
                     const std::function<tir::Stmt(const Buffer& out)>& merged) {
  Shape shape = x->shape;
  shape[axis] = count;
  if (parts > 1) shape.insert(shape.begin(), Expr(parts));
  std::vector<Buffer> all_reads = {x};
  all_reads.insert(all_reads.end(), reads.begin(), reads.end());
  return f.opaque("best", shape, kInt64, all_reads, [&](const Buffer& out) {
    const Row row(x, out, axis, variables_of(x));
    const Expr n = parts > 1 ? floordiv(x->shape[axis], Expr(parts)) : x->shape[axis];
    const Var part = lathe::var("part");
    const std::vector<Expr> before = parts > 1 ? std::vector<Expr>{part} : std::vector<Expr>();
    const Expr begin = parts > 1 ? part * n : Expr(0);
    const BestOf best = {.element = [&](const Expr& i) { return row.element(begin + i); },
                         .put =
                             [&](const Expr& rank, const Expr& position) {
                               return tir::store(out, row.place(rank, before), begin + position);
                             },
                         .dtype = x->dtype,
                         .n = n,
                         .k = count,
                         .ascending = ascending};
    const tir::Stmt rows =
        chosen(ways, n, count, [&](const RowProgram& program) { return row.for_each(program(best)); });
    if (parts > 1) return tir::for_loop(part, Expr(parts), rows, tir::Iteration::kParallel);
    return merged ? tir::seq({rows, make<tir::If>(ways.by_merging, merged(out))}) : rows;
  });
}

}  // namespace

WaysToOrder ways_to_order(const Expr& n, const Expr& count) {
  // In the unit of the costs. By a stopwatch merging takes as long as placing 380 elements, and 480 of open
  // rows.
  constexpr int64_t kOfMerging = 54, kOfMergingOpenRows = 72;
  // Where so few are looked for one of the other ways is best, however long the rows.
  constexpr int64_t kFew = 256;
  const Expr placing = cost_of_placing(n), filtering = cost_of_filtering(n, count),
             merging = n * doublings_of(n) * (as_int(n) ? kOfMerging : kOfMergingOpenRows);
  const bool is_open = !as_int(n) || !as_int(count);
  const bool may_merge = !is_open || most_of(count) > kFew;
  const Expr is_any = less(Expr(0), count);
  const Expr can_place = logical_and(is_any, less_equal(n, Expr(kMostBest)));
  const Expr can_filter = logical_and(is_any, less_equal(count, Expr(kMostBest)));
  auto no_more = [&](const Expr& a, const Expr& b) { return may_merge ? less(a, b) : imm(kBool, 1); };
  const Expr by_placing =
      simplify(logical_and(logical_and(can_place, no_more(placing, merging)),
                           logical_not(logical_and(can_filter, less_equal(filtering, placing)))));
  const Expr by_filtering =
      simplify(logical_and(logical_and(can_filter, no_more(filtering, merging)), logical_not(by_placing)));
  const Expr is_left =
      logical_and(is_open ? is_any : imm(kBool, 1), logical_not(logical_or(by_placing, by_filtering)));
  const Expr by_merging = may_merge ? simplify(is_left) : imm(kBool, 0);
  return {by_placing, by_filtering, by_merging};
}

Buffer order_of_best(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count,
                     const WaysToOrder& ways, const std::vector<Buffer>& reads,
                     const std::function<tir::Stmt(const Buffer& out)>& merged) {
  const int64_t parts = parts_of(x, axis, count);
  const Buffer found = best_of_parts(f, x, axis, ascending, count, parts, ways, reads, merged);
  if (parts == 1) return found;
  const int64_t n = int_value(x->shape[axis]);
  // The best of the parts, and what is left of a row behind them, in the order they have in the row.
  Shape shape = x->shape;
  const int64_t of_parts = parts * int_value(count);
  shape[axis] = of_parts + n % parts;
  const Buffer positions = f.compute("candidates", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = floormod(i[axis], count);
    indices.insert(indices.begin(), floordiv(i[axis], count));
    return select(less(i[axis], Expr(of_parts)), load(found, indices),
                  i[axis] - of_parts + n / parts * parts);
  });
  auto picked = [&](const char* name, const Buffer& from, const Buffer& at_positions) {
    return f.compute(name, at_positions->shape, [&](Vars i) {
      std::vector<Expr> indices = as_indices(i);
      indices[axis] = at(at_positions, i);
      return load(from, indices);
    });
  };
  const Buffer values = picked("values", x, positions);
  return picked("order", positions, order(f, values, axis, ascending, count));
}

}  // namespace lathe::relay::ops
