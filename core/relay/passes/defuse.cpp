#include "core/relay/passes/defuse.h"

#include "core/relay/functor.h"

namespace lathe::relay {
namespace {

class Defuse : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr call = ExprMutator::visit_default(e);
    const Function* callee = call.as<Call>()->callee.as<Function>();
    if (!callee || !callee->attrs.primitive) return call;
    std::unordered_map<const Node*, Expr> values;
    for (size_t i = 0; i < callee->params.size(); ++i)
      values[callee->params[i].get()] = call.as<Call>()->args.at(i);
    // Operands are rewritten already; a shared argument stays one node.
    return substitute(callee->body, values);
  }
};

}  // namespace

Ref<Function> defuse(const Ref<Function>& function) { return Defuse().visit_as(function); }

}  // namespace lathe::relay
