#include "core/relay/passes/specialize.h"

#include <algorithm>
#include <map>

#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/infer/collector.h"
#include "core/relay/infer/dim_owners.h"
#include "core/relay/infer/unifier.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/passes/normal_form.h"
#include "core/relay/text.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

constexpr size_t kMaxInstances = 1000;

using Values = std::unordered_map<const Node*, Type>;

bool is_special(const TypeVar& variable) { return variable->of != Kind::kType; }

bool is_generic(const Function& function) {
  return std::any_of(function.type_params.begin(), function.type_params.end(), is_special);
}

/// Finds what the variables of kind Shape and BaseType in `pattern` stand for in `type`.
void match_types(const Type& pattern, const Type& type, Values& values) {
  if (const GenericTensorType* generic = pattern.as<GenericTensorType>()) {
    const TensorType* tensor = type.as<TensorType>();
    if (!tensor) return;
    if (generic->shape.as<TypeVarNode>())
      values.try_emplace(generic->shape.get(), make<ShapeType>(tensor->shape));
    if (generic->base.as<TypeVarNode>()) values.try_emplace(generic->base.get(), base_type(tensor->dtype));
    return;
  }
  if (pattern->kind() != type->kind() || pattern.as<TensorType>()) return;
  std::vector<Type> parts, found;
  auto add = [](std::vector<Type>& list) {
    return [&list](const NodeRef& child) {
      if (dynamic_cast<const TypeNode*>(child.get())) list.push_back(child.cast<TypeNode>());
    };
  };
  pattern->for_each_child(add(parts));
  type->for_each_child(add(found));
  with_enough_stack([&] {
    for (size_t i = 0; i < parts.size() && i < found.size(); ++i) match_types(parts[i], found[i], values);
  });
}

class Specializer {
 public:
  explicit Specializer(const Module& module) : module_(module), result_(mutate(*module)) {
    std::erase_if(result_->functions, [](const auto& each) { return is_generic(*each.second); });
    for (const auto& each : module->functions) dims_.merge(dim_owners(each.second));
  }

  Module run() {
    auto main = module_->functions.find("main");
    if (main != module_->functions.end() && is_generic(*main->second))
      type_error(main->second,
                 "@main is polymorphic in a shape or a base type; nothing calls it that says which");
    for (auto& each : result_->functions) pending_.push_back({each.first, each.second, {}});
    // Instances are added on the way.
    for (size_t i = 0; i < pending_.size(); ++i) {
      const Pending next = pending_[i];
      result_->functions[next.name] = Instantiate(*this, next.values).function(next.function);
    }
    return seal(std::move(result_));
  }

 private:
  struct Pending {
    std::string name;
    Ref<Function> function;
    Values values;
  };

  /// A copy of an expression for certain types. All variables are new, since another copy gives them others.
  class Instantiate : public ExprMutator {
   public:
    Instantiate(Specializer& all, Values values) : all_(all), values_(std::move(values)) {}

    Ref<Function> function(const Ref<Function>& e) {
      auto instance = mutate(*e);
      std::erase_if(instance->type_params, is_special);
      instance->constraints.clear();  // what they promise is checked in the body itself
      return visit_default(seal(std::move(instance))).cast<Function>();
    }

   private:
    Type visit_type(const Type& type) override {
      const Type known = substitute_types(type, values_);
      return dims_.empty() ? known : with_dims(known);
    }

    Type with_dims(const Type& type) const {
      return rewrite(type,
                     [&](const NodeRef& node) -> NodeRef {
                       auto found = dims_.find(node.get());
                       return found == dims_.end() ? node : NodeRef(found->second);
                     })
          .cast<TypeNode>();
    }

    Expr visit_var(const Var& e) override {
      if (outer_ && !bound_.count(e.get())) return outer_->visit(e);
      if (values_.empty()) return e;
      return with_span(make_var(e->name, e->annotation ? visit_type(e->annotation) : Type()).cast<VarNode>(),
                       e->span);
    }

    /// Nothing of a copy is shared with another: what is shared is computed once, outside of both.
    Expr visit_default(const Expr& e) override {
      Expr result = ExprMutator::visit_default(e);
      return result == e && !values_.empty() && !is_leaf(e) ? with_checked_type(e, e->checked_type) : result;
    }

    /// A generic function that a let names is copied where it is called.
    void enter_let(const Ref<Let>& let) override {
      const Function* function = let->value.as<Function>();
      if (function && is_generic(*function)) locals_[let->var.get()] = let->value.cast<Function>();
    }
    Expr visit_let(const Ref<Let>& e) override {
      return locals_.count(e->var.get()) ? visit(e->body) : visit_default(e);
    }
    /// Of a generic one the body is visited for each instance.
    Expr visit_function(const Ref<Function>& e) override {
      return is_generic(*e) ? Expr(e) : visit_default(e);
    }

    Expr visit_call(const Ref<Call>& e) override {
      if (const GlobalVarNode* global = e->callee.as<GlobalVarNode>()) {
        const Ref<Function>& callee = all_.module_->functions.at(global->name);
        if (is_generic(*callee))
          return instance_call(e, *callee, [&](const Values& values) {
            return all_.instance(e, global->name, callee, values);
          });
      }
      const Function* literal = e->callee.as<Function>();
      if (literal && is_generic(*literal))
        return instance_call(e, *literal, [&](const Values& values) -> Expr {
          return copy(e, nullptr, e->callee.cast<Function>(), values);
        });
      auto local = locals_.find(e->callee.get());
      if (local == locals_.end()) return visit_default(e);
      const Ref<Function> function = local->second;
      return instance_call(e, *function, [&](const Values& values) -> Expr {
        const std::string key = all_.key_of("", *function, values);
        auto open = open_.find({function.get(), key});
        if (open != open_.end()) return open->second;  // a call of itself
        return copy(e, e->callee.cast<VarNode>(), function, values);
      });
    }

