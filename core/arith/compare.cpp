// Comparisons, extrema and logic.
#include <algorithm>
#include <numeric>

#include "core/arith/simplifier.h"

namespace lathe {
namespace {
/// The sides of `negative part of d` op `positive part of d`, so that d = right - left.
std::pair<Expr, Expr> sides(const Poly& d) {
  Poly left, right;
  for (const Term& term : d.terms) (term.coefficient < 0 ? left : right).terms.push_back(term);
  (d.constant < 0 ? left : right).constant = d.constant;
  return {compose(scale(left, -1)), compose(right)};
}

/// The sum of the sizes of all coefficients.
uint64_t magnitude(const Poly& p) {
  uint64_t sum = 0;
  // By unsigned numbers: the least int64 has no absolute value.
  for (const Term& term : p.terms) {
    const auto coefficient = static_cast<uint64_t>(term.coefficient);
    sum += term.coefficient < 0 ? 0 - coefficient : coefficient;
  }
  return sum;
}

/// A strict order without endless descents, which is what ends the loop in `less`: no more divisions and no
/// more terms, and fewer terms or smaller coefficients.
bool simpler(const Poly& a, const Poly& b) {
  if (count_divisions(a) > count_divisions(b) || a.terms.size() > b.terms.size()) return false;
  return a.terms.size() < b.terms.size() || magnitude(a) < magnitude(b);
}

/// Divisions inside of divisions too.
int64_t count_nested_divisions(const Poly& p) {
  int64_t count = 0;
  for (const Term& term : p.terms)
    for (const Expr& factor : term.factors)
      post_order(factor, [&](const NodeRef& node) {
        const Binary* b = node.as<Binary>();
        count += b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
      });
  return count;
}

/// Without a quotient that stands alone in it, `d` > 0 as another sum > 0: x//c + r > 0 is x + c*r > c - 1,
/// and r - x//c > 0 is c*r - x > 0. Nothing where there is none.
std::optional<Poly> without_quotient(const Poly& d) {
  // Coefficients, and what they are multiplied by: products with dimensions stay numbers.
  constexpr int64_t kMost = int64_t{1} << 31, kMostDivisor = 1 << 16;
  const auto is_small = [](const Poly& p) {
    return magnitude(p) < uint64_t{kMost} && p.constant > -kMost && p.constant < kMost;
  };
  if (!is_small(d)) return std::nullopt;
  for (const Term& term : d.terms) {
    const Binary* quotient = as_division(term, BinaryOp::kFloorDiv);
    const int64_t* by = quotient ? as_int(quotient->b) : nullptr;
    if (!by || *by <= 0 || *by > kMostDivisor || std::abs(term.coefficient) != 1) continue;
    const Poly x = decompose(quotient->a), rest = scale(add(d, {{term}, 0}, -1), *by);
    if (!is_small(x)) continue;
    return term.coefficient > 0 ? add(add(rest, x), constant_poly(1 - *by)) : add(rest, x, -1);
  }
  return std::nullopt;
}

/// The operands of a tree of one associative operation, from left to right.
void flatten(BinaryOp op, const Expr& e, std::vector<Expr>& parts) {
  const Binary* b = e.as<Binary>();
  if (!b || b->op != op) return parts.push_back(e);
  flatten(op, b->a, parts);
  flatten(op, b->b, parts);
}
}  // namespace

std::optional<Poly> Simplifier::positive_sum(const Expr& e) const {
  const Binary* b = e.as<Binary>();
  if (!b || b->op != BinaryOp::kLt || b->a.dtype() != kInt64 || may_wrap(e)) return std::nullopt;
  return add(decompose(b->b), decompose(b->a), -1);
}

bool Simplifier::implies(const Expr& a, const Expr& b) const {
  if (compare(a, b) == 0) return !contains_any(a);
  auto x = positive_sum(a), y = positive_sum(b);
  if (!x || !y) return false;
  Poly difference = add(*y, *x, -1);
  return difference.is_constant() && difference.constant >= 0;
}

/// a < b as 0 < d, where d = b - a: decided by the bounds of d, or written with small coefficients and each
/// term on the side where it is added, so that equal comparisons get equal forms.
Expr Simplifier::less(const Poly& a, const Poly& b) const {
  Poly d = recombine(add(b, a, -1));
  for (bool changed = true; changed;) {
    changed = false;
    Bound range = bound(d);
    if (range.min >= 1) return imm(kBool, 1);
    if (range.max <= 0) return imm(kBool, 0);
    if (std::optional<Poly> whole = without_quotient(d)) {
      // What the quotient hid may cancel: 5x + (x + y)//3 < 7 is 16x + y < 21.
      if (Poly simplified = recombine(*whole); count_divisions(simplified) < count_divisions(d)) {
        d = std::move(simplified);
        changed = true;
        continue;
      }
    }
    // 0 < d is 0 <= (d - 1)//s for any s > 0: 8x + y < 16 is x < 2 when 0 <= y < 8.
    for (const Term& term : d.terms) {
      if (term.coefficient == INT64_MIN) continue;
      int64_t step = std::abs(term.coefficient);
      if (step <= 1) continue;
      Poly divided = add(quotient(add(d, constant_poly(-1)), step), constant_poly(1));
      if (!simpler(divided, d)) continue;
      // Of an open dimension, a sum of tiles' places says more than a quotient that hides them.
      const bool open = range.min == INT64_MIN || range.max == INT64_MAX;
      if (open && count_nested_divisions(divided) > count_nested_divisions(d)) continue;
      d = recombine(divided);
      changed = true;
      break;
    }
  }
  auto [left, right] = sides(d);
  return lathe::less(left, right);
}

/// a == b (or !=) as 0 == b - a, divided by what divides all coefficients: when that does not divide the
/// constant, no integers solve it.
Expr Simplifier::equality(BinaryOp op, const Poly& a, const Poly& b) const {
  bool if_equal = op == BinaryOp::kEq;
  Poly d = recombine(add(b, a, -1));
  if (d.is_constant()) return imm(kBool, (d.constant == 0) == if_equal);
  Bound range = bound(d);
  int64_t divisor = 0;
  for (const Term& term : d.terms) divisor = std::gcd(divisor, term.coefficient);
  if (range.min > 0 || range.max < 0 || d.constant % divisor != 0) return imm(kBool, !if_equal);
  for (Term& term : d.terms) term.coefficient /= divisor;
  d.constant /= divisor;
  // d and -d are one equation: the first term stands on the left in both.
  if (d.terms[0].coefficient > 0) d = scale(d, -1);
  auto [left, right] = sides(d);
  return binary(op, left, right);
}

/// min (max) of all operands, without those that another one provably beats. Quadratic in the operands, of
/// which index expressions have a handful.
Expr Simplifier::extremum(BinaryOp op, const Expr& a, const Expr& b) const {
  std::vector<Expr> parts, kept;
  flatten(op, a, parts);
  flatten(op, b, parts);
  for (const Expr& part : parts) {
    Poly p = decompose(part);
    // x beats y when it is the extremum of the two whatever the variables are.
    auto beats = [&](const Poly& x, const Poly& y) {
      return bound(op == BinaryOp::kMin ? add(y, x, -1) : add(x, y, -1)).min >= 0;
    };
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& k) { return beats(decompose(k), p); }))
      continue;
    std::erase_if(kept, [&](const Expr& k) { return beats(p, decompose(k)); });
    kept.push_back(part);
  }
  // One order, however the operands were nested.
  std::sort(kept.begin(), kept.end(), [](const Expr& x, const Expr& y) { return compare(y, x) < 0; });
  Expr result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = binary(op, result, kept[i]);
  return result;
}

