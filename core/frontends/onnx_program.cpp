#include "core/frontends/onnx_program.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

relay::Var variable(const char* name, const relay::Type& type) {
  return relay::with_checked_type(relay::make_var(name, type), type).cast<relay::VarNode>();
}

Value with_type(const Value& value, const relay::Type& type) { return relay::with_checked_type(value, type); }

/// The fields of a tuple-typed value.
Values fields_of(const Value& tuple, size_t count) {
  Values fields;
  for (size_t i = 0; i < count; ++i)
    fields.push_back(with_named_sizes(relay::typed_projection(tuple, static_cast<int64_t>(i))));
  return fields;
}

/// Whether a run may refuse to compute this, its operands aside: elements of what may have none, an item of
/// an empty list, shapes that do not go together, what is there to fail.
bool may_fail_by_itself(const NodeRef& node) {
  if (node.as<relay::MatchCast>()) return true;
  if (const auto* match = node.as<relay::Match>()) return !match->complete;
  const auto* call = node.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  if (!op) return false;
  const relay::Refusal refusal = op->row().refusal;
  if (op->name == "reshape" &&
      !prove_equal(elements_of(dims_of(call->args[0])), elements_of(dims_of(node.cast<relay::RelayNode>()))))
    return true;
  return refusal == relay::Refusal::kByArguments ||
         (refusal == relay::Refusal::kOfNothing && has_open_dims(call->args[0]));
}

/// What is computed whenever these values are: all of them but the sides of branches, clauses and bodies of
/// functions.
std::unordered_set<const lathe::Node*> computed_with(Values waiting) {
  std::unordered_set<const lathe::Node*> computed;
  while (!waiting.empty()) {
    const Value next = waiting.back();
    waiting.pop_back();
    if (!computed.insert(next.get()).second) continue;
    const bool goes_on = next.as<relay::Let>() != nullptr;
    relay::for_each_operand(next, [&](const Value& operand, bool in_scope) {
      if (in_scope || goes_on) waiting.push_back(operand);
    });
  }
  return computed;
}

}  // namespace

bool may_fail(const Value& value, const Value& known) {
  const auto anyway = computed_with({known});
  return std::ranges::any_of(computed_with({value}), [&](const lathe::Node* node) {
    return !anyway.count(node) && may_fail_by_itself(NodeRef(node));
  });
}

namespace {

/// What is the same in all steps of a loop, taken out of its body.
class Invariants : public relay::ExprMutator {
 public:
  /// `bound`: what differs from step to step.
  explicit Invariants(std::set<const lathe::Node*> bound) : binders_(std::move(bound)) {}

  struct Binding {
    relay::Var var;
    Value value;
    bool may_fail;
  };
  /// The body without its invariants, which stand in `out` for a let each. `step`: the part of the body that
  /// each step computes. What a step may leave out, and a run refuse to compute, stays where it is.
  Value take_out(const Value& body, const Value& step, std::vector<Binding>& out) {
    post_order(body, [&](const NodeRef& node) { note_bound(node); });
    const std::unordered_set<const lathe::Node*> in_each_step = computed_with({body, step});
    post_order(body, [&](const NodeRef& node) {
      note_free(node);
      note_failing(node, in_each_step.count(node.get()) != 0);
    });
    std::unordered_set<const lathe::Node*> taken;
    post_order(body, [&](const NodeRef& node) {
      if (!stays(node) || !dynamic_cast<const relay::RelayNode*>(node.get())) return;
      if (stays_whole(node)) return set(node.cast<relay::RelayNode>(), node.cast<relay::RelayNode>());
      relay::for_each_operand(node.cast<relay::RelayNode>(), [&](const Value& operand, bool) {
        if (stays(operand) || relay::is_leaf(operand) || !taken.insert(operand.get()).second) return;
        out.push_back(
            {variable("invariant", operand->checked_type), operand, failing_.count(operand.get()) != 0});
        set(operand, out.back().var);
      });
    });
    return visit(body);
  }

 private:
  /// Variables that the expression binds around parts of it.
  template <typename F>
  static void for_each_bound(const NodeRef& node, F&& f) {
    if (const auto* let = node.as<relay::Let>()) f(let->var.get());
    if (const auto* pattern = node.as<relay::VarPattern>()) f(pattern->var.get());
    if (const auto* function = node.as<relay::Function>())
      for (const relay::Var& param : function->params) f(param.get());
  }