    template <typename MakeCallee>
    Expr instance_call(const Ref<Call>& e, const Function& callee, MakeCallee make_callee) {
      auto copy = mutate(*e);
      for (Expr& arg : copy->args) arg = visit(arg);
      copy->type_args.clear();
      Values values;
      for (size_t i = 0; i < callee.type_params.size(); ++i) {
        if (i >= e->type_args.size()) break;
        const Type given = visit_type(e->type_args[i]);
        if (is_special(callee.type_params[i]))
          values[callee.type_params[i].get()] = given;
        else
          copy->type_args.push_back(given);
      }
      for (size_t i = 0; i < callee.params.size(); ++i)
        if (callee.params[i]->annotation)
          match_types(callee.params[i]->annotation, type_of(e->args[i]), values);
      if (callee.result_type) match_types(callee.result_type, type_of(e), values);
      copy->callee = make_callee(values);
      return seal(std::move(copy));
    }

    Type type_of(const Expr& e) {
      const VarNode* variable = e.as<VarNode>();
      const Type type = e->checked_type || !variable ? e->checked_type : variable->annotation;
      CHECK(type, "an expression without a type");
      return visit_type(type);
    }

    /// The function for `values`, as an expression; named by let where it has a name, which it may call.
    Expr copy(const Expr& e, const Var& name, const Ref<Function>& function, const Values& values) {
      all_.count(e);
      Values inner = values_;
      for (const auto& each : values) inner[each.first] = each.second;
      Instantiate again(all_, std::move(inner));
      again.locals_ = locals_;
      again.open_ = open_;
      again.outer_ = this;
      again.binds(function);
      again.dims_ = dims_;
      if (auto owned = all_.dims_.find(function.get()); owned != all_.dims_.end())
        for (const Node* each : owned->second)
          again.dims_[each] = var(static_cast<const lathe::VarNode*>(each)->name);
      Var variable = name ? make_var(name->name) : Var();
      if (name) again.open_[{function.get(), all_.key_of("", *function, values)}] = variable;
      Expr instance;
      with_enough_stack([&] { instance = again.function(function); });
      return name ? Expr(make<Let>(variable, instance, variable)) : instance;
    }

    /// Notes the variables that are bound in `function`; others are those of the copy around.
    void binds(const Ref<Function>& function) {
      post_order(function, [&](const NodeRef& node) {
        if (const Let* let = node.as<Let>()) bound_.insert(let->var.get());
        if (const VarPattern* pattern = node.as<VarPattern>()) bound_.insert(pattern->var.get());
        if (const Function* inner = node.as<Function>())
          for (const Var& param : inner->params) bound_.insert(param.get());
      });
    }

    Specializer& all_;
    Values values_;
    std::unordered_map<const Node*, lathe::Expr>
        dims_;  // of a local function's own dimensions: those of its copy
    Instantiate* outer_ = nullptr;
    NodeSet bound_;
    std::unordered_map<const Node*, Ref<Function>> locals_;    // generic ones, by variable
    std::map<std::pair<const Node*, std::string>, Var> open_;  // instances of local ones that are being made
  };

  void count(const Expr& e) {
    if (++instances_ > kMaxInstances)
      type_error(
          e, fmt::format("more than {} instances of functions that are polymorphic in shapes or base types",
                         kMaxInstances));
  }

  std::string key_of(const std::string& name, const Function& function, const Values& values) const {
    std::string key = name;
    for (const TypeVar& each : function.type_params) {
      if (!is_special(each)) continue;
      auto found = values.find(each.get());
      CHECK(found != values.end(), "what {} stands for is not known", each->name);
      key += "." + print(found->second);
      // Symbolic dimensions of one name differ.
      post_order(found->second, [&](const NodeRef& node) {
        if (node.as<lathe::VarNode>()) key += fmt::format("_{}", static_cast<const void*>(node.get()));
      });
    }
    return key;
  }

  /// The name of a global function's instance, made when it is first asked for.
  Expr instance(const Expr& e, const std::string& name, const Ref<Function>& function, const Values& values) {
    auto [found, is_new] = names_.try_emplace(key_of(name, *function, values));
    if (is_new) {
      count(e);
      do found->second = fmt::format("{}.instance{}", name, next_[name]++);
      while (module_->functions.count(found->second));
      pending_.push_back({found->second, function, values});
    }
    return make<GlobalVarNode>(found->second);
  }

  Module module_;
  std::unordered_map<const Node*, std::unordered_set<const Node*>> dims_;  // that local functions own
  std::unique_ptr<ModuleNode> result_;
  std::vector<Pending> pending_;
  std::map<std::string, std::string> names_;  // of instances, by key
  std::map<std::string, int> next_;
  size_t instances_ = 0;
};

bool has_generic_functions(const Module& module) {
  bool found = false;
  for (const auto& each : module->functions)
    post_order(each.second, [&](const NodeRef& node) {
      const Function* function = node.as<Function>();
      found |= function && is_generic(*function);
    });
  return found;
}

}  // namespace

Module specialize(const Module& module) {
  if (!has_generic_functions(module)) return module;
  // What is shared is bound by let: a copy of a function that uses it must not compute it again.
  const Module normal =
      map_functions(module, [](const Ref<Function>& function) { return to_a_normal_form(function); });
  return infer_type(Specializer(normal).run());
}

}  // namespace lathe::relay
