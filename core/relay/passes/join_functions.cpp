#include "core/relay/passes/join_functions.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"

namespace lathe::relay {

const Function* primitive_callee(const Expr& e) {
  const auto* call = e.as<Call>();
  const auto* function = call ? call->callee.as<Function>() : nullptr;
  return function && function->attrs.primitive ? function : nullptr;
}

std::vector<const Call*> anchors_of(const Function& function) {
  std::vector<const Call*> anchors;
  post_order(function.body, [&](const NodeRef& node) {
    const auto* call = node.as<Call>();
    const Op* op = call ? operator_of(Expr(call)) : nullptr;
    if (op && op->fusion >= Fusion::kReduction) anchors.push_back(call);
  });
  return anchors;
}

size_t uses_of(const Expr& body, const Expr& param) {
  size_t uses = 0;
  post_order(body, [&](const NodeRef& node) {
    const auto* call = node.as<Call>();
    if (call) uses += static_cast<size_t>(std::count(call->args.begin(), call->args.end(), param));
    if (const auto* tuple = node.as<Tuple>())
      uses += static_cast<size_t>(std::count(tuple->items.begin(), tuple->items.end(), param));
  });
  return uses;
}

namespace {
/// `function` with parameters of its own: other calls may share it, and keep theirs.
Ref<Function> with_fresh_params(const Function& function) {
  auto copy = mutate(function);
  std::unordered_map<const Node*, Expr> fresh;
  for (Var& param : copy->params) {
    Var own = seal(mutate(*param));
    fresh[param.get()] = own;
    param = own;
  }
  copy->body = substitute(function.body, fresh);
  return seal(std::move(copy));
}
}  // namespace

Expr join_argument(const Ref<Call>& call, size_t i) {
  const Ref<Function> outer = with_fresh_params(*call->callee.as<Function>());
  const Call& inner = *call->args[i].as<Call>();
  const Ref<Function> given = with_fresh_params(*inner.callee.as<Function>());
  const Function &consumer = *outer, &producer = *given;
  auto function = mutate(consumer);
  function->body = substitute(consumer.body, {{consumer.params[i].get(), producer.body}});
  // Item i gives way to those of the producer: parameters and arguments alike, so they still correspond.
  auto spliced = [i](auto outer, const auto& parts) {
    auto at = outer.erase(outer.begin() + static_cast<int64_t>(i));
    outer.insert(at, parts.begin(), parts.end());
    return outer;
  };
  function->params = spliced(consumer.params, producer.params);
  std::vector<Type> types;
  for (const Var& param : function->params) types.push_back(param->checked_type);
  function->checked_type = func_type(std::move(types), consumer.result_type);
  auto result = mutate(*call);
  result->callee = seal(std::move(function));
  result->args = spliced(call->args, inner.args);
  return seal(std::move(result));
}

}  // namespace lathe::relay