/// && (||) of all operands, without those that others make redundant; a constant when two contradict each
/// other (one of two always holds). Operands keep their order.
Expr Simplifier::logic(BinaryOp op, const Expr& a, const Expr& b) const {
  std::vector<Expr> parts, kept;
  flatten(op, a, parts);
  flatten(op, b, parts);
  bool conjunction = op == BinaryOp::kAnd;
  for (const Expr& part : parts) {
    if (is_int(part, conjunction ? 0 : 1)) return part;
    if (is_int(part, conjunction ? 1 : 0)) continue;
    // In `x && y`, y may go when x implies it; in `x || y`, when it implies x.
    auto covers = [&](const Expr& x, const Expr& y) { return conjunction ? implies(x, y) : implies(y, x); };
    // x && y is false when x implies !y; x || y is true when !y implies x.
    Expr opposite = negation(part);
    for (const Expr& k : kept)
      if (conjunction ? implies(k, opposite) : implies(opposite, k)) return imm(kBool, !conjunction);
    if (std::any_of(kept.begin(), kept.end(), [&](const Expr& k) { return covers(k, part); })) continue;
    std::erase_if(kept, [&](const Expr& k) { return covers(part, k); });
    kept.push_back(part);
  }
  if (kept.empty()) return imm(kBool, conjunction);
  Expr result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = binary(op, result, kept[i]);
  return result;
}

/// !e with the `not` moved inward as far as it goes, by De Morgan's laws, so that `logic` meets comparisons
/// it can compare.
Expr Simplifier::negation(const Expr& e) const {
  if (const Not* n = e.as<Not>()) return n->a;
  const Binary* b = e.as<Binary>();
  if (!b || b->dtype != kBool) return logical_not(e);
  bool index = b->a.dtype() == kInt64;
  switch (b->op) {
    case BinaryOp::kLt:
      if (index && may_wrap(e)) return less_equal(b->b, b->a);
      if (index) return less(decompose(b->b), add(decompose(b->a), constant_poly(1)));
      return logical_not(e);  // not `>=`: NaN
    case BinaryOp::kLe:
      return index ? lathe::less(b->b, b->a) : logical_not(e);
    case BinaryOp::kEq:
      // Right for NaN too: it is unequal to everything.
      return binary(BinaryOp::kNe, b->a, b->b);
    case BinaryOp::kNe:
      return binary(BinaryOp::kEq, b->a, b->b);
    case BinaryOp::kAnd:
      return logic(BinaryOp::kOr, negation(b->a), negation(b->b));
    case BinaryOp::kOr:
      return logic(BinaryOp::kAnd, negation(b->a), negation(b->b));
    default:
      return logical_not(e);
  }
}

}  // namespace lathe
