#include "core/arith/one_to_one.h"

#include <algorithm>

#include "core/arith/simplifier.h"

namespace lathe {
namespace {

/// What can be told from the values that were learnt.
class Known {
 public:
  Known(std::span<const Var> vars, const Analyzer& context) : vars_(vars), context_(context) {}

  void learn(const Expr& value) {
    sums_.push_back(decompose(context_.simplify(value)));
    // What one sum tells may be what another lacked.
    bool progress = true;
    while (progress) {
      progress = std::erase_if(sums_, [&](const Poly& sum) { return take_apart(sum); }) > 0;
      progress |= put_together();
    }
  }

  bool has(const Expr& e) const {
    if (std::any_of(atoms_.begin(), atoms_.end(), [&](const Expr& a) { return compare(a, e) == 0; }))
      return true;
    if (const Binary* b = e.as<Binary>()) return has(b->a) && has(b->b);
    // What is loaded may have changed between two iterations.
    return e->kind() == ExprKind::kInt || (e->kind() == ExprKind::kVar && !is_var(e));
  }

 private:
  bool is_var(const Expr& e) const {
    return std::any_of(vars_.begin(), vars_.end(), [&](const Var& v) { return v == e; });
  }

  /// True when the terms that are not known are now: each weighs more than all smaller ones together can
  /// move, as the digits of a number do.
  bool take_apart(const Poly& sum) {
    std::vector<std::pair<__int128, Expr>> digits;
    for (const Term& term : sum.terms) {
      Expr atom = compose({{{1, term.factors}}, 0});
      __int128 weight = term.coefficient;
      if (!has(atom)) digits.emplace_back(weight < 0 ? -weight : weight, atom);
    }
    std::sort(digits.begin(), digits.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    __int128 reach = 0;
    for (const auto& [weight, atom] : digits) {
      if (weight <= reach) return false;
      Bound bound = context_.bound(atom);
      // An infinite bound reaches beyond all weights.
      __int128 width = std::min(static_cast<__int128>(bound.max) - bound.min, kFar);
      reach = std::min(reach + width * weight, kFar);
    }
    for (const auto& [weight, atom] : digits) {
      atoms_.push_back(atom);
      const Binary* b = atom.as<Binary>();
      if (b && b->op == BinaryOp::kFloorMod) remainders_.emplace_back(b);
    }
    return true;
  }

  /// x from x // n and x % n, and n * y + x from y + x // n and x % n.
  bool put_together() {
    size_t sums = sums_.size(), replaced = 0;
    std::erase_if(remainders_, [&](const Ref<Binary>& remainder) {
      const Expr &x = remainder->a, &n = remainder->b;
      for (Poly& sum : sums_) replaced += multiply_out(sum, x, n);
      if (!has(n) || !has(context_.simplify(floordiv(x, n)))) return false;
      sums_.push_back(decompose(x));
      return true;
    });
    return sums_.size() > sums || replaced > 0;
  }

  /// y + c * (x // n)  ->  n * y + c * x
  static bool multiply_out(Poly& sum, const Expr& x, const Expr& n) {
    // Far below what overflows, and far above what indices are.
    constexpr int64_t kMost = int64_t{1} << 30;
    const int64_t* divisor = as_int(n);
    if (!divisor || *divisor < 1 || *divisor > kMost) return false;
    const Term* found = nullptr;
    for (const Term& term : sum.terms) {
      if (term.coefficient < -kMost || term.coefficient > kMost) return false;
      const Binary* quotient = as_division(term, BinaryOp::kFloorDiv);
      if (quotient && compare(quotient->a, x) == 0 && compare(quotient->b, n) == 0) found = &term;
    }
    if (!found) return false;
    Poly others = add(sum, {{*found}, 0}, -1);
    sum = add(scale(others, *divisor), decompose(x), found->coefficient);
    return true;
  }

  static constexpr __int128 kFar = static_cast<__int128>(1) << 63;

  std::span<const Var> vars_;
  const Analyzer& context_;
  std::vector<Poly> sums_;               // that could not be taken apart yet
  std::vector<Expr> atoms_;              // what is known
  std::vector<Ref<Binary>> remainders_;  // of `atoms_`, whose dividends are not known yet
};

/// No value of the sum is a multiple of `step`; 0 is the only one of 0.
bool misses_multiples(const Poly& sum, int64_t step, const Analyzer& context) {
  // Products of such bounds add up without overflow.
  constexpr int64_t kFar = int64_t{1} << 48;
  __int128 low = sum.constant, high = sum.constant;
  for (const Term& term : sum.terms) {
    if (step != 0 && term.coefficient % step == 0) continue;
    Bound bound = context.bound(compose({{{1, term.factors}}, 0}));
    if (bound.min < -kFar || bound.max > kFar) return false;
    __int128 a = static_cast<__int128>(term.coefficient) * bound.min,
             b = static_cast<__int128>(term.coefficient) * bound.max;
    low += std::min(a, b);
    high += std::max(a, b);
  }
  if (step == 0) return low > 0 || high < 0;
  // The distance from `low` up to a multiple.
  __int128 up = (step - low % step) % step;
  return low + up > high;
}

}  // namespace

bool never_equal(const Expr& a, const Expr& b, const Analyzer& context) {
  const Poly difference = decompose(context.simplify(a - b));
  if (misses_multiples(difference, 0, context)) return true;
  return std::any_of(difference.terms.begin(), difference.terms.end(), [&](const Term& term) {
    return term.coefficient != INT64_MIN && misses_multiples(difference, std::abs(term.coefficient), context);
  });
}

bool one_to_one(std::span<const Expr> values, std::span<const Var> vars, const Analyzer& context) {
  Known known(vars, context);
  for (const Expr& value : values) known.learn(value);
  return std::all_of(vars.begin(), vars.end(),
                     [&](const Var& v) { return known.has(v) || context.bound(v).is_point(); });
}

}  // namespace lathe
