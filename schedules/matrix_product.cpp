#include "schedules/matrix_product.h"

#include <algorithm>

#include "core/support/error.h"

namespace lathe::schedule {

using namespace tir;

namespace {
bool indexes(const Load& load, const Var& v) {
  return std::any_of(load.indices.begin(), load.indices.end(),
                     [&](const Expr& index) { return uses_var(index, v.get()); });
}

/// An even number falls into halves.
bool makes_better_rows(const BlockIter& a, const BlockIter& b) {
  const int64_t x = int_value(a.extent), y = int_value(b.extent);
  return x % 2 != y % 2 ? x % 2 == 0 : x > y;
}
}  // namespace

MatrixProduct matrix_product_of(const Ref<Block>& block) {
  MatrixProduct p{sum_of_products(block)};
  const std::vector<Expr>& out = p.update->indices;
  std::vector<const BlockIter*> rows;
  // Each variable has one part: the result's last dimension is the columns, the one that is summed over the
  // depth, and all others are rows.
  for (const BlockIter& iter : block->iters) {
    if (is_int(iter.extent, 1)) continue;
    const bool last = !out.empty() && out.back().same_as(iter.var.get());
    // The weight is the factor with columns, on whichever side it was written.
    if (last && indexes(*p.data, iter.var)) std::swap(p.data, p.weight);
    if (last)
      p.column = iter.var, p.columns = int_value(iter.extent);
    else if (iter.kind != IterKind::kReduce)
      rows.push_back(&iter);
    else if (p.depth)
      fail("block `{}` sums over more than one variable", block->name);
    else
      p.depth = iter.var, p.depths = int_value(iter.extent);
  }
  if (!p.column || !p.depth || rows.empty())
    fail("block `{}` has no rows, no columns, or nothing to sum over", block->name);
  // Rows are the data's alone: a variable of both factors is a batch, and each of its values another product.
  auto is_rows = [&](const BlockIter* iter) {
    return indexes(*p.data, iter->var) && !indexes(*p.weight, iter->var);
  };
  if (indexes(*p.data, p.column) || !indexes(*p.data, p.depth) || !indexes(*p.weight, p.depth) ||
      !std::all_of(rows.begin(), rows.end(), is_rows))
    fail("block `{}` is no product of rows and columns", block->name);
  // One dimension is cut in halves; the other rows only repeat the product.
  const BlockIter* row =
      *std::min_element(rows.begin(), rows.end(),
                        [](const BlockIter* a, const BlockIter* b) { return makes_better_rows(*a, *b); });
  p.row = row->var;
  p.rows = int_value(row->extent);
  p.out_row = static_cast<size_t>(
      std::find_if(out.begin(), out.end(), [&](const Expr& index) { return index.same_as(row->var.get()); }) -
      out.begin());
  std::erase(rows, row);
  p.others = std::move(rows);
  return p;
}

}  // namespace lathe::schedule
