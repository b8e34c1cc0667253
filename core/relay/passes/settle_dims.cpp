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
  /// Whether there are no others.
  bool are_all() const { return are_all_; }

 private:
  void visit_call(const Ref<Call>& call) override {
    calls_.insert(call.get());
    visit_default(call);
  }
  void visit_function(const Ref<Function>&) override { are_all_ = false; }
  void visit_if(const Ref<If>& branch) override {
    are_all_ = false;
    visit(branch->condition);
  }
  void visit_match(const Ref<Match>& match) override {
    are_all_ = false;
    visit(match->value);
  }

  NodeSet calls_;
  bool are_all_ = true;
};

using Numbers = std::unordered_map<const lathe::VarNode*, int64_t>;

/// The variables that parameters show by themselves: a call with another number is seen to be wrong.
Numbers shown_by(const Function& main) {
  Numbers shown;
  for (const Var& param : main.params)
    if (const TensorType* type = param->annotation.as<TensorType>())
      for (const lathe::Expr& dim : type->shape)
        if (const auto* variable = dim.as<lathe::VarNode>()) shown.emplace(variable, -1);
  return shown;
}

Module with_known(const Module& module, const Numbers& numbers) {
  VarMap known;
  for (const auto& [variable, number] : numbers)
    if (number >= 0) known[variable] = lathe::Expr(number);
  return with_numbers(module, known);
}

/// Tells whether types hold where a variable is 1.
class MayBeOne {
 public:
  explicit MayBeOne(const Module& module) : module_(module) {}
  bool operator()(const lathe::Expr& variable) {
    const auto [known, is_new] = answers_.try_emplace(variable.get(), true);
    if (is_new) try {
        infer_type(with_numbers(module_, {{variable.as<lathe::VarNode>(), lathe::Expr(1)}}));
      } catch (const TypeError&) {
        known->second = false;
      }
    return known->second;
  }

 private:
  const Module& module_;
  std::unordered_map<const Node*, bool> answers_;
};

}  // namespace

Module settle_dims(const Module& module) {
  const auto found = module->functions.find("main");
  if (found == module->functions.end()) return module;
  Numbers numbers = shown_by(*found->second);
  if (numbers.empty()) return module;
  CertainCalls certain;
  certain.visit(found->second->body);
  MayBeOne may_be_one(module);
  bool settled = false;
  const auto settle = [&](const lathe::Expr& dim, const lathe::Expr& number) {
    const auto shown = numbers.find(dim.as<lathe::VarNode>());
    const int64_t* value = as_int(number);
    if (shown == numbers.end() || !value || *value < 0 || shown->second >= 0) return;
    shown->second = *value;
    settled = true;
  };
  for (const DimCheck& check : undecided_dims(module)) {
    if (!certain(check.call)) continue;
    const lathe::Expr a = simplify(check.a), b = simplify(check.b);
    // What a branch cannot take a run may never get to.
    const auto is_the_number = [&](const lathe::Expr& dim) {
      return !check.or_one ||
             (certain.are_all() && numbers.count(dim.as<lathe::VarNode>()) && !may_be_one(dim));
    };
    if (as_int(b) && is_the_number(a)) settle(a, b);
    if (as_int(a) && is_the_number(b)) settle(b, a);
  }
  if (!settled) return module;
  // Again: a number may be what another equation waited for.
  return settle_dims(with_known(module, numbers));
}

Module with_numbers(const Module& module, const VarMap& numbers) {
  return rewrite(module,
                 [&](const NodeRef& node) -> NodeRef {
                   const auto* variable = node.as<lathe::VarNode>();
                   const auto number = variable ? numbers.find(variable) : numbers.end();
                   return number == numbers.end() ? node : NodeRef(number->second);
                 })
      .cast<ModuleNode>();
}

}  // namespace lathe::relay
