#include "core/relay/passes/infer_type.h"

#include "core/relay/infer/collector.h"

namespace lathe::relay {
namespace {

/// The global functions, callees before callers where there is no recursion.
/// Callers then see dimensions that are general (TypeCollector::add).
std::vector<std::string> callees_first(const Module& module) {
  std::vector<std::string> order;
  std::unordered_set<std::string> entered;
  std::function<void(const std::string&)> enter = [&](const std::string& name) {
    auto found = module->functions.find(name);
    if (found == module->functions.end() || !entered.insert(name).second) return;
    std::vector<std::string> callees;
    post_order(found->second, [&](const NodeRef& node) {
      if (const GlobalVarNode* global = node.as<GlobalVarNode>()) callees.push_back(global->name);
    });
    for (const std::string& callee : callees) enter(callee);
    order.push_back(name);
  };
  for (const auto& each : module->functions) enter(each.first);
  return order;
}

/// Puts the types into the expressions.
class Annotate : public ExprMutator {
 public:
  explicit Annotate(const TypeCollector& types) : types_(types) {}

 private:
  Expr visit_default(const Expr& e) override { return typed(e, ExprMutator::visit_default(e)); }

  Expr visit_var(const Var& e) override {
    // Only parameters are annotated, as the contract says; a variable of a let keeps what was written.
    Type type = types_.type_of(e);
    if (e->annotation || !params_.count(e.get())) return typed(e, e);
    auto copy = mutate(*e);
    copy->annotation = copy->checked_type = type;
    return seal(std::move(copy));
  }

  Expr visit_function(const Ref<Function>& e) override {
    for (const Var& param : e->params) params_.insert(param.get());
    Ref<Function> function = ExprMutator::visit_default(e).cast<Function>();
    if (!function->result_type) {
      auto copy = mutate(*function);
      copy->result_type = types_.type_of(e).as<FuncType>()->result;
      function = seal(std::move(copy));
    }
    return typed(e, function);
  }

  /// Types are looked up by the expression before rewriting. A node that has its type stays the same node: a
  /// pass that runs inference again over an unchanged module gives that very module.
  Expr typed(const Expr& original, const Expr& e) const {
    Type type = types_.type_of(original);
    if (!type || (e->checked_type && structural_equal(type, e->checked_type))) return e;
    return with_checked_type(e, type);
  }

  const TypeCollector& types_;
  std::unordered_set<const Node*> params_;
};

/// "file:line:column: error: ..." for text, "node: ..." for imported models, whose spans have no lines.
std::string with_place(const Span& span, const std::string& message) {
  if (span.line > 0) return fmt::format("{}:{}:{}: error: {}", span.source, span.line, span.column, message);
  return span.source.empty() ? message : fmt::format("{}: {}", span.source, message);
}

}  // namespace

TypeError::TypeError(Span span, std::string message)
    : Error(with_place(span, message)), span_(std::move(span)), message_(std::move(message)) {}

Module infer_type(const Module& module) {
  TypeCollector types(module);
  for (const std::string& name : callees_first(module)) types.add(name);
  types.finish();
  return map_functions(module,
                       [&](const Ref<Function>& function) { return Annotate(types).visit_as(function); });
}

Ref<Function> infer_type(const Ref<Function>& function) {
  return infer_type(make_module(function))->functions.at("main");
}

}  // namespace lathe::relay
