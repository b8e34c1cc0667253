#include "core/program/stretches.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/program/bindings.h"
#include "core/program/extents.h"
#include "core/program/open_stretch.h"
#include "core/program/shorten.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/passes/normal_form.h"
#include "core/relay/text.h"
#include "core/runtime/program/scalar.h"
#include "core/support/placed_error.h"
#include "core/support/stack.h"

namespace lathe::program {
namespace {

using namespace relay;
// Of two languages.
using relay::Expr, relay::Var, relay::VarNode;

// Attributes of functions.
constexpr const char *kStretch = "Stretch", *kProgram = "Program";

bool is_number(const Type& type) {
  const TensorType* tensor = type.as<TensorType>();
  return tensor && tensor->shape.empty();
}

bool is_primitive(const Expr& callee) {
  const Function* function = callee.as<Function>();
  return callee.as<PrimFunc>() || (function && function->attrs.primitive);
}

/// A call that a kernel can run.
bool is_kernel_call(const Expr& e) {
  const Call* call = e.as<Call>();
  return call && (call->callee.as<OpNode>() || is_primitive(call->callee)) && !is_sized_call(e);
}

/// Who uses each variable of a function: the variable that the user's value is bound to, or the user itself
/// where that is the value of a body.
class Users {
 public:
  explicit Users(const Ref<Function>& function) {
    std::unordered_map<const Node*, const Node*> bound_to;  // value -> its variable
    const GraphScopes scopes = graph_scopes(function);
    for (const std::vector<Expr>& members : scopes.members)
      for (const Expr& e : members)
        if (const Let* let = e.as<Let>()) bound_to[let->value.get()] = let->var.get();
    for (const std::vector<Expr>& members : scopes.members)
      for (const Expr& e : members) {
        auto found = bound_to.find(e.get());
        const Node* user = found == bound_to.end() ? e.get() : found->second;
        if (is_kernel_call(e)) kernel_calls_.insert(user);
        for_each_operand(e, [&](const Expr& operand, bool) {
          if (operand.as<VarNode>()) users_[operand.get()].push_back(user);
        });
      }
  }

  const std::vector<const Node*>& of(const Var& variable) const {
    static const std::vector<const Node*> kNone;
    auto found = users_.find(variable.get());
    return found == users_.end() ? kNone : found->second;
  }
  bool is_kernel_call_at(const Node* user) const { return kernel_calls_.count(user) > 0; }

 private:
  std::unordered_map<const Node*, std::vector<const Node*>> users_;
  std::unordered_set<const Node*> kernel_calls_;
};

/// The stretch that is open: kernel calls, and the tuples and projections between them.
struct Stretch {
  std::vector<Binding> members;
  std::unordered_set<const Node*> names;
  bool has(const Expr& e) const { return names.count(e.get()) > 0; }
};

class Outliner {
 public:
  Outliner(std::string name, const Ref<Function>& function, ModuleNode& module)
      : name_(std::move(name)), users_(function), module_(module) {}

  Ref<Function> run(const Ref<Function>& function) {
    auto copy = mutate(*function);
    copy->body = chain(function->body);
    return seal(std::move(copy));
  }

 private:
  /// A body: lets, and the value at their end.
  Expr chain(const Expr& body) {
    Expr result;
    with_enough_stack([&] { result = chain_of(body); });
    return result;
  }

  Expr chain_of(Expr e) {
    std::vector<Binding> bindings;
    e = flatten(e, bindings);
    // The value of a body may end a stretch, too: it gets a name as the others have.
    if (is_kernel_call(e) || e.as<Tuple>() || e.as<Projection>()) {
      bindings.push_back({with_checked_type(make_var("t"), e->checked_type).cast<VarNode>(), e});
      e = bindings.back().var;
      results_.insert(e.get());
    }
    std::vector<Binding> done;
    Stretch open;
    for (const Binding& each : bindings) add(each, open, done);
    close(open, done);
    return program::chain_of(done, is_leaf(e) ? e : rebuilt(e));
  }

