#include "core/relay/analysis/purity.h"

#include "core/relay/functor.h"
#include "core/relay/op.h"

namespace lathe::relay {
namespace {

/// Without regard to its operands. MatchCast and incomplete matches may fail, which is an effect.
bool impure_by_itself(const Expr& e, const NodeSet& impure) {
  switch (e->kind()) {
    case ExprKind::kRefRead:
    case ExprKind::kRefWrite:
    case ExprKind::kMatchCast:
      return true;
    case ExprKind::kMatch:
      return !e.as<Match>()->complete;
    case ExprKind::kCall:
      break;
    default:
      return false;
  }
  const Expr& callee = e.as<Call>()->callee;
  if (const auto* op = callee.as<OpNode>()) return op->row().stateful;
  // A function that is called where it is written has the effects of its body. What a variable or a global
  // name stands for is not looked up: it may be anything, and may not end.
  if (const auto* function = callee.as<Function>()) return impure.count(function->body.get());
  return !callee.as<ConstructorNode>() && !callee.as<PrimFunc>() && !callee.as<ExternFunc>();
}

class Impure : public ExprVisitor {
 public:
  NodeSet found;

 private:
  void visit_default(const Expr& e) override {
    ExprVisitor::visit_default(e);
    bool impure = impure_by_itself(e, found);
    // Making a closure runs nothing of its body.
    if (!e.as<Function>())
      for_each_operand(e, [&](const Expr& operand, bool) { impure |= found.count(operand.get()); });
    if (impure) found.insert(e.get());
  }
};

}  // namespace

Purity::Purity(const Expr& root) {
  Impure impure;
  impure.visit(root);
  impure_ = std::move(impure.found);
}

}  // namespace lathe::relay
