#include "core/relay/analysis/well_formed.h"

#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"

namespace lathe::relay {
namespace {

/// Answers "is scope a inside scope b": by the numbers at which a walk of the tree enters and leaves them.
class ScopeIntervals {
 public:
  explicit ScopeIntervals(const std::vector<int>& parents) : enter_(parents.size()), leave_(parents.size()) {
    // A scope's number is larger than its parent's: sizes add up from the back, then places from the front.
    std::vector<int> sizes(parents.size(), 1), next(parents.size(), 1);
    for (size_t i = parents.size(); i-- > 1;) sizes[parents[i]] += sizes[i];
    for (size_t i = 0; i < parents.size(); ++i) {
      if (i > 0) {
        enter_[i] = enter_[parents[i]] + next[parents[i]];
        next[parents[i]] += sizes[i];
      }
      leave_[i] = enter_[i] + sizes[i];
    }
  }
  /// O(1) a question, after O(scopes) of preparation.
  bool inside(int a, int b) const { return enter_[b] <= enter_[a] && enter_[a] < leave_[b]; }

 private:
  std::vector<int> enter_, leave_;
};

class Checker {
 public:
  Checker(const ModuleNode& module, const Ref<Function>& function)
      : module_(module), scopes_(graph_scopes(function)), intervals_(scopes_.parents) {}

  std::string run() {
    for (const auto& members : scopes_.members)
      for (const Expr& e : members) bind(e);
    for (const auto& members : scopes_.members)
      for (const Expr& e : members) check(e);
    return problem_;
  }

 private:
  template <typename... Args>
  /// The first problem alone: others often follow from it.
  void report(fmt::format_string<Args...> format, Args&&... args) {
    if (problem_.empty()) problem_ = fmt::format(format, std::forward<Args>(args)...);
  }

  void bind_var(const Var& variable, int scope) {
    auto [bound, is_new] = bound_.insert(variable.get());
    if (!is_new) return report("variable %{} is bound twice", variable->name);
    *bound = scope;
  }

  void bind_pattern(const Pattern& pattern, int scope) {
    if (const auto* variable = pattern.as<VarPattern>()) bind_var(variable->var, scope);
    if (const auto* tuple = pattern.as<TuplePattern>())
      for (const Pattern& each : tuple->items) bind_pattern(each, scope);
    if (const auto* constructor = pattern.as<ConstructorPattern>())
      for (const Pattern& each : constructor->items) bind_pattern(each, scope);
  }

  /// All variables are bound before any use is checked, so the order of members does not matter.
  void bind(const Expr& e) {
    const GraphScopes::Place& place = scopes_.places.at(e.get());
    if (const auto* function = e.as<Function>())
      for (const Var& param : function->params) bind_var(param, place.bodies[0]);
    // A function bound by let may call itself.
    if (const auto* let = e.as<Let>())
      bind_var(let->var, let->value.as<Function>() ? place.scope : place.bodies[0]);
    if (const auto* match = e.as<Match>())
      for (size_t i = 0; i < match->clauses.size(); ++i)
        bind_pattern(match->clauses[i].pattern, place.bodies[i]);
  }

  void check(const Expr& e) {
    const GraphScopes::Place& place = scopes_.places.at(e.get());
    size_t next_body = 0;
    for_each_operand(e, [&](const Expr& operand, bool in_scope) {
      // Others than leaves have no scope to leave: they belong where all their uses are.
      check_leaf(operand, in_scope ? place.scope : place.bodies[next_body++]);
    });
    const Call* call = e.as<Call>();
    const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
    const Op* row = op ? find_op(op->name) : nullptr;
    if (row && call->attrs && &call->attrs->type() != row->attrs)
      report("{} has attributes of type {}", op->name, call->attrs->type().name);
  }

  void check_leaf(const Expr& e, int scope) {
    if (const auto* variable = e.as<VarNode>()) {
      const int* found = bound_.find(variable);
      if (!found)
        report("variable %{} is free", variable->name);
      else if (!intervals_.inside(scope, *found))
        report("variable %{} is used out of its scope", variable->name);
    }
    if (const auto* global = e.as<GlobalVarNode>())
      if (!module_.functions.count(global->name)) report("there is no function @{}", global->name);
    if (const auto* op = e.as<OpNode>())
      if (!find_op(op->name)) report("there is no operator {}", op->name);
    if (const auto* constructor = e.as<ConstructorNode>())
      if (!module_.types.count(constructor->belongs_to->name))
        report("there is no type {}", constructor->belongs_to->name);
  }

  const ModuleNode& module_;
  GraphScopes scopes_;
  ScopeIntervals intervals_;
  NodeMap<int> bound_;  // variable -> scope where it may be used
  std::string problem_;
};

}  // namespace

std::string find_ill_formed(const Module& module) {
  for (const auto& [name, function] : module->functions) {
    std::string problem = Checker(*module, function).run();
    if (!problem.empty()) return fmt::format("@{}: {}", name, problem);
  }
  return "";
}

}  // namespace lathe::relay