  void note_bound(const NodeRef& node) {
    bool binds = false;
    for_each_bound(node, [&](const lathe::Node* variable) { binds = true, binders_.insert(variable); });
    node->for_each_child([&](const NodeRef& child) { binds |= binding_.count(child.get()) != 0; });
    if (binds) binding_.insert(node.get());
  }

  /// Which of the variables bound in or around the body occur free.
  void note_free(const NodeRef& node) {
    std::set<const lathe::Node*> free;
    if (binders_.count(node.get())) free.insert(node.get());
    node->for_each_child([&](const NodeRef& child) {
      if (auto found = free_.find(child.get()); found != free_.end())
        free.insert(found->second.begin(), found->second.end());
    });
    for_each_bound(node, [&](const lathe::Node* variable) { free.erase(variable); });
    if (const auto* match = node.as<relay::Match>())
      for (const relay::Clause& clause : match->clauses)
        post_order(clause.pattern, [&](const NodeRef& part) {
          for_each_bound(part, [&](const lathe::Node* variable) { free.erase(variable); });
        });
    if (!free.empty()) free_[node.get()] = std::move(free);
  }

  /// Whether something in it may fail, and which of that some steps leave out.
  void note_failing(const NodeRef& node, bool in_each_step) {
    bool fails = may_fail_by_itself(node);
    node->for_each_child([&](const NodeRef& child) { fails |= failing_.count(child.get()) != 0; });
    if (!fails) return;
    failing_.insert(node.get());
    if (!in_each_step) left_out_.insert(node.get());
  }

  bool stays(const NodeRef& node) const {
    return free_.count(node.get()) != 0 || left_out_.count(node.get()) != 0;
  }

  /// What is the same in all steps, and around the loop, and binds variables: a second one in its place,
  /// without its invariants, would bind them twice.
  bool stays_whole(const NodeRef& node) const {
    return !free_.count(node.get()) && left_out_.count(node.get()) && binding_.count(node.get());
  }

  std::set<const lathe::Node*> binders_;
  std::unordered_set<const lathe::Node*> binding_;  // what has a binder in it
  std::unordered_set<const lathe::Node*> failing_, left_out_;
  std::unordered_map<const lathe::Node*, std::set<const lathe::Node*>> free_;  // of those that have some
};

/// A loop's function: the types of its state, and its body in terms of its parameters.
struct Step {
  std::vector<relay::Var> params;
  Value more;
  Values next;
};

/// Makes the body anew, for types of wider and wider state, until what it gives is of these types.
Step stable_step(const Values& first, FunctionRef<Value(const Values&)> more,
                 FunctionRef<Values(const Values&)> next) {
  std::vector<relay::Type> types;
  for (const Value& value : first) types.push_back(value->checked_type);
  for (;;) {
    Step step;
    Values state;
    for (const relay::Type& type : types) {
      step.params.push_back(variable("carried", type));
      state.push_back(with_named_sizes(step.params.back()));
    }
    step.more = more(state);
    step.next = next(state);
    CHECK(step.next.size() == types.size(), "a loop of {} values gives {}", types.size(), step.next.size());
    bool stable = true;
    for (size_t i = 0; i < types.size(); ++i) {
      const relay::Type common = common_type(types[i], step.next[i]->checked_type);
      if (!common)
        fail("a loop carries a value of type {} that its body makes one of type {}", relay::print(types[i]),
             relay::print(step.next[i]->checked_type));
      stable &= structural_equal(common, types[i]);
      types[i] = common;
    }
    if (stable) return step;
  }
}

}  // namespace

relay::Type common_type(const relay::Type& a, const relay::Type& b) {
  if (structural_equal(a, b)) return a;
  const auto *list = a.as<relay::TypeCall>(), *other = b.as<relay::TypeCall>();
  if (list && other && list->callee->name == other->callee->name) {
    const relay::Type item = common_type(list->args[0], other->args[0]);
    return item ? make<relay::TypeCall>(list->callee, std::vector<relay::Type>{item}) : nullptr;
  }
  const auto *x = a.as<relay::TensorType>(), *y = b.as<relay::TensorType>();
  if (!x || !y || x->dtype != y->dtype || x->shape.size() != y->shape.size()) return nullptr;
  std::vector<Expr> shape = x->shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!prove_equal(shape[d], y->shape[d])) shape[d] = any_dim();
  return relay::tensor_type(shape, x->dtype);
}

relay::Type with_told_sizes(const relay::Type& type) {
  if (!type.as<relay::TensorType>())
    fail("a value of type {} where a tensor must be", type ? relay::print(type) : "several");
  const auto& tensor = *type.as<relay::TensorType>();
  std::vector<Expr> shape = tensor.shape;
  for (Expr& dim : shape)
    if (!OpenDimensions::current()->tells(dim)) dim = any_dim();
  return relay::tensor_type(shape, tensor.dtype);
}

