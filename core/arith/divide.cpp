// Floor division and remainder of sums.
#include <algorithm>
#include <numeric>

#include "core/arith/simplifier.h"
#include "core/support/floor_div.h"

namespace lathe {
namespace {
/// p = divisor * quotient + rest, coefficients of `rest` smaller than the divisor, its constant not negative.
struct Split {
  Poly quotient, rest;
};

/// Coefficients are truncated, not rounded down: -x stays -x, which rounding down would make (divisor - 1) *
/// x.
Split split_by(const Poly& p, int64_t divisor) {
  Split result;
  result.quotient.constant = floor_div(p.constant, divisor);
  result.rest.constant = floor_mod(p.constant, divisor);
  for (const Term& term : p.terms) {
    int64_t q = term.coefficient / divisor, r = term.coefficient % divisor;
    if (q != 0) result.quotient.terms.push_back({q, term.factors});
    if (r != 0) result.rest.terms.push_back({r, term.factors});
  }
  return result;
}

/// p = step * high + low: the terms that are multiples of `step`, and the others.
Split split_multiples(const Poly& p, int64_t step) {
  Split result;
  result.quotient.constant = floor_div(p.constant, step);
  result.rest.constant = floor_mod(p.constant, step);
  for (const Term& term : p.terms) {
    if (term.coefficient % step == 0)
      result.quotient.terms.push_back({term.coefficient / step, term.factors});
    else
      result.rest.terms.push_back(term);
  }
  return result;
}

/// Common divisors of the divisor and of some coefficients, largest first.
/// The largest one leaves the smallest division to do.
std::vector<int64_t> steps_of(const Poly& p, int64_t divisor) {
  std::vector<int64_t> steps;
  for (const Term& term : p.terms) {
    int64_t step = std::gcd(term.coefficient, divisor);
    if (step > 1 && step < divisor) steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

/// The k with k * divisor <= x < (k + 1) * divisor for all x of the bound, when there is one.
std::optional<int64_t> common_quotient(Bound b, int64_t divisor) {
  if (b.min == INT64_MIN || b.max == INT64_MAX) return std::nullopt;
  int64_t k = floor_div(b.min, divisor);
  return k == floor_div(b.max, divisor) ? std::optional(k) : std::nullopt;
}

/// The division as it stands, for when nothing is known that removes it.
Poly division_atom(BinaryOp op, const Poly& p, const Poly& divisor) {
  return atom_poly(binary(op, compose(p), compose(divisor)));
}

/// Whether b is a divisor of a. INT64_MIN / -1 is no int64, and traps.
bool divides(int64_t b, int64_t a) { return b == -1 ? a != INT64_MIN : a % b == 0; }

/// The terms of p that a product `divisor` (one term, no constant) divides, divided; and the others.
Split split_by_product(const Poly& p, const Poly& divisor) {
  Split result;
  result.rest.constant = p.constant;
  if (divisor.terms.size() != 1 || divisor.constant != 0) return {{}, p};
  const Term& d = divisor.terms[0];
  for (const Term& term : p.terms) {
    std::vector<Expr> left = term.factors;
    bool whole = divides(d.coefficient, term.coefficient);
    for (const Expr& factor : d.factors) {
      auto found =
          std::find_if(left.begin(), left.end(), [&](const Expr& f) { return compare(f, factor) == 0; });
      if (found == left.end() || contains_any(factor))
        whole = false;
      else
        left.erase(found);
    }
    if (!whole)
      result.rest.terms.push_back(term);
    else if (left.empty())
      result.quotient.constant += term.coefficient / d.coefficient;
    else
      result.quotient = add(result.quotient, {{{term.coefficient / d.coefficient, left}}, 0});
  }
  return result;
}
}  // namespace

const Binary* as_division(const Term& term, BinaryOp op) {
  if (term.factors.size() != 1) return nullptr;
  const Binary* b = term.factors[0].as<Binary>();
  return b && b->op == op && b->dtype == kInt64 ? b : nullptr;
}

bool has_fewer_parts(const Poly& a, const Poly& b) {
  size_t x = count_divisions(a), y = count_divisions(b);
  return x != y ? x < y : a.terms.size() < b.terms.size();
}

size_t count_divisions(const Poly& p) {
  // In products, too: the partner of x % n, with n a variable, is n * (x // n).
  size_t count = 0;
  for (const Term& term : p.terms)
    count += static_cast<size_t>(std::ranges::count_if(term.factors, [](const Expr& factor) {
      const Binary* b = factor.as<Binary>();
      return b && (b->op == BinaryOp::kFloorDiv || b->op == BinaryOp::kFloorMod);
    }));
  return count;
}

/// p // divisor. Multiples of the divisor come out of any floor division exactly; the steps after that look
/// for a reason why what is left divides to a constant, to less, or by less. Each recursion has fewer
/// divisions, fewer terms or a smaller divisor in it.
Poly Simplifier::quotient(const Poly& p, int64_t divisor) const {
  if (divisor == 0 || divisor == INT64_MIN)
    // Division by 0 is undefined, and -INT64_MIN is no int64: both stay as they are written.
    return division_atom(BinaryOp::kFloorDiv, p, constant_poly(divisor));
  if (divisor < 0) return quotient(scale(p, -1), -divisor);
  auto [whole, rest] = split_by(p, divisor);
  // What is left may make up a number again that the terms taken away had hidden: 20*(x//4) + x%4 by 16.
  if (Poly merged = recombine(rest); has_fewer_parts(merged, rest))
    return add(whole, quotient(merged, divisor));
  if (auto k = common_quotient(bound(rest), divisor)) return add(whole, constant_poly(*k));
  // (8x + y)//16 = x//2 when 0 <= y < 8.
  for (int64_t step : steps_of(rest, divisor)) {
    // rest = step * high + low and low // step = k, so rest // step = high + k.
    auto [high, low] = split_multiples(rest, step);
    if (auto k = common_quotient(bound(low), step))
      return add(whole, quotient(add(high, constant_poly(*k)), divisor / step));
  }
  const Expr* atom = rest.single_atom();
  const Binary* inner = atom ? atom->as<Binary>() : nullptr;
  const int64_t* by = inner ? as_int(inner->b) : nullptr;
  int64_t product;
  if (by && *by > 0) {
    // (x//a + m)//b = (x + m*a)//(a*b)
    if (inner->op == BinaryOp::kFloorDiv && !__builtin_mul_overflow(*by, divisor, &product))
      return add(whole, quotient(add(decompose(inner->a), constant_poly(rest.constant * *by)), product));
    // (x % (a*b))//a = (x//a) % b
    if (inner->op == BinaryOp::kFloorMod && rest.constant == 0 && *by % divisor == 0)
      return add(whole, remainder(quotient(decompose(inner->a), divisor), *by / divisor));
  }
  return add(whole, division_atom(BinaryOp::kFloorDiv, rest, constant_poly(divisor)));
}

/// p % divisor, of the divisor's sign. Multiples of the divisor vanish; then as for the quotient.
Poly Simplifier::remainder(const Poly& p, int64_t divisor) const {
  if (divisor == 0 || divisor == INT64_MIN)
    return division_atom(BinaryOp::kFloorMod, p, constant_poly(divisor));
  if (divisor < 0) return scale(remainder(scale(p, -1), -divisor), -1);
  Poly rest = split_by(p, divisor).rest;
  if (Poly merged = recombine(rest); has_fewer_parts(merged, rest)) return remainder(merged, divisor);
  // k * (x % m) is k * x modulo k * m, and so modulo any divisor of that.
  for (const Term& term : rest.terms) {
    const Binary* inner = as_division(term, BinaryOp::kFloorMod);
    const int64_t* by = inner ? as_int(inner->b) : nullptr;
    int64_t period;
    if (!by || __builtin_mul_overflow(term.coefficient, *by, &period) || period % divisor != 0) continue;
    Poly others = add(rest, {{term}, 0}, -1);
    return remainder(add(others, decompose(inner->a), term.coefficient), divisor);
  }
  if (auto k = common_quotient(bound(rest), divisor)) return add(rest, constant_poly(-*k * divisor));
  for (int64_t step : steps_of(rest, divisor)) {
    auto [high, low] = split_multiples(rest, step);
    auto k = common_quotient(bound(low), step);
    if (!k) continue;
    // What is below the step stays, the rest is a remainder of multiples of the step.
    Poly upper = remainder(add(high, constant_poly(*k)), divisor / step);
    return add(add(low, constant_poly(-*k * step)), upper, step);
  }
  return division_atom(BinaryOp::kFloorMod, rest, constant_poly(divisor));
}

/// By a symbolic divisor: (n*x + y) // n is x when 0 <= y < n.
Poly Simplifier::quotient(const Poly& p, const Poly& divisor) const {
  if (divisor.is_constant()) return quotient(p, divisor.constant);
  auto [whole, rest] = split_by_product(p, divisor);
  if (rest.is_constant() && rest.constant == 0) return whole;
  bool small = bound(rest).min >= 0 && bound(add(divisor, rest, -1)).min >= 1;
  return small ? whole : add(whole, division_atom(BinaryOp::kFloorDiv, rest, divisor));
}

Poly Simplifier::remainder(const Poly& p, const Poly& divisor) const {
  if (divisor.is_constant()) return remainder(p, divisor.constant);
  Poly rest = split_by_product(p, divisor).rest;
  if (rest.is_constant() && rest.constant == 0) return rest;
  bool small = bound(rest).min >= 0 && bound(add(divisor, rest, -1)).min >= 1;
  return small ? rest : division_atom(BinaryOp::kFloorMod, rest, divisor);
}

}  // namespace lathe
