#include "core/relay/passes/dead_code.h"

#include "core/relay/analysis/purity.h"
#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

/// The variables that something kept uses.
class Liveness {
 public:
  // A list and not recursion; each expression once.
  explicit Liveness(const Expr& root) : purity_(root) {
    pending_.push_back(root);
    while (!pending_.empty()) {
      Expr e = pending_.back();
      pending_.pop_back();
      if (seen_.insert(e.get())) keep(e);
    }
  }
  bool is_live(const Var& variable) const { return live_.count(variable.get()); }

 private:
  /// A binding's value is entered when a use of its variable is found.
  void keep(const Expr& e) {
    if (const auto* let = e.as<Let>()) {
      // An effect keeps its binding alive, used or not.
      if (!purity_.is_pure(let->value)) live_.insert(let->var.get());
      if (live_.count(let->var.get()))
        pending_.push_back(let->value);
      else
        // It may become live later: uses of it may stand anywhere in the body.
        values_[let->var.get()] = let->value;
      pending_.push_back(let->body);
      return;
    }
    if (e.as<VarNode>() && live_.insert(e.get())) {
      if (const Expr* found = values_.find(e.get())) pending_.push_back(*found);
    }
    for_each_operand(e, [&](const Expr& operand, bool) { pending_.push_back(operand); });
  }

  Purity purity_;
  std::vector<Expr> pending_;
  NodeSet seen_, live_;
  NodeMap<Expr> values_;  // of bindings not kept so far
};

class DropDead : public ExprMutator {
 public:
  explicit DropDead(const Expr& root) : liveness_(root) {}

 private:
  Expr visit_let(const Ref<Let>& e) override {
    return liveness_.is_live(e->var) ? ExprMutator::visit_default(e) : visit(e->body);
  }

  Liveness liveness_;
};

}  // namespace

Ref<Function> dead_code(const Ref<Function>& function) { return DropDead(function).visit_as(function); }

}  // namespace lathe::relay