  /// A tuple that only kernel calls take: no value of the program.
  bool is_inner_tuple(const Binding& each) const {
    if (!each.value.as<Tuple>() || !holds_tensors(type_of(each.value))) return false;
    const std::vector<const Node*>& users = users_.of(each.var);
    return !users.empty() && std::all_of(users.begin(), users.end(),
                                         [&](const Node* user) { return users_.is_kernel_call_at(user); });
  }

  void add(const Binding& each, Stretch& open, std::vector<Binding>& done) {
    bool reads_open = open.has(each.value);
    for_each_operand(each.value, [&](const Expr& operand, bool) { reads_open |= open.has(operand); });
    // Arithmetic of numbers is an instruction, and no kernel, unless its operands are in a kernel's memory.
    const bool member = is_kernel_call(each.value)
                            ? reads_open || !is_scalar_call(each.value)
                            : (each.value.as<Projection>() && reads_open) || is_inner_tuple(each);
    if (member) {
      open.members.push_back(each);
      open.names.insert({each.var.get(), each.value.get()});
      return;
    }
    // Bodies may read what is open: for_each_operand does not look into them.
    const bool has_bodies = each.value.as<If>() || each.value.as<Match>() || each.value.as<Function>();
    if (reads_open || has_bodies) close(open, done);
    done.push_back({each.var, rebuilt(each.value)});
  }

  /// With the bodies in it done.
  Expr rebuilt(const Expr& e) {
    if (const If* branch = e.as<If>()) {
      auto copy = mutate(*branch);
      copy->then_case = chain(branch->then_case);
      copy->else_case = chain(branch->else_case);
      return seal(std::move(copy));
    }
    if (const Match* match = e.as<Match>()) {
      auto copy = mutate(*match);
      for (Clause& clause : copy->clauses) clause.body = chain(clause.body);
      return seal(std::move(copy));
    }
    if (const Function* function = e.as<Function>(); function && !function->attrs.primitive)
      return run(e.cast<Function>());
    return e;
  }

  static bool is_all_static(const Stretch& stretch, const std::vector<Var>& params) {
    auto is_member_static = [](const Binding& each) { return is_static(type_of(each.value)); };
    return std::all_of(params.begin(), params.end(),
                       [](const Var& each) { return is_static(type_of(each)); }) &&
           std::all_of(stretch.members.begin(), stretch.members.end(), is_member_static);
  }

  bool is_used_outside(const Binding& member, const Stretch& stretch) const {
    const std::vector<const Node*>& users = users_.of(member.var);
    return results_.count(member.var.get()) || std::any_of(users.begin(), users.end(), [&](const Node* user) {
             return !stretch.names.count(user);
           });
  }

  /// Appends the tensors of `e`, tuples taken apart.
  static void append_tensors(const Expr& e, std::vector<Expr>& tensors) {
    const TupleType* tuple = type_of(e).as<TupleType>();
    if (!tuple) return tensors.push_back(e);
    for (size_t i = 0; i < tuple->items.size(); ++i)
      append_tensors(typed_projection(e, static_cast<int64_t>(i)), tensors);
  }

  /// The value of `type` whose tensors are items of `results` from `next` on. What is more than one is bound
  /// on the way.
  Expr rebuilt_value(const Type& type, const Var& results, size_t& next, std::vector<Binding>& done) {
    const TupleType* tuple = type.as<TupleType>();
    if (!tuple) return bound("t", typed_projection(results, static_cast<int64_t>(next++)), done);
    std::vector<Expr> items;
    for (const Type& item : tuple->items) items.push_back(rebuilt_value(item, results, next, done));
    return bound("t", typed_tuple(std::move(items)), done);
  }

  /// The members in the form of a graph, over parameters.
  class Body : public ExprMutator {
   public:
    explicit Body(Function& function) : function_(function) {}
    Expr value(const Expr& e) { return visit(e); }
    void define(const Var& variable, const Expr& value) { set(variable, value); }
    std::vector<Expr> args;

