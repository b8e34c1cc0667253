// Canonical simplification, bounds and proofs of integer expressions.
//
// Index arithmetic (scalar int64) is normalised; expressions of other types keep their shape, only their
// parts are simplified (float arithmetic is never reassociated, narrow integers may wrap). So do int64
// elements of tensors where they are data and not the place of an element (`simplify_value`).
#pragma once

#include <optional>

#include "core/arith/expr.h"

namespace lathe {

/// An inclusive interval; the extremes of int64 stand for infinity.
struct Bound {
  int64_t min = INT64_MIN, max = INT64_MAX;
  bool is_point() const { return min == max; }
  bool operator==(const Bound&) const = default;
};

/// What is known about variables.
struct Facts {
  std::map<const VarNode*, std::pair<Var, Bound>> bounds;
  std::map<const VarNode*, Expr> extents;  // v < extent, for extents that are not constant
};

/// Answers questions about expressions in the context of facts about their variables.
class Analyzer {
 public:
  /// 0 <= v < extent for a constant extent; a symbolic extent gives 0 <= v and remembers v < extent.
  void bind_range(const Var& v, const Expr& extent);
  void bind(const Var& v, Bound bound);
  Bound bound(const Expr& e) const;
  /// An equal expression in canonical form (sums of products by linear terms; floordiv/floormod of sums split
  /// by the divisor where the bounds allow; min/max/comparisons decided where the bounds allow). Idempotent;
  /// the same node comes back when it is canonical already. Integer comparisons become < and ==, !=.
  Expr simplify(const Expr& e) const;
  /// The same for what a program computes instead of where it is: int64 numbers that are loaded, or made with
  /// constants no index has (`is_data`), wrap as ExprNode says. Their sums and products are normalised
  /// (exact modulo 2^64), their divisions, comparisons and extrema keep their shape. The indices of loads are
  /// places again: they lie within buffers.
  Expr simplify_value(const Expr& e) const;
  /// True when the boolean is provably true; false means "not proved".
  bool can_prove(const Expr& condition) const;
  bool can_prove_equal(const Expr& a, const Expr& b) const;

 private:
  Facts facts_;
};

/// Whether no index is made with such a constant: what is computed with it is a number that may wrap.
constexpr bool is_data(int64_t constant) {
  constexpr int64_t kMostOfIndex = int64_t{1} << 40;
  return constant > kMostOfIndex || constant < -kMostOfIndex;
}

/// simplify / prove without a context.
Expr simplify(const Expr& e);
bool prove_equal(const Expr& a, const Expr& b);

/// The conditions that `condition` joins with &&, left to right.
std::vector<Expr> conjuncts(const Expr& condition);

/// e as sum of coefficient * variable + rest, when it is linear in `vars` with constant coefficients.
struct LinearForm {
  std::map<const VarNode*, int64_t> coefficients;  // nonzero
  Expr rest;                                       // free of `vars`
};
std::optional<LinearForm> linear_form(const Expr& e, std::span<const Var> vars);

}  // namespace lathe
