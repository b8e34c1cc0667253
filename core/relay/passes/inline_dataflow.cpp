#include "core/relay/passes/inline_dataflow.h"

#include <optional>

#include "core/relay/analysis/purity.h"
#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

class InlineDataflow : public ExprMutator {
 public:
  explicit InlineDataflow(const Expr& root) : root_(root) {}

 private:
  Expr visit_dataflow(const Ref<Dataflow>& e) override {
    // Most programs have no blocks: then nothing is looked at twice.
    if (!purity_) purity_.emplace(root_);
    for (Expr each = e->body; each.as<Let>(); each = each.as<Let>()->body)
      if (purity_->is_pure(each.as<Let>()->value)) inlined_.insert(each.get());
    return visit(e->body);
  }
  /// Between its value and its body, whose uses of the variable become the value.
  void enter_let(const Ref<Let>& let) override {
    if (inlined_.count(let.get())) set(let->var, visit(let->value));
  }
  Expr visit_let(const Ref<Let>& e) override {
    return inlined_.count(e.get()) ? visit(e->body) : ExprMutator::visit_default(e);
  }

  const Expr root_;
  std::optional<Purity> purity_;
  NodeSet inlined_;  // lets of blocks
};

}  // namespace

Ref<Function> inline_dataflow(const Ref<Function>& function) {
  return InlineDataflow(function).visit_as(function);
}

}  // namespace lathe::relay
