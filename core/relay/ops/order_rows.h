// Rows of a tensor, and how their elements compare: what orders are made of.
#pragma once

#include <functional>

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

inline Expr is_nan(const Expr& x) { return intrinsic(Intrinsic::kIsNan, x); }
/// One for each dimension of `x`.
std::vector<Var> variables_of(const Buffer& x);

/// Whether `a` comes before `b`, which comes first where they are equal. NaN stands behind all numbers.
Expr comes_before(const Expr& a, const Expr& b, bool ascending);

/// `body` for each value of the variables of dimensions of `shape` that are not within it, by all cores where
/// there is something to do.
inline tir::Stmt for_all(const Shape& shape, const std::vector<Var>& vars,
                         const std::function<bool(size_t d)>& is_within, tir::Stmt body) {
  auto is_outer = [&](size_t d) { return !is_within(d) && !(as_int(shape[d]) && int_value(shape[d]) == 1); };
  constexpr int64_t kFewest = 4096;  // elements; those of open extents may be many
  const Expr elements = dims_product(shape, 0, shape.size());
  size_t outermost = as_int(elements) && int_value(elements) < kFewest ? vars.size() : 0;
  while (outermost < vars.size() && !is_outer(outermost)) ++outermost;
  for (size_t d = vars.size(); d-- > 0;)
    if (!is_within(d))
      body = tir::for_loop(vars[d], shape[d], body,
                           d == outermost ? tir::Iteration::kParallel : tir::Iteration::kSerial);
  return body;
}

/// The elements of one row of `x`, and places of a row of `out`, which may have dimensions before those of x.
class Row {
 public:
  Row(const Buffer& x, const Buffer& out, size_t axis, std::vector<Var> vars)
      : x_(x), out_(out), axis_(axis), vars_(std::move(vars)) {}

  Expr element(const Expr& i) const { return load(x_, at_index(i)); }
  std::vector<Expr> place(const Expr& i, std::vector<Expr> before = {}) const {
    const std::vector<Expr> indices = at_index(i);
    before.insert(before.end(), indices.begin(), indices.end());
    return before;
  }
  Expr kept(const Expr& i, std::vector<Expr> before = {}) const {
    return load(out_, place(i, std::move(before)));
  }
  /// `row` for each row, as for_all.
  tir::Stmt for_each(tir::Stmt row) const {
    return for_all(
        x_->shape, vars_, [&](size_t d) { return d == axis_; }, std::move(row));
  }

 private:
  std::vector<Expr> at_index(const Expr& i) const {
    std::vector<Expr> indices{vars_.begin(), vars_.end()};
    indices[axis_] = i;
    return indices;
  }
  const Buffer x_, out_;
  const size_t axis_;
  const std::vector<Var> vars_;
};

}  // namespace lathe::relay::ops
