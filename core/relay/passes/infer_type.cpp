#include "core/relay/passes/infer_type.h"

#include "core/relay/infer/collector.h"
#include "core/relay/infer/dataflow.h"
#include "core/relay/infer/escape.h"
#include "core/relay/op.h"
#include "core/relay/text.h"
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

/// Functions that are polymorphic in a shape or a base type: each use has code of its own.
bool is_generic_function(const Function& function) {
  for (const TypeVar& each : function.type_params)
    if (each->of != Kind::kType) return true;
  return false;
}

/// Finds operators and generic functions that are arguments, items or results, and not called where they
/// stand, or bound by let.
class Values : public ExprVisitor {
 public:
  explicit Values(const Module& module) {
    for (const auto& [name, function] : module->functions)
      if (is_generic_function(*function)) generic_globals_.insert(name);
  }

  bool found = false;
  /// How many parameters the function has that `e` is the value of; nothing where it may stay.
  std::optional<size_t> params_of(const Expr& e, const ModuleNode& module) const {
    if (const GlobalVarNode* global = e.as<GlobalVarNode>())
      return generic_globals_.count(global->name)
                 ? std::optional(module.functions.at(global->name)->params.size())
                 : std::nullopt;
    const Function* function = e.as<Function>();
    if (e.as<VarNode>()) {
      const Function* const* named = generic_locals_.find(e.get());
      function = named ? *named : nullptr;
    }
    if (!function || !is_generic_function(*function)) return std::nullopt;
    return function->params.size();
  }
  bool is_generic(const Expr& e) const {
    const GlobalVarNode* global = e.as<GlobalVarNode>();
    const Function* function = e.as<Function>();
    return (global && generic_globals_.count(global->name)) || generic_locals_.count(e.get()) ||
           (function && is_generic_function(*function));
  }

 private:
  void visit_default(const Expr& e) override {
    const Call* call = e.as<Call>();
    const Let* let = e.as<Let>();
    for_each_operand(e, [&](const Expr& operand, bool) {
      const bool named = (call && operand == call->callee) || (let && operand == let->value);
      const OpNode* op = operand.as<OpNode>();
      if ((!op && !is_generic(operand)) || (named && !(let && op))) return;
      found = true;
      // There is no function type of any number of arguments.
      if (op && op->row().args < 0)
        type_error(operand,
                   fmt::format("{} takes any number of arguments; as a value, write fn (...) {{ {}(...) }}",
                               op->name, op->name));
    });
    ExprVisitor::visit_default(e);
  }
  void enter_let(const Ref<Let>& let) override {
    const Function* function = let->value.as<Function>();
    if (function && is_generic_function(*function)) generic_locals_[let->var.get()] = function;
  }

  std::unordered_set<std::string> generic_globals_;
  NodeMap<const Function*> generic_locals_;
};

/// `add` becomes fn (%a, %b) { add(%a, %b) }, with the defaults of its attributes; so does the name of a
/// generic function. What follows needs no case for these as values, and each use has types of its own.
class ValuesAsFunctions : public ExprMutator {
 public:
  ValuesAsFunctions(const ModuleNode& module, const Values& values) : module_(module), values_(values) {}

 private:
  Expr visit_op(const Ref<OpNode>& e) override {
    const Op& row = e->row();
    // Called where it stands: it is visited with what a call takes.
    if (row.args < 0) return e;
    return applied(e, static_cast<size_t>(row.args),
                   [&](std::vector<Expr> args) { return call(e->name, std::move(args)); });
  }
  Expr visit_var(const Var& e) override { return generic(e, e); }
  Expr visit_global_var(const GlobalVar& e) override { return generic(e, e); }
  Expr visit_function(const Ref<Function>& e) override { return generic(e, visit_default(e)); }

  /// `e`, rewritten to `to`, as a value.
  Expr generic(const Expr& e, const Expr& to) {
    std::optional<size_t> params = values_.params_of(e, module_);
    if (!params) return to;
    return applied(e, *params, [&](std::vector<Expr> args) { return make<Call>(to, std::move(args)); });
  }

  Expr visit_call(const Ref<Call>& e) override {
    if (!e->callee.as<OpNode>() && !values_.is_generic(e->callee)) return visit_default(e);
    auto copy = mutate(*e);
    copy->callee = in_place(e->callee);
    for (Expr& arg : copy->args) arg = visit(arg);
    return seal(std::move(copy));
  }
  void enter_let(const Ref<Let>& let) override {
    if (values_.is_generic(let->value)) set(let->value, in_place(let->value));
  }
  /// The variable is named here, and no value.
  Expr visit_let(const Ref<Let>& e) override {
    if (!values_.is_generic(e->value)) return visit_default(e);
    auto copy = mutate(*e);
    copy->value = visit(e->value);
    copy->body = visit(e->body);
    return seal(std::move(copy));
  }

