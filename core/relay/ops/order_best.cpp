#include "core/relay/ops/order_best.h"

#include <algorithm>

#include "core/relay/ops/best_of_row.h"
#include "core/relay/ops/order.h"
#include "core/relay/ops/order_rows.h"

namespace lathe::relay::ops {
namespace {

/// A row longer than so many elements is worth the work of several cores, where there are few rows.
constexpr int64_t kLongRow = 16384, kFewRows = 8;

/// Into so many parts of equal length a row is cut.
int64_t parts_of(const Buffer& x, size_t axis, int64_t count) {
  if (!as_int(x->shape[axis])) return 1;
  const int64_t n = int_value(x->shape[axis]);
  const Expr elements = dims_product(x->shape, 0, x->shape.size());
  if (n < kLongRow || !as_int(elements) || int_value(elements) / n >= kFewRows) return 1;
  // What parts find is ordered once more.
  return std::clamp<int64_t>(n / std::max<int64_t>(kLongRow / 4, 16 * count), 1, 2 * kFewRows);
}

/// positions[part, r]: those of the best of each part of each row.
Buffer best_of_parts(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, int64_t count,
                     int64_t parts) {
  Shape shape = x->shape;
  shape[axis] = count;
  if (parts > 1) shape.insert(shape.begin(), Expr(parts));
  return f.opaque("best", shape, kInt64, {x}, [&](const Buffer& out) {
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
    const tir::Stmt rows = row.for_each(best_of_row(best));
    return parts > 1 ? tir::for_loop(part, Expr(parts), rows, tir::Iteration::kParallel) : rows;
  });
}

}  // namespace

double cost_of_best(const Expr& n, int64_t count) { return plan_best(n, count).cost; }

Buffer order_of_best(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, int64_t count) {
  const int64_t parts = parts_of(x, axis, count);
  const Buffer found = best_of_parts(f, x, axis, ascending, count, parts);
  if (parts == 1) return found;
  const int64_t n = int_value(x->shape[axis]);
  // The best of the parts, and what is left of a row behind them, in the order they have in the row.
  Shape shape = x->shape;
  const int64_t of_parts = parts * count;
  shape[axis] = of_parts + n % parts;
  const Buffer positions = f.compute("candidates", shape, [&](Vars i) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = floormod(i[axis], Expr(count));
    indices.insert(indices.begin(), floordiv(i[axis], Expr(count)));
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
  return picked("order", positions, order(f, values, axis, ascending, Expr(count)));
}

}  // namespace lathe::relay::ops
