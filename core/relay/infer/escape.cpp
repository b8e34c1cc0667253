#include "core/relay/infer/escape.h"

#include "core/relay/functor.h"
#include "core/relay/infer/collector.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

class Escape : public ExprVisitor {
 private:
  /// Those that are new: a function's type mentions the function's own parameters.
  std::vector<const Node*> enter(const std::vector<TypeVar>& params) {
    std::vector<const Node*> entered;
    for (const TypeVar& each : params)
      if (in_scope_.insert(each.get()).second) entered.push_back(each.get());
    return entered;
  }
  void leave(const std::vector<const Node*>& entered) {
    for (const Node* each : entered) in_scope_.erase(each);
  }

  void check(const Var& variable) {
    if (variable->checked_type) check(variable, variable->checked_type);
  }

  /// Whether `type` mentions a type parameter at all.
  bool mentions_any(const Type& type) {
    if (type.as<TypeVarNode>()) return true;
    if (type.as<TensorType>()) return false;
    if (const bool* known = mentions_.find(type.get())) return *known;
    bool found = false;
    with_enough_stack([&] {
      type->for_each_child([&](const NodeRef& child) {
        if (dynamic_cast<const TypeNode*>(child.get())) found = found || mentions_any(child.cast<TypeNode>());
      });
    });
    return mentions_[type.get()] = found;
  }

  void check(const Var& variable, const Type& type) {
    if (!mentions_any(type)) return;
    if (const TypeVarNode* param = type.as<TypeVarNode>(); param && !in_scope_.count(param))
      type_error(variable, fmt::format("the type of `%{}` would mention `{}`, a type parameter of a function "
                                       "further in",
                                       variable->name, param->name));
    const FuncType* function = type.as<FuncType>();
    std::vector<const Node*> entered = enter(function ? function->type_params : std::vector<TypeVar>{});
    with_enough_stack([&] {
      type->for_each_child([&](const NodeRef& child) {
        if (dynamic_cast<const TypeNode*>(child.get())) check(variable, child.cast<TypeNode>());
      });
    });
    leave(entered);
  }

  void check(const Pattern& pattern) {
    if (const auto* variable = pattern.as<VarPattern>()) check(variable->var);
    pattern->for_each_child([&](const NodeRef& child) {
      if (dynamic_cast<const PatternNode*>(child.get())) check(child.cast<PatternNode>());
    });
  }

  void enter_let(const Ref<Let>& let) override { check(let->var); }
  void visit_function(const Ref<Function>& e) override {
    std::vector<const Node*> entered = enter(e->type_params);
    for (const Var& param : e->params) check(param);
    visit(e->body);
    leave(entered);
  }
  void visit_match(const Ref<Match>& e) override {
    for (const Clause& clause : e->clauses) check(clause.pattern);
    visit_default(e);
  }

  std::unordered_set<const Node*> in_scope_;  // type parameters
  NodeMap<bool> mentions_;                    // by type, those of tensors left out
};

}  // namespace

void check_type_params_stay(const Ref<Function>& function) { Escape().visit(function); }

}  // namespace lathe::relay