  /// What is called, or named by a let: a function keeps its place, with the body rewritten.
  Expr in_place(const Expr& e) {
    const Function* function = e.as<Function>();
    if (!function) return e;
    // Once, however often it is called: copies would have the same parameters.
    if (const Expr* known = in_place_.find(e.get())) return *known;
    const Expr body = visit(function->body);
    if (body == function->body) return in_place_[e.get()] = e;
    auto copy = mutate(*function);
    copy->body = body;
    return in_place_[e.get()] = seal(std::move(copy));
  }

  template <typename MakeCall>
  static Expr applied(const Expr& e, size_t count, MakeCall make_call) {
    std::vector<Var> params;
    for (size_t i = 0; i < count; ++i) params.push_back(make_var(fmt::format("a{}", i)));
    Ref<Call> body = with_span(make_call({params.begin(), params.end()}).template cast<Call>(), e->span);
    return with_span(make<Function>(std::vector<TypeVar>{}, params, Type(), body), e->span);
  }

  const ModuleNode& module_;
  const Values& values_;
  NodeMap<Expr> in_place_;
};

Module with_values_as_functions(const Module& module) {
  Values values(module);
  for (const auto& each : module->functions) values.visit(each.second);
  if (!values.found) return module;
  return map_functions(module, [&](const Ref<Function>& function) {
    // A global function is known by its name.
    auto copy = mutate(*function);
    copy->body = ValuesAsFunctions(*module, values).visit(function->body);
    return copy->body == function->body ? function : seal(std::move(copy));
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
    if (const Call* call = original.as<Call>(); call && call->out_type) check_foreign(*call);
    if (!type || (e->checked_type && same(type, e->checked_type))) return e;
    check_shapes(original, type);
    return with_checked_type(e, type);
  }

  /// A tensor program or a library function reads and writes memory.
  void check_foreign(const Call& call) const {
    for (const Expr& arg : call.args)
      if (const Type other = no_tensor(types_.type_of(arg)))
        throw TypeError(call.span, fmt::format("a function that writes its result takes tensors, and no {}",
                                               print(other)));
    if (const Type other = no_tensor(call.out_type))
      throw TypeError(
          call.span, fmt::format("a function that writes its result gives tensors, and no {}", print(other)));
  }

  /// A part of a type that is for certain not of tensors and tuples of them; or null.
  static Type no_tensor(const Type& type) {
    if (type.as<FuncType>() || type.as<RefType>() || type.as<GlobalTypeVarNode>() || type.as<TypeCall>())
      return type;
    Type found;
    if (const TupleType* tuple = type.as<TupleType>())
      with_enough_stack([&] {
        for (const Type& item : tuple->items)
          if (!found) found = no_tensor(item);
      });
    return found;
  }

  /// A call may make a number of a dimension that was an expression.
  void check_shapes(const Expr& e, const Type& type) {
    if (const TensorType* tensor = type.as<TensorType>()) {
      for (const lathe::Expr& dim : tensor->shape)
        if (const int64_t* number = as_int(dim); number && *number < 0)
          throw TypeError(e->span, fmt::format("dimension {} is negative", *number));
      return;
    }
    const TupleType* tuple = type.as<TupleType>();
    const TypeCall* data = type.as<TypeCall>();
    if (!tuple && !data) return;
    // As with same(): parts that were looked at are not entered again.
    if (looked_at_.count(type.get())) return;
    looked_at_[type.get()] = type;
    with_enough_stack([&] {
      for (const Type& part : tuple ? tuple->items : data->args) check_shapes(e, part);
    });
  }

  /// Structural equality. Tuples that were found equal are not entered again: of nested ones each level costs
  /// the same.
  bool same(const Type& a, const Type& b) {
    if (a == b || same_tensors(a, b)) return true;
    const TupleType *x = a.as<TupleType>(), *y = b.as<TupleType>();
    if (!x || !y) return structural_equal(a, b);
    if (const auto* known = equal_.find(a.get()); known && known->second == b) return true;
    if (x->items.size() != y->items.size()) return false;
    bool all = true;
    with_enough_stack([&] {
      for (size_t i = 0; all && i < x->items.size(); ++i) all = same(x->items[i], y->items[i]);
    });
    if (all) equal_[a.get()] = {a, b};
    return all;
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
  NodeMap<Type> looked_at_;               // for negative dimensions
};

}  // namespace

Module infer_type(const Module& original) {
  Module module = with_values_as_functions(original);
  check_dataflow(module);
  TypeCollector types(module);
  collect(module, types);
  return map_functions(module, [&](const Ref<Function>& function) {
    Ref<Function> typed = Annotate(types).visit_as(function);
    check_type_params_stay(typed);
    return typed;
  });
}

std::vector<DimCheck> undecided_dims(const Module& original) {
  Module module = with_values_as_functions(original);
  TypeCollector types(module);
  collect(module, types);
  return types.checks();
}

Ref<Function> infer_type(const Ref<Function>& function) {
  return infer_type(make_module(function))->functions.at("main");
}

}  // namespace lathe::relay
