// The program that finds the first few of one row's order, or all of it.
#pragma once

#include <functional>

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// So many are kept on the stack, with several numbers each.
inline constexpr int64_t kMostBest = 1024;

/// What one row of `n` elements takes, in comparisons of vectors: a sixteenth of a cycle, about.
Expr cost_of_placing(const Expr& n);
Expr cost_of_filtering(const Expr& n, const Expr& k);

/// A row, and where the positions of its best go.
struct BestOf {
  std::function<Expr(const Expr& i)> element;
  std::function<tir::Stmt(const Expr& rank, const Expr& position)> put;
  DataType dtype;
  Expr n;  // k at least
  Expr k;
  bool ascending = false;
};
/// Equal elements keep their order, and NaN stands behind all numbers.
///
/// Of each element is counted how many come before it. REQUIRES: n <= most <= kMostBest.
tir::Stmt best_by_placing(const BestOf& row, int64_t most);
/// So is of those alone that a bound on the k-th best lets pass. Right for any n. REQUIRES: 1 <= k <= most <=
/// kMostBest.
tir::Stmt best_by_filtering(const BestOf& row, int64_t most);

}  // namespace lathe::relay::ops
