// The simplifier at work on one expression. Internal to core/arith; the interface is simplify.h.
#pragma once

#include <array>
#include <unordered_map>

#include "core/arith/poly.h"
#include "core/arith/simplify.h"

namespace lathe {

/// REQUIRES: `facts` outlives it.
class Simplifier {
 public:
  enum class Reading { kPlace, kValue };  // Analyzer::simplify, simplify_value
  explicit Simplifier(const Facts& facts, Reading reading = Reading::kPlace)
      : facts_(facts), reading_(reading) {}

  Expr simplify(const Expr& e);
  /// The simplified value of an int64 expression as a sum.
  Poly poly(const Expr& e);
  /// Of sums and expressions that are simplified already (bounds.cpp).
  Bound bound(const Poly& p) const;
  Bound bound(const Expr& e) const;

 private:
  Expr simplify_new(const Expr& e);
  Expr simplify_binary(const Binary& e);
  /// Whether e is read as a value and has an int64 part, outside the indices of loads, that may wrap.
  bool may_wrap(const Expr& e) const;
  Expr simplify_wrapping(const Binary& e);
  Poly sum_of(const Expr& e);

  // recombine.cpp: divisions and remainders of one number that make it up again.
  Poly recombine(Poly p) const;

  // divide.cpp
  Poly quotient(const Poly& p, const Poly& divisor) const;
  Poly remainder(const Poly& p, const Poly& divisor) const;
  Poly quotient(const Poly& p, int64_t divisor) const;
  Poly remainder(const Poly& p, int64_t divisor) const;

  // compare.cpp: of int64 values, and logic.
  Expr less(const Poly& a, const Poly& b) const;
  Expr equality(BinaryOp op, const Poly& a, const Poly& b) const;
  Expr extremum(BinaryOp op, const Expr& a, const Expr& b) const;
  Expr logic(BinaryOp op, const Expr& a, const Expr& b) const;
  Expr negation(const Expr& e) const;

  /// The sum d of a condition `0 < d`, when the condition is one.
  std::optional<Poly> positive_sum(const Expr& e) const;
  /// True when a implies b, both of the form 0 < sum with sums that differ by a constant.
  bool implies(const Expr& a, const Expr& b) const;

  // bounds.cpp
  Bound interval(const Poly& p) const;
  Bound binary_bound(const Binary& e) const;
  std::optional<Poly> relax(const Poly& p, bool upward) const;

  const Facts& facts_;
  Reading reading_;  // of what is being simplified
  // By node: it, so that it stays alive, and its simplified form by reading, or bound, or what may wrap.
  std::unordered_map<const Node*, std::pair<Expr, std::array<Expr, 2>>> memo_;
  mutable std::unordered_map<const Node*, std::pair<Expr, bool>> wrapping_;
  mutable std::unordered_map<const Node*, std::pair<Expr, Bound>> bounds_;
};

/// Terms that are one floordiv or floormod: what simplification tries to have few of.
const Binary* as_division(const Term& term, BinaryOp op);
size_t count_divisions(const Poly& p);
/// Fewer divisions, or as many and fewer terms.
bool has_fewer_parts(const Poly& a, const Poly& b);

}  // namespace lathe
