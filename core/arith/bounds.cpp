// Interval arithmetic; the extremes of int64 are infinities.
#include <algorithm>

#include "core/arith/simplifier.h"
#include "core/support/floor_div.h"

namespace lathe {
namespace {
constexpr int64_t kMin = INT64_MIN, kMax = INT64_MAX;

bool infinite(int64_t x) { return x == kMin || x == kMax; }

/// A limit outside int64 is none: index expressions are taken not to overflow.
int64_t clamp(__int128 x) { return x < kMin ? kMin : x > kMax ? kMax : static_cast<int64_t>(x); }

/// Of two limits of one side (both lower or both upper): an infinite one says that there is no limit.
int64_t sum(int64_t a, int64_t b) {
  if (infinite(a)) return a;
  return infinite(b) ? b : clamp(static_cast<__int128>(a) + b);
}

/// 0 times infinity is 0: the infinity stands for a number that is large, not for one that is none.
int64_t times(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? kMax : kMin;
  return clamp(static_cast<__int128>(a) * b);
}

Bound operator+(Bound a, Bound b) { return {sum(a.min, b.min), sum(a.max, b.max)}; }

/// A product is monotone in each factor, so its extremes are among the products of the ends.
Bound operator*(Bound a, Bound b) {
  auto [low, high] =
      std::minmax({times(a.min, b.min), times(a.min, b.max), times(a.max, b.min), times(a.max, b.max)});
  return {low, high};
}

/// Bounds that contradict each other belong to code that never runs, as a loop of no iterations. Whatever is
/// said there is true; `a` is said, so that min <= max holds everywhere.
Bound meet(Bound a, Bound b) {
  Bound both{std::max(a.min, b.min), std::min(a.max, b.max)};
  return both.min <= both.max ? both : a;
}

/// All a type holds. What int64 cannot express of uint64 is infinity.
Bound range_of(DataType type) {
  if (type.is_bool()) return {0, 1};
  if (!type.is_int() || type.bits >= 64) return type.code == TypeCode::kUInt ? Bound{0, kMax} : Bound{};
  int64_t half = int64_t{1} << (type.bits - 1);
  return type.code == TypeCode::kUInt ? Bound{0, 2 * half - 1} : Bound{-half, half - 1};
}

/// A larger divisor brings a quotient nearer to 0, or to -1 from below: which end of b makes an extreme
/// depends on the sign of a there. Nothing is said of divisors that may be 0 or negative.
Bound floor_div(Bound a, Bound b) {
  if (b.min < 1) return {};
  int64_t low = a.min < 0 ? b.min : b.max, high = a.max < 0 ? b.max : b.min;
  auto divided = [](int64_t x, int64_t by) {
    return infinite(x) ? x : infinite(by) ? (x < 0 ? -1 : 0) : lathe::floor_div(x, by);
  };
  return {divided(a.min, low), divided(a.max, high)};
}

/// Numbers below the divisor are their own remainders; of numbers that are not negative none grows.
Bound floor_mod(Bound a, Bound b) {
  if (b.min < 1) return {};
  if (a.min >= 0 && a.max < b.min) return a;
  Bound result{0, b.max == kMax ? kMax : b.max - 1};
  return a.min >= 0 ? meet(result, {0, a.max}) : result;
}
}  // namespace

/// Terms and factors are taken for independent of each other: a variable that occurs in two of them makes the
/// interval wider than the values are, never narrower.
Bound Simplifier::interval(const Poly& p) const {
  Bound total{p.constant, p.constant};
  for (const Term& term : p.terms) {
    Bound product{term.coefficient, term.coefficient};
    for (const Expr& factor : term.factors) product = product * bound(factor);
    total = total + product;
  }
  return total;
}

/// Replaces a variable that stands below a symbolic extent by its largest value, in a term where that moves
/// the sum up (down): the result is an upper (lower) limit of p in which the extents may cancel. Nothing when
/// there is none.
std::optional<Poly> Simplifier::relax(const Poly& p, bool upward) const {
  for (const Term& term : p.terms) {
    if ((term.coefficient > 0) != upward) continue;
    for (size_t i = 0; i < term.factors.size(); ++i) {
      const VarNode* v = term.factors[i].as<VarNode>();
      auto found = v ? facts_.extents.find(v) : facts_.extents.end();
      if (found == facts_.extents.end()) continue;
      Term others = term;
      others.factors.erase(others.factors.begin() + static_cast<long>(i));
      // With another factor that may be negative a larger v could move the term the other way.
      bool monotone = std::all_of(others.factors.begin(), others.factors.end(),
                                  [&](const Expr& f) { return bound(f).min >= 0; });
      if (!monotone) continue;
      Poly rest = others.factors.empty() ? constant_poly(others.coefficient) : Poly{{others}, 0};
      Poly without = add(p, {{term}, 0}, -1);
      return add(without, multiply(rest, add(decompose(found->second), constant_poly(-1))));
    }
  }
  return std::nullopt;
}

/// The interval of the sum, narrowed by the intervals of its relaxed forms: of n - 1 - i with i < n the
/// interval alone says nothing, the relaxed form n - 1 - (n - 1) is 0.
Bound Simplifier::bound(const Poly& p) const {
  Bound result = interval(p);
  if (facts_.extents.empty()) return result;
  constexpr int kRounds = 8;  // a loop nest has few symbolic extents; each round removes one
  for (bool upward : {false, true}) {
    std::optional<Poly> limit = relax(p, upward);
    for (int round = 0; limit && round < kRounds; ++round, limit = relax(*limit, upward)) {
      Bound b = interval(*limit);
      result = meet(result, upward ? Bound{INT64_MIN, b.max} : Bound{b.min, INT64_MAX});
    }
  }
  return result;
}

Bound Simplifier::binary_bound(const Binary& e) const {
  if (e.dtype != kInt64) return range_of(e.dtype);
  switch (e.op) {
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
    case BinaryOp::kMul:
      // As one sum: what cancels must do so before bounds are added.
      return bound(decompose(Expr(Ref<Binary>(&e))));
    case BinaryOp::kFloorDiv:
      return floor_div(bound(e.a), bound(e.b));
    case BinaryOp::kFloorMod:
      return floor_mod(bound(e.a), bound(e.b));
    default:
      break;
  }
  Bound a = bound(e.a), b = bound(e.b);
  switch (e.op) {
    case BinaryOp::kMin:
      return {std::min(a.min, b.min), std::min(a.max, b.max)};
    case BinaryOp::kMax:
      return {std::max(a.min, b.min), std::max(a.max, b.max)};
    // Truncation is rounding down where nothing is negative.
    case BinaryOp::kDiv:
      return a.min >= 0 ? floor_div(a, b) : Bound{};
    case BinaryOp::kMod:
      return a.min >= 0 ? floor_mod(a, b) : Bound{};
    case BinaryOp::kBitAnd:
      // Clearing bits makes no number that is not negative larger.
      return a.min >= 0 && b.min >= 0 ? Bound{0, std::min(a.max, b.max)} : Bound{};
    default:
      return {};
  }
}

Bound Simplifier::bound(const Expr& e) const {
  switch (e->kind()) {
    case ExprKind::kInt:
      return {*as_int(e), *as_int(e)};
    case ExprKind::kVar: {
      auto found = facts_.bounds.find(e.as<VarNode>());
      return found == facts_.bounds.end() ? range_of(e.dtype()) : found->second.second;
    }
    case ExprKind::kAny:
      return {0, kMax};
    case ExprKind::kBinary: {
      auto known = bounds_.find(e.get());
      if (known != bounds_.end()) return known->second.second;
      Bound result = binary_bound(*e.as<Binary>());
      bounds_[e.get()] = {e, result};
      return result;
    }
    case ExprKind::kSelect: {
      Bound a = bound(e.as<Select>()->if_true), b = bound(e.as<Select>()->if_false);
      return {std::min(a.min, b.min), std::max(a.max, b.max)};
    }
    case ExprKind::kCast: {
      const Expr& value = e.as<Cast>()->value;
      Bound range = range_of(e.dtype());
      if (!value.dtype().is_int() && !value.dtype().is_bool()) return range;
      Bound inner = bound(value);
      // What does not fit wraps, and may become anything of the type.
      return inner.min >= range.min && inner.max <= range.max ? inner : range;
    }
    default:
      return range_of(e.dtype());
  }
}

}  // namespace lathe
