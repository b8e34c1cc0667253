#include "core/arith/rules.h"

#include <array>

#include "core/arith/poly.h"

namespace lathe {
namespace {
using Matches = VarMap;

/// A node without the builders' folding: patterns are written as they must be found.
Expr raw(BinaryOp op, Expr a, Expr b) { return make<Binary>(op, a, b, a.dtype()); }

/// Floats get only what is exact for all of them, infinities and NaN included: x + 0 is none (it makes 0 of
/// -0), nor is x * 0.
std::vector<Rule> make_rules() {
  // These stand for expressions of any type; only bools are told apart.
  Expr x = var("x"), y = var("y"), z = var("z"), c = var("c", kBool), d = var("d", kBool);
  Expr yes = imm(kBool, 1), no = imm(kBool, 0), zero = imm(kInt64, 0), one = fimm(kFloat32, 1);
  using enum BinaryOp;
  return {
      {select(c, x, x), x},
      {select(c, yes, no), c},
      {select(c, no, yes), logical_not(c)},
      {select(c, yes, d), logical_or(c, d), d},
      {select(c, d, no), logical_and(c, d), d},
      {select(logical_not(c), x, y), select(c, y, x)},
      {select(c, select(c, x, y), z), select(c, x, z)},
      {select(c, x, select(c, y, z)), select(c, x, z)},
      {select(c, select(d, x, y), y), select(logical_and(c, d), x, y), d},
      {select(c, x, select(d, x, y)), select(logical_or(c, d), x, y), d},
      {raw(kEq, c, yes), c},
      {raw(kNe, c, no), c},
      {raw(kEq, c, no), logical_not(c)},
      {raw(kNe, c, yes), logical_not(c)},
      {raw(kMin, x, x), x},
      {raw(kMax, x, x), x},
      {raw(kBitAnd, x, x), x},
      {raw(kBitOr, x, x), x},
      {raw(kBitOr, x, zero), x},
      {raw(kBitXor, x, zero), x},
      {raw(kShiftLeft, x, zero), x},
      {raw(kShiftRight, x, zero), x},
      {raw(kMul, x, one), x},
      {raw(kMul, one, x), x},
      {raw(kDiv, x, one), x},
  };
}

/// Whether `e` is `pattern` with its variables replaced; `found` gets by what. After a failure `found` holds
/// whatever matched before it.
bool match(const Expr& pattern, const Expr& e, Matches& found) {
  if (const VarNode* wildcard = pattern.as<VarNode>()) {
    if (wildcard->dtype.is_bool() && !e.dtype().is_bool()) return false;
    auto [place, is_new] = found.emplace(wildcard, e);
    return is_new || (compare(place->second, e) == 0 && !contains_any(e));
  }
  if (&pattern->type() != &e->type()) return false;
  if (const int64_t* value = as_int(pattern))
    return is_int(e, *value) && e.dtype().is_bool() == pattern.dtype().is_bool();
  if (const FloatImm* f = pattern.as<FloatImm>()) return f->value == e.as<FloatImm>()->value;
  if (const Not* n = pattern.as<Not>()) return match(n->a, e.as<Not>()->a, found);
  if (const Select* s = pattern.as<Select>()) {
    const Select* t = e.as<Select>();
    return match(s->condition, t->condition, found) && match(s->if_true, t->if_true, found) &&
           match(s->if_false, t->if_false, found);
  }
  const Binary *b = pattern.as<Binary>(), *t = e.as<Binary>();
  return b && b->op == t->op && match(b->a, t->a, found) && match(b->b, t->b, found);
}

/// The load of an element that may lie outside its buffer where a select does not choose it.
bool has_load(const Expr& e) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) {
    const auto* each = dynamic_cast<const ExprNode*>(node.get());
    found = found || (each && each->kind() == ExprKind::kLoad);
  });
  return found;
}
}  // namespace

std::span<const Rule> simplification_rules() {
  static const std::vector<Rule> rules = make_rules();
  return rules;
}

Expr apply_rules(const Expr& e) {
  // Constants in the rules are scalars.
  if (e.dtype().lanes > 1) return e;
  for (const Rule& rule : simplification_rules()) {
    Matches found;
    if (&rule.from->type() != &e->type() || !match(rule.from, e, found)) continue;
    if (rule.eager && has_load(found.at(rule.eager.as<VarNode>()))) continue;
    return substitute(rule.to, found);
  }
  return e;
}

}  // namespace lathe
