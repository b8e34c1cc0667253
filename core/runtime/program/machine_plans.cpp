// How the machine calls plans: tensors in, by address, and out, as values that share memory where they can.
#include <algorithm>
#include <cstring>

#include "core/runtime/most_bytes.h"
#include "core/runtime/program/machine.h"
#include "core/support/error.h"

namespace lathe::runtime {

/// Finds the memory of an input. False when it is not of the type that the plan was made for.
bool Machine::plan_input(const Datum& datum, uint32_t type, size_t number) {
  if (datum.kind == Kind::kTensor && datum.tag == type) {
    plan_inputs_[number] = reinterpret_cast<TensorObject*>(datum.object)->data;
    return true;
  }
  const TensorType& wanted = types_[type];
  // Of another shape than types say it is by way of `?`.
  if (datum.kind == Kind::kTensor && types_[datum.tag].dtype == wanted.dtype && !wanted.shape.empty())
    fail("a tensor of shape {} where {} is expected", shape_text(types_[datum.tag].shape),
         shape_text(wanted.shape));
  if (!wanted.shape.empty() || !datum.is_number(wanted.dtype)) return false;
  store_number(wanted.dtype, datum.number, slots_[number].bytes);
  plan_inputs_[number] = slots_[number].bytes;
  return true;
}

/// Result `number` of a plan that has run. The results before it are in args_.
Datum Machine::plan_result(const LinkedPlan& plan, std::span<const Datum> inputs, size_t number) {
  using enum PlanCall::Source;
  const PlanCall::Result& result = plan.call.results()[number];
  const uint32_t type = plan.outputs[number];
  const bool is_number = types_[type].shape.empty();
  if (result.source == kOwn && !is_number) return args_[number];
  void* data = result.source == kOwn       ? plan_results_[number]
               : result.source == kEarlier ? plan_results_[result.number]
               : result.source == kInput   ? plan_inputs_[result.number]
                                           : result.address;
  if (is_number || result.source == kConstant) return number_or_view(type, data, nullptr);
  // A view of a value that has the memory already.
  const Datum* holder = result.source == kEarlier ? &args_[result.number]
                        : result.source == kInput ? &inputs[result.number]
                                                  : nullptr;
  if (holder && holder->kind == Kind::kTensor) {
    auto* object = reinterpret_cast<TensorObject*>(holder->object);
    return number_or_view(type, data, memory_of(object));
  }
  // A copy: of the arena, or of a number that becomes a tensor of one element.
  TensorObject* object = heap_.make_tensor(types_[type].bytes);
  if (types_[type].bytes > 0) std::memcpy(object->data, data, static_cast<size_t>(types_[type].bytes));
  return Datum::of(Kind::kTensor, type, &object->head);
}

/// Gives a plan with open dimensions the numbers that its inputs say. False when they are of other types.
bool Machine::follow_inputs(LinkedPlan& plan, std::span<const Datum> inputs) {
  auto known = [&](size_t k) {
    return inputs[k].kind == Kind::kTensor
               ? inputs[k].tag == plan.inputs[k]
               : plan.inputs[k] != kNoType && types_[plan.inputs[k]].shape.empty();
  };
  size_t same = 0;
  while (same < inputs.size() && known(same)) ++same;
  if (same == inputs.size()) return true;

  static const std::vector<int64_t> of_number;
  plan_shapes_.clear();
  for (const Datum& input : inputs) {
    const bool is_tensor = input.kind == Kind::kTensor;
    if (!is_tensor && input.kind != Kind::kNumber) return false;
    plan_shapes_.push_back(is_tensor ? &types_[input.tag].shape : &of_number);
  }
  // Nothing is known should the sizes turn out wrong.
  std::fill(plan.inputs.begin(), plan.inputs.end(), kNoType);
  if (!plan.call.fits(plan_shapes_)) return false;
  plan.call.bind(plan_shapes_);
  const Plan& bound = plan.call.plan();
  // What grows by a row at a time allocates rarely.
  if (bound.arena_bytes > arena_.bytes)
    make_arena(bound.arena_bytes, std::min(arena_.bytes + arena_.bytes / 2, kMostBytes));
  else
    plan.call.place(static_cast<char*>(arena_.memory.get()));
  for (size_t k = 0; k < bound.outputs.size(); ++k) {
    const Value& value = bound.values[static_cast<size_t>(bound.outputs[k].value)];
    // That of the last call mostly: a sum, say, of any length.
    if (!is_type(plan.outputs[k], value)) plan.outputs[k] = type_number(value);
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const Value& value = bound.values[static_cast<size_t>(bound.inputs[k].value)];
    // bind() has compared the shapes; a type is one number.
    const bool has_type = inputs[k].kind == Kind::kTensor && types_[inputs[k].tag].dtype == value.dtype;
    plan.inputs[k] = has_type ? inputs[k].tag : type_number(value);
  }
  return true;
}

/// Memory for result `number`, in the data type of the result: of an input that it may be written over, that
/// nobody uses after this instruction and nobody else holds; else new.
Datum Machine::result_place(const LinkedPlan& plan, const Instruction& i, std::span<const Datum> inputs,
                            size_t number) {
  const uint32_t type = plan.outputs[number];
  const std::vector<int64_t>& over = plan.call.plan().over;
  const auto source = over.empty() || over[number] < 0 ? inputs.size() : static_cast<size_t>(over[number]);
  if (source < inputs.size() && i.args[source] < 0 && inputs[source].kind == Kind::kTensor &&
      types_[inputs[source].tag].bytes == types_[type].bytes) {
    auto* object = reinterpret_cast<TensorObject*>(inputs[source].object);
    // A register that is two arguments is held once.
    const auto holders = std::count_if(inputs.begin(), inputs.end(), [&](const Datum& input) {
      return input.kind == Kind::kTensor && input.object == inputs[source].object;
    });
    Object* memory = memory_of(object);
    if (holders == 1 && memory && memory->references == 1 && object->head.references == 1) {
      if (type != inputs[source].tag) return number_or_view(type, object->data, memory);
      Heap::retain(inputs[source]);
      return inputs[source];
    }
  }
  return Datum::of(Kind::kTensor, type, &heap_.make_tensor(types_[type].bytes)->head);
}

/// The results are in args_, where unwind() finds them. False when the inputs are not of the plan's types.
bool Machine::run_plan(const Instruction& i, std::span<const Datum> inputs) {
  const auto number = static_cast<size_t>(i.number);
  LinkedPlan& plan = plans_[number];
  try {
    if (plan.call.is_open() && !follow_inputs(plan, inputs)) return false;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (!plan_input(inputs[k], plan.inputs[k], k)) return false;
  } catch (const Error& error) {
    throw Error(program_.plans[number].model + error.what());
  }
  args_.assign(plan.outputs.size(), kNothing);
  for (size_t k = 0; k < args_.size(); ++k) {
    plan_results_[k] = nullptr;
    if (plan.call.results()[k].source != PlanCall::Source::kOwn) continue;
    if (types_[plan.outputs[k]].shape.empty()) {
      plan_results_[k] = slots_[plan_inputs_.size() + k].bytes;
      continue;
    }
    args_[k] = result_place(plan, i, inputs, k);
    plan_results_[k] = reinterpret_cast<TensorObject*>(args_[k].object)->data;
  }
  plan.call.run(plan_inputs_.data(), plan_results_.data(),
                spent_.empty() ? spent_ : spent_.subspan(plan.first_step, plan.call.steps()));
  if (!calls_.empty())
    for (size_t step = 0; step < plan.call.steps(); ++step)
      calls_[plan.first_step + step] += plan.call.runs(step);
  for (size_t k = 0; k < args_.size(); ++k) args_[k] = plan_result(plan, inputs, k);
  return true;
}

void Machine::plan(const Instruction& i) {
  plan_args_.clear();
  for (int32_t arg : i.args) plan_args_.push_back(peek(arg));
  if (!run_plan(i, plan_args_)) fault(Fault::kTensorType);
  for (int32_t arg : i.args) done(arg);
  for (size_t k = 0; k < i.results.size(); ++k) set(i.results[k], args_[k]);
  args_.clear();
}

}  // namespace lathe::runtime