   private:
    Expr visit_var(const Var& e) override {
      auto param = mutate(*make_var(fmt::format("p{}", args.size()), type_of(e)));
      param->checked_type = param->annotation;
      function_.params.push_back(seal(std::move(param)));
      args.push_back(e);
      return function_.params.back();
    }
    Expr visit_function(const Ref<Function>& e) override { return e; }
    Function& function_;
  };

  void close(Stretch& open, std::vector<Binding>& done) {
    if (open.members.empty()) return;
    auto function = std::make_unique<Function>();
    Body body(*function);
    std::vector<Expr> results;
    std::vector<Binding> used;
    for (const Binding& each : open.members) {
      const Expr value = body.value(each.value);
      body.define(each.var, value);
      if (!is_used_outside(each, open)) continue;
      append_tensors(value, results);
      used.push_back(each);
    }
    if (!results.empty()) {
      function->body = typed_tuple(results);
      function->result_type = function->body->checked_type;
      function->attrs.integers[kStretch] = 1;
      function->span = open.members.front().value->span;
      std::vector<Type> types;
      for (const Var& param : function->params) types.push_back(param->checked_type);
      function->checked_type = func_type(types, function->result_type);
      const Ref<Function> stretch = seal(std::move(function));
      StretchCases cases;
      if (is_all_static(open, stretch->params))
        cases.function = stretch;
      else
        cases = with_dims_of_params(stretch);
      call(cases, body.args, used, done);
    }
    open = {};
  }

  void call(const StretchCases& cases, const std::vector<Expr>& args, const std::vector<Binding>& used,
            std::vector<Binding>& done) {
    const Var results = results_of(cases, args, done);
    size_t next = 0;
    for (const Binding& each : used) {
      rebuilt_value(type_of(each.value), results, next, done);
      // The name that the others know it by.
      done.back().var = each.var;
    }
  }

  /// The tuple of results of the case that holds.
  Var results_of(const StretchCases& cases, const std::vector<Expr>& args, std::vector<Binding>& done) {
    if (!cases.function) return choice(cases, args, done);
    const std::string name = fmt::format("{}.stretch{}", name_, stretches_++);
    module_.functions[name] = cases.function;
    const Expr callee = with_checked_type(make<GlobalVarNode>(name), cases.function->checked_type);
    return bound("s", with_checked_type(make<Call>(callee, args), cases.function->result_type), done);
  }

  /// A run in which this does not hold ends with what is wrong then.
  static void require(const Expr& extent, const Expr& holds, const std::exception_ptr& wrong,
                      std::vector<Binding>& done) {
    try {
      std::rethrow_exception(wrong);
    } catch (const PlacedError& error) {
      auto attrs = std::make_unique<RequireAttrs>();
      attrs->message = error.message();
      auto call = mutate(*typed_call("require", {extent, holds}, seal(std::move(attrs))).as<Call>());
      call->span = error.span();
      bound("_", seal(std::move(call)), done);
    }
  }

  /// if (extent == size) one stretch, else the other; both give the tensors of the results. Where one has
  /// types that cannot hold, a run that gets there is refused.
  Var choice(const StretchCases& cases, const std::vector<Expr>& args, std::vector<Binding>& done) {
    Expr tensor = args.at(cases.param);
    for (int64_t item : cases.items) tensor = bound("t", typed_projection(tensor, item), done);
    const Expr extent = bound("n", extent_of(tensor, cases.axis), done);
    const Expr size = typed_constant(full({}, kInt64, static_cast<double>(cases.size)));
    const Expr is_size = bound("is_size", typed_call("equal", {extent, size}), done);
    if (cases.is_size->wrong) {
      const Expr is_not = bound("is_not", typed_call("logical_not", {is_size}), done);
      require(extent, is_not, cases.is_size->wrong, done);
      return results_of(*cases.is_not, args, done);
    }
    if (cases.is_not->wrong) {
      require(extent, is_size, cases.is_not->wrong, done);
      return results_of(*cases.is_size, args, done);
    }
    auto body = [&](const StretchCases& inner) {
      std::vector<Binding> bindings;
      const Var results = results_of(inner, args, bindings);
      std::vector<Expr> items;
      for (size_t i = 0; i < type_of(results).as<TupleType>()->items.size(); ++i)
        items.push_back(bound("t", typed_projection(results, static_cast<int64_t>(i)), bindings));
      return program::chain_of(bindings, typed_tuple(items));
    };
    const Expr then_case = body(*cases.is_size), else_case = body(*cases.is_not);
    return bound("s", with_checked_type(make<If>(is_size, then_case, else_case), type_of(else_case)), done);
  }

