// Random expressions for property tests of what reasons about indices.
#pragma once

#include <random>

#include "core/arith/simplify.h"
#include "core/support/error.h"
#include "tests/arith/evaluate.h"

namespace lathe {

/// Random index expressions over variables of known ranges, and one of any value (extent 0).
class RandomExpr {
 public:
  explicit RandomExpr(uint32_t seed) : random_(seed) {
    for (int64_t extent : {2, 3, 4, 8, 16, 7}) {
      vars_.push_back(var(fmt::format("v{}", vars_.size())));
      extents_.push_back(extent);
      analyzer_.bind_range(vars_.back(), Expr(extent));
    }
    vars_.push_back(var("free"));
    extents_.push_back(0);
  }

  const std::vector<Var>& vars() const { return vars_; }
  const std::vector<int64_t>& extents() const { return extents_; }
  const Analyzer& analyzer() const { return analyzer_; }
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  Expr index(int depth) {
    if (depth == 0) return pick(0, 3) ? Expr(vars_[pick(0, vars_.size() - 1)]) : Expr(pick(-20, 20));
    Expr a = index(depth - 1);
    static constexpr int64_t kDivisors[] = {1, 2, 3, 4, 8, 12, 16, 32, -4};
    Expr divisor(kDivisors[pick(0, 8)]);
    switch (pick(0, 9)) {
      case 0:
      case 1:
        return a + index(depth - 1);
      case 2:
        return a - index(depth - 1);
      case 3:
        return a * divisor;
      case 4:
        return floordiv(a, divisor);
      case 5:
        return floormod(a, divisor);
      case 6:
        return min(a, index(depth - 1));
      case 7:
        return max(a, index(depth - 1));
      case 8:
        return select(condition(depth - 1), a, index(depth - 1));
      default:
        return floordiv(a, divisor) * divisor + floormod(a, divisor);
    }
  }

  Expr condition(int depth) {
    switch (depth == 0 ? pick(0, 2) : pick(0, 5)) {
      case 0:
        return less(index(depth), index(depth));
      case 1:
        return less_equal(index(depth), index(depth));
      case 2:
        return pick(0, 1) ? equal(index(depth), index(depth)) : not_equal(index(depth), index(depth));
      case 3:
        return logical_and(condition(depth - 1), condition(depth - 1));
      case 4:
        return logical_or(condition(depth - 1), condition(depth - 1));
      default:
        return logical_not(condition(depth - 1));
    }
  }

  Values values() {
    Values values;
    for (size_t v = 0; v < vars_.size(); ++v)
      values[vars_[v].get()] = extents_[v] ? pick(0, extents_[v] - 1) : pick(-1000, 1000);
    return values;
  }

 private:
  std::mt19937 random_;
  std::vector<Var> vars_;
  std::vector<int64_t> extents_;
  Analyzer analyzer_;
};

}  // namespace lathe
