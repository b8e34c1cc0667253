#include "core/relay/passes/eliminate_common_subexpr.h"

#include <cstring>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/relay/functor.h"
#include "core/relay/op.h"

namespace lathe::relay {
namespace {

constexpr int64_t kComparedElements =
    64;  // of constants; larger ones are the same only when they share storage

/// Bit by bit: NaN is equal to itself, 0 and -0 differ.
bool same_value(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.data() == b.data()) return true;
  return a.size() <= kComparedElements &&
         std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
}

bool same_attrs(const Attrs& a, const Attrs& b) { return a == b || (a && b && structural_equal(a, b)); }

/// The operands are unified before, so those that are equal are the same node.
bool same_expr(const Expr& a, const Expr& b) {
  if (a->kind() != b->kind()) return false;
  if (const auto* x = a.as<Constant>()) return same_value(x->value, b.as<Constant>()->value);
  if (const auto* x = a.as<Projection>())
    return x->tuple == b.as<Projection>()->tuple && x->index == b.as<Projection>()->index;
  const Call &x = *a.as<Call>(), &y = *b.as<Call>();
  return x.callee.as<OpNode>()->name == y.callee.as<OpNode>()->name && x.args == y.args &&
         same_attrs(x.attrs, y.attrs);
}

size_t hash_of(const Expr& e) {
  if (const auto* constant = e.as<Constant>()) {
    // What same_value() compares: by the size alone, thousands of different numbers would share one bucket.
    const Tensor& value = constant->value;
    if (value.size() > kComparedElements) return std::hash<const void*>()(value.data());
    const std::string_view bytes(static_cast<const char*>(value.data()), static_cast<size_t>(value.bytes()));
    return std::hash<std::string_view>()(bytes);
  }
  if (const auto* item = e.as<Projection>())
    return std::hash<Expr>()(item->tuple) + static_cast<size_t>(item->index);
  const Call& call = *e.as<Call>();
  size_t hash = std::hash<std::string>()(call.callee.as<OpNode>()->name);
  // Else all slices of one tensor would share a bucket.
  if (call.attrs) hash = hash * 31 + structural_hash(call.attrs);
  for (const Expr& arg : call.args) hash = hash * 31 + std::hash<Expr>()(arg);
  return hash;
}

/// Value numbering over the graph: operands are replaced by their representatives first, so one level of
/// comparison is enough.
class Unify : public ExprMutator {
  // A constant is evaluated nowhere: one stands for all.
  Expr visit_constant(const Ref<Constant>& e) override { return *seen_.insert(e).first; }
  Expr visit_projection(const Ref<Projection>& e) override {
    return representative(ExprMutator::visit_default(e));
  }
  Expr visit_call(const Ref<Call>& e) override {
    Expr call = ExprMutator::visit_default(e);
    const OpNode* op = e->callee.as<OpNode>();
    // Two draws of random numbers are two values.
    return op && !op->row().stateful ? representative(call) : call;
  }
  /// A kernel is not entered: an expression of constants that it shared with the outside would be no part of
  /// it any more.
  Expr visit_function(const Ref<Function>& e) override {
    return e->attrs.primitive ? Expr(e) : after_bodies(e);
  }
  Expr visit_if(const Ref<If>& e) override { return after_bodies(e); }
  Expr visit_match(const Ref<Match>& e) override { return after_bodies(e); }

  /// What stands in a branch, a clause or a function may never be evaluated. It stands for nothing outside:
  /// one expression of two branches would be evaluated in front of both, and end a run that needs neither.
  Expr after_bodies(const Expr& e) {
    for_each_operand(e, [&](const Expr& operand, bool in_scope) {
      const size_t before = inserted_.size();
      visit(operand);
      if (in_scope) return;
      for (; inserted_.size() > before; inserted_.pop_back()) seen_.erase(inserted_.back());
    });
    return ExprMutator::visit_default(e);
  }

  Expr representative(const Expr& e) {
    const auto [found, is_new] = seen_.insert(e);
    if (is_new) inserted_.push_back(e);
    return *found;
  }

  struct Hash {
    size_t operator()(const Expr& e) const { return hash_of(e); }
  };
  struct Equal {
    bool operator()(const Expr& a, const Expr& b) const { return same_expr(a, b); }
  };
  std::unordered_set<Expr, Hash, Equal> seen_;
  std::vector<Expr> inserted_;  // what is in `seen_` but constants, the last one at the end
};

}  // namespace

Ref<Function> eliminate_common_subexpr(const Ref<Function>& function) { return Unify().visit_as(function); }

}  // namespace lathe::relay
