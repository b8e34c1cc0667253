// Control flow: branches are chosen and loops unrolled while the model is imported, where that is known by
// then; else they become branches and functions of the program.
#include <unordered_set>

#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using relay::Ints;

relay::Var variable(const char* name, const relay::Type& type) {
  return relay::with_checked_type(relay::make_var(name, type), type).cast<relay::VarNode>();
}

Value with_type(const Value& value, const relay::Type& type) { return relay::with_checked_type(value, type); }

/// The fields of a tuple-typed value.
Values fields_of(const Value& tuple, size_t count) {
  Values fields;
  for (size_t i = 0; i < count; ++i)
    fields.push_back(relay::typed_projection(tuple, static_cast<int64_t>(i)));
  return fields;
}

/// When the condition is not known, a branch of the program: what only one side needs is computed there.
/// Where there is nothing to compute, elements are chosen, and the model stays a graph.
Values if_op(const Node& node) {
  if (known(node.in(0))) return node.run(node.int_in(0) ? "then_branch" : "else_branch", {});
  Values yes = node.run("then_branch", {}), no = node.run("else_branch", {}), results;
  yes.resize(std::min(yes.size(), no.size()));
  no.resize(yes.size());
  bool computes = false;
  for (size_t i = 0; i < yes.size(); ++i) {
    if (!structural_equal(yes[i]->checked_type, no[i]->checked_type))
      node.reject(
          "the condition must be known when the model is compiled, since its branches give tensors of "
          "different types");
    computes |= !relay::is_leaf(yes[i]) || !relay::is_leaf(no[i]);
  }
  const Value condition = reshape(node.in(0), {});
  if (computes) {
    const Value then_case = relay::typed_tuple(yes), else_case = relay::typed_tuple(no);
    return fields_of(with_type(make<relay::If>(condition, then_case, else_case), then_case->checked_type),
                     yes.size());
  }
  for (size_t i = 0; i < yes.size(); ++i) results.push_back(choose(condition, yes[i], no[i]));
  return results;
}

/// A step's value as one element of the tensor that gathers them along `axis`.
Value element(const Value& value, int64_t axis) {
  Ints shape = shape_of(value);
  shape.insert(shape.begin() + axis, 1);
  return reshape(value, shape);
}

/// What is the same in all steps of a loop, taken out of its body.
class Invariants : public relay::ExprMutator {
 public:
  /// `bound`: what differs from step to step.
  explicit Invariants(std::unordered_set<const lathe::Node*> bound) : differs_(std::move(bound)) {}

  struct Binding {
    relay::Var var;
    Value value;
  };
  /// The body without its invariants, which stand in `out` for a let each.
  Value take_out(const Value& body, std::vector<Binding>& out) {
    // What is bound inside the body differs, too, for what would be taken out of its scope.
    post_order(body, [&](const NodeRef& node) {
      if (const auto* let = node.as<relay::Let>()) differs_.insert(let->var.get());
      if (const auto* function = node.as<relay::Function>())
        for (const relay::Var& param : function->params) differs_.insert(param.get());
    });
    post_order(body, [&](const NodeRef& node) {
      node->for_each_child([&](const NodeRef& child) {
        if (differs_.count(child.get())) differs_.insert(node.get());
      });
    });
    post_order(body, [&](const NodeRef& node) {
      if (!differs_.count(node.get()) || !dynamic_cast<const relay::RelayNode*>(node.get())) return;
      relay::for_each_operand(node.cast<relay::RelayNode>(), [&](const Value& operand, bool) {
        if (differs_.count(operand.get()) || relay::is_leaf(operand) || !taken_.insert(operand.get()).second)
          return;
        out.push_back({variable("invariant", operand->checked_type), operand});
        set(operand, out.back().var);
      });
    });
    return visit(body);
  }

 private:
  std::unordered_set<const lathe::Node*> differs_, taken_;
};

