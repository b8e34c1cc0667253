#include "core/relay/passes/settle_dims.h"

#include <unordered_map>

#include "core/arith/simplify.h"
#include "core/relay/functor.h"
#include "core/relay/passes/infer_type.h"
#include "core/support/node_map.h"

namespace lathe::relay {
namespace {

/// The calls that each run of a function makes.
class CertainCalls final : public ExprVisitor {
 public:
  bool operator()(const Expr& call) const { return calls_.count(call.get()); }

 private:
  void visit_call(const Ref<Call>& call) override {
    calls_.insert(call.get());
    visit_default(call);
  }
  void visit_function(const Ref<Function>&) override {}
  void visit_if(const Ref<If>& branch) override { visit(branch->condition); }
  void visit_match(const Ref<Match>& match) override { visit(match->value); }

  NodeSet calls_;
};

using Numbers = std::unordered_map<const Node*, int64_t>;  // by variable

/// The variables that parameters show by themselves: a call with another number is seen to be wrong.
Numbers shown_by(const Function& main) {
  Numbers shown;
  for (const Var& param : main.params)
    if (const TensorType* type = param->annotation.as<TensorType>())
      for (const lathe::Expr& dim : type->shape)
        if (dim.as<lathe::VarNode>()) shown.emplace(dim.get(), -1);
  return shown;
}

}  // namespace

Module settle_dims(const Module& module) {
  const auto found = module->functions.find("main");
  if (found == module->functions.end()) return module;
  Numbers numbers = shown_by(*found->second);
  if (numbers.empty()) return module;
  CertainCalls certain;
  certain.visit(found->second->body);
  bool settled = false;
  const auto settle = [&](const lathe::Expr& dim, const lathe::Expr& number) {
    const auto shown = numbers.find(dim.get());
    const int64_t* value = as_int(number);
    if (shown == numbers.end() || !value || *value < 0 || shown->second >= 0) return;
    shown->second = *value;
    settled = true;
  };
  for (const DimCheck& check : undecided_dims(module)) {
    if (check.or_one || !certain(check.call)) continue;
    const lathe::Expr a = simplify(check.a), b = simplify(check.b);
    settle(a, b);
    settle(b, a);
  }
  if (!settled) return module;
  // Again: a number may be what another equation waited for.
  return settle_dims(rewrite(module, [&](const NodeRef& node) -> NodeRef {
                       const auto number = numbers.find(node.get());
                       return number == numbers.end() || number->second < 0
                                  ? node
                                  : NodeRef(lathe::Expr(number->second));
                     }).cast<ModuleNode>());
}

}  // namespace lathe::relay