  std::string name_;
  Users users_;
  ModuleNode& module_;
  std::unordered_set<const Node*> results_;  // variables made for the value of a body
  int stretches_ = 0;
};

/// Global functions that main needs, itself included.
std::set<std::string> reachable(const Module& module) {
  std::set<std::string> names{"main"};
  std::vector<std::string> pending{"main"};
  while (!pending.empty()) {
    auto found = module->functions.find(pending.back());
    pending.pop_back();
    if (found == module->functions.end()) fail("the module has no function @main");
    post_order(found->second, [&](const NodeRef& node) {
      if (const GlobalVarNode* global = node.as<GlobalVarNode>())
        if (names.insert(global->name).second) pending.push_back(global->name);
    });
  }
  return names;
}

}  // namespace

bool is_program(const Module& module) {
  auto main = module->functions.find("main");
  if (main == module->functions.end()) return false;
  bool found = false;
  post_order(main->second->body, [&](const NodeRef& node) {
    const Function* function = node.as<Function>();
    const GlobalVarNode* global = node.as<GlobalVarNode>();
    if (global) {
      auto called = module->functions.find(global->name);
      found |= called == module->functions.end() || !called->second->attrs.primitive;
    }
    found |= node.as<If>() || node.as<Match>() || node.as<RefCreate>() || node.as<ConstructorNode>() ||
             node.as<MatchCast>() || node.as<ExternFunc>() || (function && !function->attrs.primitive);
  });
  return found || has_computed_sizes(main->second);
}

bool calls_library(const Module& module) {
  bool found = false;
  for (const auto& [name, function] : module->functions)
    post_order(function, [&](const NodeRef& node) { found |= node.as<ExternFunc>() != nullptr; });
  return found;
}

bool is_stretch(const Function& function) { return function.attrs.integers.count(kStretch) > 0; }

bool is_outlined(const Module& module) {
  auto main = module->functions.find("main");
  return main != module->functions.end() && main->second->attrs.integers.count(kProgram) > 0;
}

std::vector<std::string> stretches_of(const Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, function] : module->functions)
    if (is_stretch(*function)) names.push_back(name);
  return names;
}

bool is_scalar_call(const Expr& e) {
  const Call* call = e.as<Call>();
  const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
  if (!op || !is_number(type_of(e)) || is_sized_call(e)) return false;
  for (const Expr& arg : call->args)
    if (!is_number(type_of(arg))) return false;
  // Of a choice the type is that of what is chosen from.
  if (call->args.empty()) return false;
  const DataType dtype = type_of(call->args.back()).as<TensorType>()->dtype;
  return runtime::find_scalar_op(op->name, dtype).has_value();
}

Module outline_stretches(const Module& module) {
  auto result = mutate(*module);
  result->functions.clear();
  const bool unknown_dims = has_unknown_dims(module);
  for (const std::string& name : reachable(module)) {
    const Ref<Function>& function = module->functions.at(name);
    if (function->attrs.primitive) {
      result->functions[name] = function;
      continue;
    }
    const Ref<Function> normal = with_extents(shorten(to_a_normal_form(function)), unknown_dims);
    result->functions[name] = Outliner(name, normal, *result).run(normal);
  }
  auto main = mutate(*result->functions.at("main"));
  main->attrs.integers[kProgram] = 1;
  result->functions["main"] = seal(std::move(main));
  return seal(std::move(result));
}

}  // namespace lathe::program