/// Of a count or a condition that only a run knows: a function that calls itself in tail position,
///   fn (i, go_on, carried...) { if (go_on and i < count) { body, and again } else { (carried...) } }
Values loop_at_run_time(const Node& node, const Value& condition, const Values& carried) {
  if (node.outputs() > carried.size())
    node.reject(
        "a loop that gathers values must be known when the model is compiled: the count and the condition");
  const Value step = variable("i", relay::tensor_type(std::vector<int64_t>{}, kInt64));
  Values inputs{step, variable("go_on", condition->checked_type)};
  for (const Value& value : carried) inputs.push_back(variable("carried", value->checked_type));
  Values outputs = node.run("body", inputs);
  if (outputs.size() != 1 + node.outputs()) node.reject("its body has {} outputs", outputs.size());
  Value more = reshape(inputs[1], {});
  if (node.has(0)) more = emit("logical_and", {more, emit("less", {step, reshape(node.in(0), {})})});
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!structural_equal(outputs[i]->checked_type, inputs[i + 1]->checked_type))
      node.reject(
          "its count and condition must be known when the model is compiled, since what it carries changes "
          "its type");

  const Value result = relay::typed_tuple({inputs.begin() + 2, inputs.end()});
  std::vector<relay::Type> types;
  for (const Value& input : inputs) types.push_back(input->checked_type);
  const relay::Type type = relay::func_type(types, result->checked_type);
  const relay::Var self = variable("loop", type);
  Values next{emit("add", {step, scalar(kInt64, 1)})};
  next.insert(next.end(), outputs.begin(), outputs.end());
  const Value again = with_type(make<relay::Call>(Value(self), next), result->checked_type);
  Value body = with_type(make<relay::If>(more, again, result), result->checked_type);
  std::unordered_set<const lathe::Node*> bound{self.get()};
  std::vector<relay::Var> params;
  for (const Value& input : inputs) {
    bound.insert(input.get());
    params.push_back(input.cast<relay::VarNode>());
  }
  std::vector<Invariants::Binding> invariants;
  body = Invariants(std::move(bound)).take_out(body, invariants);
  const Value function = with_type(
      make<relay::Function>(std::vector<relay::TypeVar>{}, params, result->checked_type, body), type);

  Values first{scalar(kInt64, 0), condition};
  first.insert(first.end(), carried.begin(), carried.end());
  Value all = with_type(make<relay::Call>(Value(self), first), result->checked_type);
  all = with_type(make<relay::Let>(self, function, all), all->checked_type);
  for (; !invariants.empty(); invariants.pop_back())
    all = with_type(make<relay::Let>(invariants.back().var, invariants.back().value, all), all->checked_type);
  return fields_of(all, carried.size());
}

/// Whether the count is known, or there is none.
bool count_is_known(const Node& node) { return !node.has(0) || known(node.in(0)); }

