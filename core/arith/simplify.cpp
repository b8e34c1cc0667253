#include "core/arith/simplify.h"

#include <algorithm>

#include "core/arith/rules.h"
#include "core/arith/simplifier.h"

namespace lathe {
namespace {
bool is_arithmetic(BinaryOp op) {
  return op == BinaryOp::kAdd || op == BinaryOp::kSub || op == BinaryOp::kMul;
}

/// Rebuilds a node of another type through the builders, which fold constants.
Expr rebuilt(const NodeRef& node) {
  if (const Binary* b = node.as<Binary>()) return binary(b->op, b->a, b->b);
  if (const Not* n = node.as<Not>()) return logical_not(n->a);
  if (const Select* s = node.as<Select>()) return select(s->condition, s->if_true, s->if_false);
  if (const Cast* c = node.as<Cast>()) return cast(c->dtype, c->value);
  return node.cast<ExprNode>();
}
}  // namespace

/// Memoised by node: expressions share their parts, and a walk without memory takes exponential time on some.
Expr Simplifier::simplify(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kInt:
    case ExprKind::kFloat:
    case ExprKind::kAny:
      return e;
    case ExprKind::kVar: {
      auto found = facts_.bounds.find(e.as<VarNode>());
      bool known = found != facts_.bounds.end() && found->second.second.is_point();
      return known ? imm(e.dtype(), found->second.second.min) : e;
    }
    default:
      break;
  }
  const auto reading = static_cast<size_t>(reading_);
  auto found = memo_.find(e.get());
  if (found != memo_.end() && found->second.second[reading]) return found->second.second[reading];
  Expr result = simplify_new(e);
  // The old node for an equal new one, so that callers see by `==` that nothing changed.
  if (compare(result, e) == 0 && result.dtype() == e.dtype()) result = e;
  auto& [kept, forms] = memo_[e.get()];
  kept = e;
  forms[reading] = result;
  return result;
}

bool Simplifier::may_wrap(const Expr& e) const {
  if (reading_ == Reading::kPlace) return false;
  if (const int64_t* value = as_int(e)) return e.dtype() == kInt64 && is_data(*value);
  if (e->kind() == ExprKind::kLoad) return e.dtype() == kInt64;
  // Of what a cast makes no more is known than of what is loaded.
  if (const Cast* c = e.as<Cast>(); c && e.dtype() == kInt64 && !c->value.dtype().is_bool()) return true;
  auto found = wrapping_.find(e.get());
  if (found != wrapping_.end()) return found->second.second;
  bool wraps = false;
  e->map_children([&](const NodeRef& child) -> NodeRef {
    if (dynamic_cast<const ExprNode*>(child.get())) wraps = wraps || may_wrap(child.cast<ExprNode>());
    return child;
  });
  wrapping_[e.get()] = {e, wraps};
  return wraps;
}

/// Sums by the ring of integers modulo 2^64, everything else by its parts; null for what needs no more than
/// that. x <= c is x < c + 1 for all constants but the largest.
Expr Simplifier::simplify_wrapping(const Binary& e) {
  using enum BinaryOp;
  if (e.dtype == kInt64 && is_arithmetic(e.op)) return compose(sum_of(Expr(Ref<Binary>(&e))));
  if (e.op != kLe) return {};
  Expr a = simplify(e.a), b = simplify(e.b);
  if (const int64_t* most = as_int(b); most && *most < INT64_MAX) return lathe::less(a, Expr(*most + 1));
  if (const int64_t* least = as_int(a); least && *least > INT64_MIN) return lathe::less(Expr(*least - 1), b);
  return less_equal(a, b);
}

/// What has a normal form gets it; everything else is rebuilt from simplified parts and goes through the
/// table of rules, again as long as one matches.
Expr Simplifier::simplify_new(const Expr& e) {
  if (const Binary* b = e.as<Binary>()) {
    if (Expr result = simplify_binary(*b)) return result;
  }
  if (const Not* n = e.as<Not>(); n && e.dtype() == kBool) return negation(simplify(n->a));
  if (const Select* s = e.as<Select>()) {
    Expr condition = simplify(s->condition);
    // First, since the other side need not be looked at.
    if (const int64_t* known = as_int(condition)) return simplify(*known ? s->if_true : s->if_false);
  }
  const Reading outside = reading_;
  if (e->kind() == ExprKind::kLoad) reading_ = Reading::kPlace;
  NodeRef mapped = e->map_children([&](const NodeRef& child) -> NodeRef {
    return dynamic_cast<const ExprNode*>(child.get()) ? NodeRef(simplify(child.cast<ExprNode>())) : child;
  });
  reading_ = outside;
  Expr result = rebuilt(mapped), ruled = apply_rules(result);
  return ruled == result ? result : simplify(ruled);
}

