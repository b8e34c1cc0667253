// The program that finds the first few of one row's order, or all of it.
#pragma once

#include <functional>
#include <limits>

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// How the best few of a row are found.
struct BestPlan {
  /// Element i is in group i % groups. The k-th best of the best of all groups bounds what is among the best
  /// k; 0: each element is a candidate.
  int64_t groups = 0;
  /// So many candidates are more than are looked for: they are ordered, and bound what may still come.
  int64_t enough = 0;
  /// In comparisons of vectors: a sixteenth of a cycle, about. Infinite where this way does not serve.
  double cost = std::numeric_limits<double>::infinity();
};
/// The cheapest for the first `k` of `n` elements. Where these are open, it is the one that is right for any
/// number of them, made for some thousands.
BestPlan plan_best(const Expr& n, int64_t k);

/// A row, and where the positions of its best go.
struct BestOf {
  std::function<Expr(const Expr& i)> element;
  std::function<tir::Stmt(const Expr& rank, const Expr& position)> put;
  DataType dtype;
  Expr n;  // k at least
  int64_t k = 0;
  bool ascending = false;
};
/// Equal elements keep their order, and NaN stands behind all numbers. REQUIRES: the plan's cost is finite.
tir::Stmt best_of_row(const BestOf& row);

}  // namespace lathe::relay::ops