Value with_named_sizes(const Value& value) {
  const auto* type = value->checked_type.as<relay::TensorType>();
  if (!type) return value;
  const auto* call = value.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  const bool by_numbers = op && op->name == "zeros_of";
  std::vector<Expr> shape = type->shape;
  bool named = false;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d].as<Any>()) {
      OpenDimensions& dims = *OpenDimensions::current();
      shape[d] = by_numbers ? dims.size_of(call->args[d]) : dims.fresh();
      named = true;
    }
  if (!named) return value;
  const relay::Type to = relay::tensor_type(shape, type->dtype);
  const Value result = with_type(make<relay::MatchCast>(value, to), to);
  OpenDimensions::current()->learn_from(result);
  return result;
}

Value zeros_of(const Value& count) { return emit("zeros_of", {count}); }

Value first_rows(const Value& value, const Value& count) { return emit("first_rows", {value, count}); }

Values branch(const Value& condition, const Values& yes, const Values& no) {
  CHECK(yes.size() == no.size(), "{} results and {}", yes.size(), no.size());
  std::vector<relay::Type> types;
  for (size_t i = 0; i < yes.size(); ++i) {
    types.push_back(common_type(yes[i]->checked_type, no[i]->checked_type));
    if (!types.back())
      fail(
          "the condition must be known when the model is compiled, since its branches give tensors of "
          "different types: {} and {}",
          relay::print(yes[i]->checked_type), relay::print(no[i]->checked_type));
  }
  // Each side says that its sizes are any, so that both are of one type.
  auto side = [&](const Values& values) {
    Values items;
    for (size_t i = 0; i < values.size(); ++i)
      items.push_back(structural_equal(values[i]->checked_type, types[i])
                          ? values[i]
                          : with_type(make<relay::MatchCast>(values[i], types[i]), types[i]));
    return relay::typed_tuple(items);
  };
  const Value one = with_type(make<relay::If>(condition, side(yes), side(no)), relay::tuple_type(types));
  return fields_of(one, yes.size());
}

Values loop_while(const Values& first, FunctionRef<Value(const Values&)> more,
                  FunctionRef<Values(const Values&)> next) {
  OpenDimensions::Scope scope;
  const Step step = stable_step(first, more, next);
  std::vector<relay::Type> types;
  std::set<const lathe::Node*> bound;
  for (const relay::Var& param : step.params) {
    types.push_back(param->checked_type);
    bound.insert(param.get());
  }
  const Value result = relay::typed_tuple({step.params.begin(), step.params.end()});
  const relay::Type type = relay::func_type(types, result->checked_type);
  const relay::Var self = variable("loop", type);
  bound.insert(self.get());
  const Value again = with_type(make<relay::Call>(Value(self), step.next), result->checked_type);
  std::vector<Invariants::Binding> invariants;
  const Value body = Invariants(std::move(bound))
                         .take_out(with_type(make<relay::If>(step.more, again, result), result->checked_type),
                                   again, invariants);
  const Value function = with_type(
      make<relay::Function>(std::vector<relay::TypeVar>{}, step.params, result->checked_type, body), type);

  Value all = with_type(make<relay::Call>(Value(self), first), result->checked_type);
  all = with_type(make<relay::Let>(self, function, all), all->checked_type);
  const bool fails = std::ranges::any_of(invariants, &Invariants::Binding::may_fail);
  for (; !invariants.empty(); invariants.pop_back())
    all = with_type(make<relay::Let>(invariants.back().var, invariants.back().value, all), all->checked_type);
  scope.leave();
  if (!fails) return fields_of(all, first.size());
  // What a loop without steps does not ask for does not end its run.
  Values last;
  for (size_t i = 0; i < first.size(); ++i)
    last.push_back(relay::typed_projection(all, static_cast<int64_t>(i)));
  return branch(more(first), last, first);
}

Value with_row(const Value& all, const Value& at, const Value& row) {
  return emit("scatter_nd", {all, reshape(at, {1}), row}, make<relay::ScatterNdAttrs>(std::string("update")));
}

Value row_of(const Value& all, const Value& at) {
  const Value row = emit("take", {all, reshape(at, {1})},
                         make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("fast")));
  const std::vector<Expr> shape = dims_of(all);
  return reshape_to(row, {shape.begin() + 1, shape.end()});
}

}  // namespace lathe::onnx