/// Inputs: the most steps, the first condition, what is carried. The body takes the step's number, the
/// condition and what is carried, and gives the next condition, what is carried, and elements to gather.
Values loop(const Node& node) {
  Value condition = node.has(1) ? node.in(1) : constant(full({}, kBool, 1));
  Values carried;
  for (size_t i = 2; i < node.inputs(); ++i) carried.push_back(node.in(i));
  if (node.outputs() < carried.size())
    node.reject("{} outputs for {} carried values", node.outputs(), carried.size());
  if (!count_is_known(node) || !known(condition)) return loop_at_run_time(node, condition, carried);
  // Without a count, or with the largest number as PyTorch writes it, the condition ends the loop, or
  // kMostSteps does with a message.
  int64_t steps = Node::kMostSteps + 1;
  if (node.has(0)) {
    Ints count = node.positions_in(0);
    if (count.size() != 1) node.reject("a count of {} numbers, must be one", count.size());
    steps = count[0];
  }
  const Values before = carried;
  const Value first_condition = condition;
  std::vector<Values> gathered(node.outputs() - carried.size());
  for (int64_t step = 0; step < steps; ++step) {
    // Constants fold while they are imported, so a condition of counters and shapes is known at each step.
    const Tensor* go_on = known(condition);
    if (!go_on) return loop_at_run_time(node, first_condition, before);
    if (go_on->size() != 1 || go_on->value(0) == 0) break;
    if (step >= Node::kMostSteps) node.reject("more than {} steps are not supported", Node::kMostSteps);
    Values inputs{constant(full({}, kInt64, static_cast<double>(step))), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values outputs = node.run("body", inputs);
    if (outputs.size() != 1 + node.outputs()) node.reject("its body has {} outputs", outputs.size());
    condition = outputs[0];
    std::copy_n(outputs.begin() + 1, carried.size(), carried.begin());
    for (size_t i = 0; i < gathered.size(); ++i)
      gathered[i].push_back(element(outputs[1 + carried.size() + i], 0));
  }
  for (const Values& parts : gathered) {
    if (parts.empty()) node.reject("a loop of no steps that gathers values is not supported");
    carried.push_back(concatenated(parts, 0));
  }
  return carried;
}

/// Numbers of an attribute, one for each of `count`; 0 where it is not there.
Ints each(const Node& node, const char* name, size_t count) {
  Ints values = node.ints(name, Ints(count, 0));
  if (values.size() != count) node.reject("{} has {} numbers, must have {}", name, values.size(), count);
  return values;
}

/// Inputs: what is carried, then tensors whose elements along an axis are given to the steps in turn.
Values scan(const Node& node) {
  if (node.opset() < 9) node.reject("its form before opset 9 is not supported");
  auto count = static_cast<size_t>(node.integer("num_scan_inputs", 0));
  if (count < 1 || count > node.inputs()) node.reject("{} of {} inputs are scanned", count, node.inputs());
  size_t states = node.inputs() - count;
  if (node.outputs() < states) node.reject("{} outputs for {} carried values", node.outputs(), states);
  std::vector<Values> gathered(node.outputs() - states);
  Ints axes = each(node, "scan_input_axes", count), backward = each(node, "scan_input_directions", count);
  Ints output_axes = each(node, "scan_output_axes", gathered.size()),
       output_backward = each(node, "scan_output_directions", gathered.size());
  Values carried(node.all().begin(), node.all().begin() + static_cast<std::ptrdiff_t>(states));
  for (size_t i = 0; i < count; ++i) axes[i] = node.axis(axes[i], node.rank(states + i));
  int64_t steps = node.dim(states, axes[0]);
  if (steps < 1 || steps > Node::kMostSteps) node.reject("{} steps are not supported", steps);
  for (int64_t step = 0; step < steps; ++step) {
    Values inputs = carried;
    for (size_t i = 0; i < count; ++i) {
      if (node.dim(states + i, axes[i]) != steps) node.reject("scanned inputs differ in length");
      // Direction 1 runs from the end.
      int64_t at = backward[i] ? steps - 1 - step : step;
      Ints shape = node.shape(states + i);
      shape.erase(shape.begin() + axes[i]);
      inputs.push_back(reshape(sliced(node.in(states + i), axes[i], at, at + 1), shape));
    }
    Values outputs = node.run("body", inputs);
    if (outputs.size() != node.outputs()) node.reject("its body has {} outputs", outputs.size());
    std::copy_n(outputs.begin(), states, carried.begin());
    for (size_t i = 0; i < gathered.size(); ++i) {
      const Value& value = outputs[states + i];
      // Gathered at a new axis, counted among those of the result: one more than the value has.
      Value part =
          element(value, node.axis(output_axes[i], static_cast<int64_t>(shape_of(value).size()) + 1));
      gathered[i].insert(output_backward[i] ? gathered[i].begin() : gathered[i].end(), part);
    }
  }
  for (size_t i = 0; i < gathered.size(); ++i) {
    auto rank = static_cast<int64_t>(shape_of(gathered[i][0]).size());
    carried.push_back(concatenated(gathered[i], node.axis(output_axes[i], rank)));
  }
  return carried;
}

constexpr Converter kConverters[] = {{"If", if_op}, {"Loop", loop}, {"Scan", scan}};
}  // namespace

std::span<const Converter> control_converters() { return kConverters; }

}  // namespace lathe::onnx
