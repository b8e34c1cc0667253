// Control flow: branches are chosen and loops unrolled while the model is imported.
#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using relay::Ints;

/// Both branches, and a choice between their values, when the condition is not known.
Values if_op(const Node& node) {
  if (known(node.in(0))) return node.run(node.int_in(0) ? "then_branch" : "else_branch", {});
  Values yes = node.run("then_branch", {}), no = node.run("else_branch", {}), results;
  for (size_t i = 0; i < std::min(yes.size(), no.size()); ++i) {
    // Both are computed, and elements chosen: that needs one shape.
    if (!structural_equal(yes[i]->checked_type, no[i]->checked_type))
      node.reject(
          "the condition must be known when the model is compiled, since its branches give tensors of "
          "different types");
    results.push_back(choose(reshape(node.in(0), {}), yes[i], no[i]));
  }
  return results;
}

/// A step's value as one element of the tensor that gathers them along `axis`.
Value element(const Value& value, int64_t axis) {
  Ints shape = shape_of(value);
  shape.insert(shape.begin() + axis, 1);
  return reshape(value, shape);
}

/// Inputs: the most steps, the first condition, what is carried. The body takes the step's number, the
/// condition and what is carried, and gives the next condition, what is carried, and elements to gather.
Values loop(const Node& node) {
  // Without a count, or with the largest number as PyTorch writes it, the condition ends the loop, or
  // kMostSteps does with a message.
  int64_t steps = Node::kMostSteps + 1;
  if (node.has(0)) {
    Ints count = node.positions_in(0);
    if (count.size() != 1) node.reject("a count of {} numbers, must be one", count.size());
    steps = count[0];
  }
  Value condition = node.has(1) ? node.in(1) : constant(full({}, kBool, 1));
  Values carried;
  for (size_t i = 2; i < node.inputs(); ++i) carried.push_back(node.in(i));
  if (node.outputs() < carried.size())
    node.reject("{} outputs for {} carried values", node.outputs(), carried.size());
  std::vector<Values> gathered(node.outputs() - carried.size());
  for (int64_t step = 0; step < steps; ++step) {
    // Constants fold while they are imported, so a condition of counters and shapes is known at each step.
    const Tensor* go_on = known(condition);
    if (!go_on) node.reject("its condition must be known when the model is compiled");
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
