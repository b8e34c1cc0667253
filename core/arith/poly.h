// Sums of products: the normal form behind the simplifier. Internal to core/arith.
#pragma once

#include "core/arith/expr.h"

namespace lathe {

/// coefficient * the product of `factors`: atoms (anything but +, -, * of int64) sorted by `compare`.
struct Term {
  int64_t coefficient = 0;
  std::vector<Expr> factors;
};

/// constant + the sum of `terms`, sorted by factors, coefficients nonzero. Arithmetic wraps like int64
/// itself. Terms with equal factors are merged, unless `?` occurs in them: it is equal to nothing, itself
/// included.
struct Poly {
  std::vector<Term> terms;
  int64_t constant = 0;

  bool is_constant() const { return terms.empty(); }
  /// The only atom of a sum `1 * atom + constant`, or nullptr.
  const Expr* single_atom() const;
};

/// A total order of expressions by structure: 0 for equal ones. Variables order by name, then by age.
int compare(const Expr& a, const Expr& b);
bool contains_any(const Expr& e);
/// Products of this many terms or more are not multiplied out.
inline constexpr size_t kMaxProductTerms = 64;

Poly constant_poly(int64_t value);
Poly atom_poly(Expr atom);
Poly add(const Poly& a, const Poly& b, int64_t scale_of_b = 1);
Poly scale(const Poly& p, int64_t factor);
Poly multiply(const Poly& a, const Poly& b);
/// The sum that `e` writes with + and - of int64, each part (anything else) as `poly_of` gives it.
Poly sum_of(const Expr& e, FunctionRef<Poly(const Expr&)> poly_of);
/// The sum that an expression with simplified atoms stands for; does not look inside the atoms.
Poly decompose(const Expr& e);
/// The canonical expression: larger coefficients first, negative terms subtracted, the constant last.
Expr compose(const Poly& p);

}  // namespace lathe
