#include "core/relay/passes/infer_type.h"

#include "core/relay/infer/collector.h"
#include "core/relay/infer/escape.h"
#include "core/relay/op.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// The global functions, callees before callers where there is no recursion.
/// Callers then see dimensions that are general (TypeCollector::add).
std::vector<std::string> callees_first(const Module& module) {
  // Of one function there is nothing to order, and it may be long.
  if (module->functions.size() == 1) return {module->functions.begin()->first};
  std::vector<std::string> order;
  std::unordered_set<std::string> entered;
  std::function<void(const std::string&)> enter = [&](const std::string& name) {
    auto found = module->functions.find(name);
    if (found == module->functions.end() || !entered.insert(name).second) return;
    // Collected first, so that the walk over this function is over before the next begins.
    std::vector<std::string> callees;
    post_order(found->second, [&](const NodeRef& node) {
      if (const GlobalVarNode* global = node.as<GlobalVarNode>()) callees.push_back(global->name);
    });
    for (const std::string& callee : callees) with_enough_stack([&] { enter(callee); });
    order.push_back(name);
  };
  for (const auto& each : module->functions) enter(each.first);
  return order;
}

/// Operators that are arguments, items or results, and not called where they stand.
class OperatorValues : public ExprVisitor {
 public:
  bool found = false;

 private:
  void visit_default(const Expr& e) override {
    const Call* call = e.as<Call>();
    for_each_operand(e, [&](const Expr& operand, bool) {
      found |= operand.as<OpNode>() && !(call && operand == call->callee);
    });
    ExprVisitor::visit_default(e);
  }
};

/// `add` becomes fn (%a, %b) { add(%a, %b) }, with the defaults of its attributes. What follows needs no case
/// for operators that are values, and each use has types of its own.
class OperatorsAsFunctions : public ExprMutator {
  Expr visit_op(const Ref<OpNode>& e) override {
    const Op& row = e->row();
    // There is no function type of any number of arguments.
    if (row.args < 0)
      type_error(e, fmt::format("{} takes any number of arguments; as a value, write fn (...) {{ {}(...) }}",
                                e->name, e->name));
    std::vector<Var> params;
    for (int i = 0; i < row.args; ++i) params.push_back(make_var(fmt::format("a{}", i)));
    Ref<Call> body = with_span(call(e->name, {params.begin(), params.end()}).cast<Call>(), e->span);
    return with_span(make<Function>(std::vector<TypeVar>{}, params, Type(), body), e->span);
  }
  Expr visit_call(const Ref<Call>& e) override {
    if (!e->callee.as<OpNode>()) return visit_default(e);
    auto copy = mutate(*e);
    for (Expr& arg : copy->args) arg = visit(arg);
    return seal(std::move(copy));
  }
};

Module with_operators_as_functions(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) {
    OperatorValues values;
    values.visit(function);
    return values.found ? OperatorsAsFunctions().visit_as(function) : function;
  });
}

void collect(const Module& module, TypeCollector& types) {
  for (const std::string& name : callees_first(module)) types.add(name);
  types.finish();
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
  Expr typed(const Expr& original, const Expr& e) {
    Type type = types_.type_of(original);
    if (!type || (e->checked_type && same(type, e->checked_type))) return e;
    return with_checked_type(e, type);
  }

  /// Structural equality. Tuples that were found equal are not entered again: of nested ones each level costs
  /// the same.
  bool same(const Type& a, const Type& b) {
    if (a == b || same_tensors(a, b)) return true;
    const TupleType *x = a.as<TupleType>(), *y = b.as<TupleType>();
    if (!x || !y) return structural_equal(a, b);
    if (const auto* known = equal_.find(a.get()); known && known->second == b) return true;
    if (x->items.size() != y->items.size()) return false;
    for (size_t i = 0; i < x->items.size(); ++i)
      if (!same(x->items[i], y->items[i])) return false;
    equal_[a.get()] = {a, b};
    return true;
  }

  /// What nearly all types are, without the tables of structural equality: tensors of one constant shape.
  static bool same_tensors(const Type& a, const Type& b) {
    const TensorType *x = a.as<TensorType>(), *y = b.as<TensorType>();
    return x && y && x->dtype == y->dtype &&
           std::equal(x->shape.begin(), x->shape.end(), y->shape.begin(), y->shape.end(),
                      [](const lathe::Expr& m, const lathe::Expr& n) {
                        const auto *constant = m.as<IntImm>(), *other = n.as<IntImm>();
                        return constant && other && constant->value == other->value &&
                               constant->dtype == other->dtype;
                      });
  }

  const TypeCollector& types_;
  NodeSet params_;
  NodeMap<std::pair<Type, Type>> equal_;  // by the first, which it keeps alive
};

}  // namespace

Module infer_type(const Module& original) {
  Module module = with_operators_as_functions(original);
  TypeCollector types(module);
  collect(module, types);
  return map_functions(module, [&](const Ref<Function>& function) {
    Ref<Function> typed = Annotate(types).visit_as(function);
    check_type_params_stay(typed);
    return typed;
  });
}

std::vector<DimCheck> undecided_dims(const Module& original) {
  Module module = with_operators_as_functions(original);
  TypeCollector types(module);
  collect(module, types);
  return types.checks();
}

Ref<Function> infer_type(const Ref<Function>& function) {
  return infer_type(make_module(function))->functions.at("main");
}

}  // namespace lathe::relay
