// Rows of a tensor, and how their elements compare: what orders are made of.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// Elements of a row of open length, where it is to be guessed.
inline constexpr int64_t kTypicalRow = 4096;

inline Expr is_nan(const Expr& x) { return intrinsic(Intrinsic::kIsNan, x); }
/// One for each dimension of `x`.
std::vector<Var> variables_of(const Buffer& x);

/// Whether `a` comes before `b`, which comes first where they are equal. NaN stands behind all numbers.
Expr comes_before(const Expr& a, const Expr& b, bool ascending);

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
  /// `row` for each row, by all cores where there is something to do.
  tir::Stmt for_each(tir::Stmt row) const {
    auto rows = [&](size_t d) {
      return d != axis_ && !(as_int(x_->shape[d]) && int_value(x_->shape[d]) == 1);
    };
    constexpr int64_t kFewest = 4096;  // elements; those of open rows may be many
    const Expr elements = dims_product(x_->shape, 0, x_->shape.size());
    size_t outermost = as_int(elements) && int_value(elements) < kFewest ? vars_.size() : 0;
    while (outermost < vars_.size() && !rows(outermost)) ++outermost;
    for (size_t d = vars_.size(); d-- > 0;)
      if (d != axis_)
        row = tir::for_loop(vars_[d], x_->shape[d], row,
                            d == outermost ? tir::Iteration::kParallel : tir::Iteration::kSerial);
    return row;
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