/// The forms that have normal forms of their own, or null.
Expr Simplifier::simplify_binary(const Binary& e) {
  using enum BinaryOp;
  if (e.a.dtype() == kInt64 && (may_wrap(e.a) || may_wrap(e.b))) return simplify_wrapping(e);
  if (e.dtype == kInt64) {
    if (is_arithmetic(e.op)) return compose(recombine(sum_of(Expr(Ref<Binary>(&e)))));
    bool truncating = e.op == kDiv || e.op == kMod;
    if (truncating || e.op == kFloorDiv || e.op == kFloorMod) {
      Poly a = poly(e.a), b = poly(e.b);
      // Only there does truncating equal rounding down, of which the rest of this room knows.
      if (truncating && (bound(a).min < 0 || bound(b).min < 1)) return {};
      return compose(recombine(e.op == kDiv || e.op == kFloorDiv ? quotient(a, b) : remainder(a, b)));
    }
    if (e.op == kMin || e.op == kMax) return extremum(e.op, simplify(e.a), simplify(e.b));
    return {};
  }
  if (e.dtype != kBool) return {};
  if (e.op == kAnd || e.op == kOr) return logic(e.op, simplify(e.a), simplify(e.b));
  if (e.a.dtype() != kInt64) return {};
  if (e.op == kLt) return less(poly(e.a), poly(e.b));
  // Of integers a <= b is a < b + 1, so one comparison needs rules.
  if (e.op == kLe) return less(poly(e.a), add(poly(e.b), constant_poly(1)));
  return equality(e.op, poly(e.a), poly(e.b));
}

Poly Simplifier::poly(const Expr& e) { return decompose(simplify(e)); }

/// The sum e with simplified atoms, before recombination.
/// Through nested sums without a simplified expression in between: each would be composed and taken apart
/// again.
Poly Simplifier::sum_of(const Expr& e) {
  return lathe::sum_of(e, [&](const Expr& part) {
    const Binary* b = part.as<Binary>();
    return b && b->op == BinaryOp::kMul && part.dtype() == kInt64 ? multiply(sum_of(b->a), sum_of(b->b))
                                                                  : poly(part);
  });
}

void Analyzer::bind_range(const Var& v, const Expr& extent) {
  Expr size = simplify(extent);
  // A loop without iterations counts as one with one: its body never runs, and bounds keep min <= max.
  if (const int64_t* n = as_int(size)) return bind(v, {0, std::max<int64_t>(*n, 1) - 1});
  facts_.bounds[v.get()] = {v, Bound{0, std::max<int64_t>(bound(size).max, 1) - 1}};
  if (bound(size).max == INT64_MAX) facts_.bounds[v.get()].second.max = INT64_MAX;
  if (!contains_any(size)) facts_.extents[v.get()] = size;
}

void Analyzer::bind(const Var& v, Bound bound) {
  facts_.bounds[v.get()] = {v, bound};
  // What was known before is forgotten: the variable has a new range.
  facts_.extents.erase(v.get());
}

Bound Analyzer::bound(const Expr& e) const {
  // Bounds are asked of simplified forms only: more terms cancel in them.
  Simplifier s(facts_);
  Expr simple = s.simplify(e);
  return e.dtype() == kInt64 ? s.bound(decompose(simple)) : s.bound(simple);
}

Expr Analyzer::simplify(const Expr& e) const { return Simplifier(facts_).simplify(e); }

Expr Analyzer::simplify_value(const Expr& e) const {
  return Simplifier(facts_, Simplifier::Reading::kValue).simplify(e);
}

bool Analyzer::can_prove(const Expr& condition) const { return is_int(simplify(condition), 1); }

bool Analyzer::can_prove_equal(const Expr& a, const Expr& b) const {
  if (a.dtype() != b.dtype()) return false;
  if (a.dtype() == kInt64) return can_prove(equal(a, b));
  Expr x = simplify(a), y = simplify(b);
  return compare(x, y) == 0 && !contains_any(x);
}

Expr simplify(const Expr& e) { return Analyzer().simplify(e); }
bool prove_equal(const Expr& a, const Expr& b) { return Analyzer().can_prove_equal(a, b); }

std::vector<Expr> conjuncts(const Expr& condition) {
  const Binary* b = condition.as<Binary>();
  if (!b || b->op != BinaryOp::kAnd) return {condition};
  std::vector<Expr> parts = conjuncts(b->a), right = conjuncts(b->b);
  parts.insert(parts.end(), right.begin(), right.end());
  return parts;
}

/// By the simplified sum: its terms are the variables alone, or free of them, or the form is not linear.
std::optional<LinearForm> linear_form(const Expr& e, std::span<const Var> vars) {
  Facts none;
  LinearForm form;
  Poly sum = Simplifier(none).poly(e), rest = constant_poly(sum.constant);
  auto listed = [&](const Expr& f) {
    return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return v == f; });
  };
  auto uses_one = [&](const Expr& f) {
    return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(f, v.get()); });
  };
  for (const Term& term : sum.terms) {
    if (term.factors.size() == 1 && listed(term.factors[0])) {
      form.coefficients[term.factors[0].as<VarNode>()] = term.coefficient;
    } else if (std::any_of(term.factors.begin(), term.factors.end(), uses_one)) {
      return std::nullopt;
    } else {
      rest.terms.push_back(term);
    }
  }
  form.rest = compose(rest);
  return form;
}

}  // namespace lathe
