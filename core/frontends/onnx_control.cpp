// Control flow: branches are chosen and loops unrolled while the model is imported, where that is known by
// then; else they become branches and functions of the program.
#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_branches.h"
#include "core/frontends/onnx_lists.h"
#include "core/frontends/onnx_optionals.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// Whether the sides give tensors of different ranks.
bool ranks_differ(const Values& yes, const Values& no) {
  for (size_t i = 0; i < std::min(yes.size(), no.size()); ++i) {
    const auto rank = [](const Value& value) {
      const auto* type = is_either(value) ? nullptr : value->checked_type.as<relay::TensorType>();
      return type ? std::optional(type->shape.size()) : std::nullopt;
    };
    if (rank(yes[i]) && rank(no[i]) && rank(yes[i]) != rank(no[i])) return true;
  }
  return false;
}

/// When the condition is not known, a branch of the program: what only one side needs is computed there.
Values if_op(const Node& node) {
  if (known(node.in(0)) && !holds_handles(node.in(0)))
    return node.run(node.int_in(0) ? "then_branch" : "else_branch", {});
  Values yes, no;
  const Values results = branch_of(
      reshape(node.in(0), {}), [&] { return yes = node.run("then_branch", {}); },
      [&] { return no = node.run("else_branch", {}); });
  // A dimension that is 1 dropped, else kept: what follows is written for one of the two.
  if (is_about_dims(node.in(0)) && ranks_differ(yes, no))
    return OpenDimensions::current()->choices().next() ? yes : no;
  return results;
}

/// A step's value as one element of the tensor that gathers them along `axis`.
Value element(const Value& value, int64_t axis) {
  std::vector<Expr> shape = dims_of(value);
  shape.insert(shape.begin() + axis, Expr(1));
  return reshape_to(value, shape);
}

/// Rows that the steps of a loop give, in a tensor with room for `most` of them.
Value room_for(const Expr& most, const Value& row) {
  std::vector<Expr> shape = dims_of(row);
  shape.insert(shape.begin(), most);
  return repeated_to(scalar(type_of(row).dtype, 0), shape);
}

/// What the steps of a loop give to gather, a part of its state, before the first: a tensor with room for
/// `most` rows; or a list, where nothing tells how many there will be (null) or, before the loop, how large
/// they are.
Value no_rows_yet(const Value& row, const Expr& most) {
  const relay::Type told = with_told_sizes(row->checked_type);
  return most && structural_equal(told, row->checked_type) ? room_for(most, row)
                                                           : as_list(tuple_of({}), told);
}

/// Row `at` at its place; in a list, which has the rows in the order of the steps, behind the others.
Value with_next_row(const Value& rows, const Value& at, const Value& row) {
  return is_list(rows) ? with_last(rows, row) : with_row(rows, at, row);
}

/// The list of rows that so many steps gave as a tensor. Of none the sizes that a row would tell are 0.
Value rows_in(const Value& list, const Value& steps) {
  std::vector<Expr> none = item_type(list).shape;
  const auto is_open = [](const Expr& dim) { return dim.as<Any>() != nullptr; };
  if (std::ranges::none_of(none, is_open)) return joined_items(list, 0, /*new_axis=*/true);
  std::ranges::replace_if(none, is_open, Expr(0));
  none.insert(none.begin(), Expr(0));
  return branch_of(
      less(scalar(kInt64, 0), steps), [&] { return Values{joined_items(list, 0, /*new_axis=*/true)}; },
      [&] { return Values{repeated_to(scalar(item_type(list).dtype, 0), none)}; })[0];
}

/// The number of steps, at most, as a size.
Expr most_steps(const Node& node) {
  if (known(node.in(0))) {
    const std::vector<Expr> count = node.sizes_in(0);
    if (count.size() != 1) node.reject("input 0 has {} numbers, must have one", count.size());
    return count[0];
  }
  return dims_of(zeros_of(emit("maximum", {cast_to(reshape(node.in(0), {}), kInt64), scalar(kInt64, 0)})))[0];
}

/// Of what a loop carries, the type of the values of optionals that have one in some steps and none in
/// others; null for all else.
using OptionalTypes = std::vector<relay::Type>;

/// What a step gives the next one takes, and there are as many steps as a run makes. `optional(i)`: output i
/// may have a value or none.
void require_one_type(
    const Node& node, const Values& outputs,
    FunctionRef<bool(size_t)> optional = [](size_t) { return false; }) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (is_either(outputs[i]) && !optional(i))
      node.reject(
          "output {} of its body is of several ranks or types by a condition, which must be known when the "
          "model is compiled",
          i);
}

/// The body of a loop: the step's number, the condition and what is carried give the next condition, what is
/// carried, and a value for each tensor that is gathered.
Values body_of(const Node& node, const Values& inputs, const OptionalTypes& optionals) {
  Values outputs = node.run("body", inputs);
  if (outputs.size() != 1 + node.outputs()) node.reject("its body has {} outputs", outputs.size());
  require_one_type(node, outputs,
                   [&](size_t i) { return i > 0 && i <= optionals.size() && optionals[i - 1]; });
  for (Value& output : outputs)
    if (!is_either(output)) output = as_data(output);
  return outputs;
}

/// What a step gives to gather, for its types alone.
Values rows_of_a_step(const Node& node, const Values& inputs, const OptionalTypes& carried) {
  OpenDimensions::Scope scope;
  const Values outputs = body_of(node, inputs, carried);
  return {outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size()), outputs.end()};
}

/// What a step gives to carry on, for its types alone.
Values carried_by_a_step(const Node& node, const Value& step, const Value& condition, const Values& carried) {
  Values inputs{step, condition};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  OpenDimensions::Scope scope;
  // Which of them are optionals this is to tell.
  const OptionalTypes any(carried.size(), relay::tensor_type(std::vector<Expr>{}, kBool));
  const Values outputs = body_of(node, inputs, any);
  return {outputs.begin() + 1, outputs.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size())};
}

/// The types that items of sequences have, of `carried` as of what a step makes of it; null where that is not
/// one type, and for what is no sequence.
std::vector<relay::Type> item_types(const Values& carried, const Values& next) {
  std::vector<relay::Type> types;
  for (size_t i = 0; i < carried.size(); ++i)
    types.push_back(is_sequence(carried[i]) && is_sequence(next[i]) ? common_item_type({carried[i], next[i]})
                                                                    : nullptr);
  return types;
}

/// Whether there is nothing in it: a sequence without items, or an optional without a value.
bool is_nothing(const Value& value) {
  const auto* tuple = value.as<relay::Tuple>();
  return tuple && tuple->items.empty();
}

/// Whether a loop that is given nothing hands nothing on.
bool stays_nothing(const Value& given, const Value& next) {
  return is_nothing(given) && is_nothing(next) && (given == no_value()) == (next == no_value());
}

[[noreturn]] void reject_untyped(const Node& node) {
  node.reject(
      "its count and condition must be known when the model is compiled, since it carries a sequence without "
      "items, or of several types");
}

/// Something of that tensor's type, in any step of a loop; of no other value.
Value in_any_step(const Value& value) {
  const relay::Type& type = value->checked_type;
  return type.as<relay::TensorType>() ? relay::with_checked_type(relay::make_var("any", type), type) : value;
}

/// What a loop carries, with lists in the place of sequences and of optionals that get a value.
struct Carried {
  Values values;
  OptionalTypes optionals;
};

/// Sequences are of items as they are at first and as the body gives them. What stays nothing in all steps is
/// as it is.
Carried with_lists(const Node& node, const Value& condition, const Values& carried) {
  Carried result{carried, OptionalTypes(carried.size())};
  if (std::none_of(carried.begin(), carried.end(), is_sequence)) return result;
  std::vector<relay::Type> types;
  const auto find_types = [&](const Values& next) {
    types = item_types(carried, next);
    for (size_t i = 0; i < carried.size(); ++i)
      if (carried[i] == no_value()) result.optionals[i] = value_type(next[i], nullptr);
  };
  Values next = carried_by_a_step(node, scalar(kInt64, 0), condition, carried);
  find_types(next);
  const auto has_untyped = [&](bool may_stay_nothing) {
    for (size_t i = 0; i < carried.size(); ++i)
      if (is_sequence(carried[i]) && !types[i] && !result.optionals[i] &&
          !(may_stay_nothing && stays_nothing(carried[i], next[i])))
        return true;
    return false;
  };
  // The first step may be one that adds nothing, as a loop of as many steps as have been made, or as are
  // counted in what is carried.
  if (has_untyped(false)) {
    Values any;
    for (const Value& value : carried) any.push_back(in_any_step(as_data(value)));
    next = carried_by_a_step(node, in_any_step(scalar(kInt64, 0)), condition, any);
    find_types(next);
  }
  if (has_untyped(true)) reject_untyped(node);
  for (size_t i = 0; i < carried.size(); ++i) {
    if (result.optionals[i])
      result.values[i] = optional_as_list(carried[i], with_told_sizes(result.optionals[i]));
    else if (types[i])
      result.values[i] = as_list(carried[i], with_told_sizes(types[i]));
  }
  return result;
}

/// Whether the count is no more than a word for "as long as the condition says".
bool has_endless_count(const Node& node) {
  if (!known(node.in(0)) || holds_handles(node.in(0))) return false;
  const Ints count = node.positions_in(0);
  if (count.size() != 1) node.reject("input 0 has {} numbers, must have one", count.size());
  return count[0] >= Node::kLargest;
}

/// Of a count or a condition that only a run knows.
Values loop_at_run_time(const Node& node, const Value& condition, const Values& given) {
  const auto [carried, optionals] = with_lists(node, condition, given);
  const size_t gathers = node.outputs() - carried.size();
  const bool counted = node.has(0) && !has_endless_count(node);
  Values first{scalar(kInt64, 0), reshape(as_data(condition), {})};
  for (const Value& value : carried)
    if (!is_nothing(value)) first.push_back(as_data(value));
  const size_t begin_of_rows = first.size();
  // The body's inputs: the state but for its rows, and between what is carried what stays nothing.
  auto inputs_of = [&, &carried = carried, &optionals = optionals](const Values& state) {
    Values inputs{state[0], state[1]};
    size_t at = inputs.size();
    for (size_t i = 0; i < carried.size(); ++i) {
      if (is_nothing(carried[i]))
        inputs.push_back(carried[i]);
      else
        inputs.push_back(optionals[i] ? optional_of(state[at++]) : state[at++]);
    }
    return inputs;
  };
  const Value count = counted ? reshape(as_data(node.in(0)), {}) : Value();
  if (gathers > 0) {
    const Expr most = counted ? most_steps(node) : Expr();
    for (const Value& row : rows_of_a_step(node, inputs_of(first), optionals))
      first.push_back(no_rows_yet(row, most));
  }
  // Whether nothing but the count ends it.
  bool to_the_end = known(condition) && known(condition)->value(0) != 0;
  auto more = [&](const Values& state) {
    if (!counted) return state[1];
    // Before the list: g++ 12 destroys what lists in a choice (?:) hold twice, where an element throws.
    const Value below = less(state[0], count);
    return emit("logical_and", {state[1], below});
  };
  auto next = [&, &carried = carried, &optionals = optionals](const Values& state) {
    Values outputs = body_of(node, inputs_of(state), optionals);
    Values after{plus(state[0], scalar(kInt64, 1)), reshape(outputs[0], {})};
    to_the_end &= outputs[0] == state[1] || (known(outputs[0]) && known(outputs[0])->value(0) != 0);
    for (size_t i = 0; i < carried.size(); ++i) {
      const Value& value = outputs[1 + i];
      if (is_nothing(carried[i])) {
        if (!stays_nothing(carried[i], value)) reject_untyped(node);
        continue;
      }
      const Value& before = state[after.size()];
      if (optionals[i]) {
        const relay::Type own = before->checked_type.as<relay::TypeCall>()->args[0],
                          type = value_type(value, own);
        if (!type) reject_untyped(node);
        after.push_back(optional_as_list(value, type));
        continue;
      }
      const relay::Type item = value.as<relay::Tuple>() ? common_item_type({before, value}) : nullptr;
      after.push_back(item ? as_list(value, item) : value);
    }
    for (size_t i = 0; i < gathers; ++i) {
      const Value &rows = state[begin_of_rows + i], &row = outputs[1 + carried.size() + i];
      after.push_back(with_next_row(rows, state[0], row));
    }
    return after;
  };
  Values last = loop_while(first, more, next);
  if (!counted && to_the_end)
    node.reject("nothing ends it: it has no count that a run reaches, and its condition is always true");
  Values results = inputs_of(last);
  results.erase(results.begin(), results.begin() + 2);
  for (size_t i = 0; i < gathers; ++i) {
    const Value& rows = last[begin_of_rows + i];
    results.push_back(is_list(rows) ? rows_in(rows, last[0]) : to_the_end ? rows : first_rows(rows, last[0]));
  }
  return results;
}

/// Whether the count is known, or there is none.
bool count_is_known(const Node& node) {
  return !node.has(0) || (known(node.in(0)) && !holds_handles(node.in(0)));
}

/// No rows of that type, along the output's axis.
Value no_rows(const relay::Type& row, int64_t axis) {
  const auto& type = *row.as<relay::TensorType>();
  std::vector<Expr> shape = type.shape;
  shape.insert(shape.begin() + axis, Expr(0));
  return repeated_to(scalar(type.dtype, 0), shape);
}

/// The type of output i of a body that cannot be imported for these sizes, which is `why`.
relay::Type declared_row(const Node& node, size_t i, const std::string& why) {
  const relay::Type type = node.declared_output("body", i);
  if (!type) throw NothingToTake(why);
  return type;
}

/// A loop whose body takes elements of what has none: it takes no step, or the run is refused.
Values loop_without_steps(const Node& node, const std::string& why) {
  Value steps = node.has(1) ? reshape(as_data(node.in(1)), {}) : constant(full({}, kBool, 1));
  if (node.has(0))
    steps = emit("logical_and",
                 {steps, less(scalar(kInt64, 0), cast_to(reshape(as_data(node.in(0)), {}), kInt64))});
  const Tensor* takes_some = known(steps);
  if (takes_some && takes_some->value(0) != 0) throw NothingToTake(why);
  Values results;
  for (size_t i = 2; i < node.inputs(); ++i) results.push_back(node.in(i));
  while (results.size() < node.outputs())
    results.push_back(no_rows(declared_row(node, 1 + results.size(), why), 0));
  if (takes_some) return results;
  for (Value& result : results) {
    if (is_sequence(result)) throw NothingToTake(why);
    result = emit("require", {as_data(result), emit("logical_not", {steps})},
                  make<relay::RequireAttrs>(fmt::format("its body takes a step, which it cannot: {}", why)));
    OpenDimensions::current()->learn_from(result);
  }
  return results;
}

/// Inputs: the most steps, the first condition, what is carried. The body takes the step's number, the
/// condition and what is carried, and gives the next condition, what is carried, and elements to gather.
Values loop_with_steps(const Node& node) {
  Value condition = node.has(1) ? node.in(1) : constant(full({}, kBool, 1));
  Values carried;
  for (size_t i = 2; i < node.inputs(); ++i) carried.push_back(node.in(i));
  if (node.outputs() < carried.size())
    node.reject("{} outputs for {} carried values", node.outputs(), carried.size());
  if (!count_is_known(node)) return loop_at_run_time(node, condition, carried);
  // Without a count, or with the largest number as PyTorch writes it, the condition ends the loop.
  int64_t steps = Node::kLargest;
  if (node.has(0)) {
    Ints count = node.positions_in(0);
    if (count.size() != 1) node.reject("input 0 has {} numbers, must have one", count.size());
    steps = count[0];
  }
  // Of no steps whatever the condition says.
  if (steps > 0 && !known(condition)) return loop_at_run_time(node, condition, carried);
  const Values before = carried;
  const Value first_condition = condition;
  std::vector<Values> gathered(node.outputs() - carried.size());
  for (int64_t step = 0; step < steps; ++step) {
    // Constants fold while they are imported, so a condition of counters and shapes is known at each step.
    const Tensor* go_on = known(condition);
    if (go_on && (go_on->size() != 1 || go_on->value(0) == 0)) break;
    if (!go_on || step >= Node::kMostSteps || !node.may_unroll("body", 1))
      return loop_at_run_time(node, first_condition, before);
    Values inputs{constant(full({}, kInt64, static_cast<double>(step))), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Values outputs = node.run("body", inputs);
    if (outputs.size() != 1 + node.outputs()) node.reject("its body has {} outputs", outputs.size());
    // A condition that is handed on ends nothing: there will be all of the steps.
    if (outputs[0] == condition && !node.may_unroll("body", steps))
      return loop_at_run_time(node, first_condition, before);
    condition = outputs[0];
    std::copy_n(outputs.begin() + 1, carried.size(), carried.begin());
    for (size_t i = 0; i < gathered.size(); ++i)
      gathered[i].push_back(element(outputs[1 + carried.size() + i], 0));
  }
  Values none;  // rows, of the types that they would have
  if (!gathered.empty() && gathered[0].empty()) {
    Values inputs{scalar(kInt64, 0), condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    for (const Value& row : rows_of_a_step(node, inputs, OptionalTypes(carried.size())))
      none.push_back(room_for(0, row));
  }
  for (size_t i = 0; i < gathered.size(); ++i)
    carried.push_back(none.empty() ? concatenated(gathered[i], 0) : none[i]);
  return carried;
}

Values loop(const Node& node) try { return loop_with_steps(node); } catch (const NothingToTake& nothing) {
  return loop_without_steps(node, nothing.what());
}

/// Numbers of an attribute, one for each of `count`; 0 where it is not there.
Ints each(const Node& node, const char* name, size_t count) {
  Ints values = node.ints(name, Ints(count, 0));
  if (values.size() != count) node.reject("{} has {} numbers, must have {}", name, values.size(), count);
  return values;
}

/// What the attributes of a Scan say.
struct ScanForm {
  size_t states, inputs, gathered;
  Ints axes, backward, output_axes, output_backward;
  Expr steps;
};

ScanForm scan_form(const Node& node) {
  if (node.opset() < 9) node.reject("its form before opset 9 is not supported");
  auto count = static_cast<size_t>(node.integer("num_scan_inputs", 0));
  if (count < 1 || count > node.inputs()) node.reject("{} of {} inputs are scanned", count, node.inputs());
  const size_t states = node.inputs() - count;
  if (node.outputs() < states) node.reject("{} outputs for {} carried values", node.outputs(), states);
  const size_t gathered = node.outputs() - states;
  ScanForm form{states,
                count,
                gathered,
                each(node, "scan_input_axes", count),
                each(node, "scan_input_directions", count),
                each(node, "scan_output_axes", gathered),
                each(node, "scan_output_directions", gathered),
                {}};
  for (size_t i = 0; i < count; ++i) {
    int64_t& axis = form.axes[i];
    axis = node.axis(axis, node.rank(states + i));
    const Expr& steps = node.dims(states + i)[static_cast<size_t>(axis)];
    if (form.steps && as_int(steps) && as_int(form.steps) && !prove_equal(steps, form.steps))
      node.reject("scanned inputs differ in length");
    // A number says more than a name, and the run checks that they are one.
    if (!form.steps || as_int(steps)) form.steps = steps;
  }
  return form;
}

/// Where the body's value goes, counted among the axes of the result: one more than the value has.
int64_t output_axis(const Node& node, const ScanForm& form, size_t i, const Value& value) {
  return node.axis(form.output_axes[i], static_cast<int64_t>(type_of(value).shape.size()) + 1);
}

/// Of a known number of steps, one after another.
Values unrolled_scan(const Node& node, const ScanForm& form) {
  std::vector<Values> gathered(form.gathered);
  Ints axes(form.gathered);
  Values carried(node.all().begin(), node.all().begin() + static_cast<std::ptrdiff_t>(form.states));
  const int64_t steps = int_value(form.steps);
  for (int64_t step = 0; step < steps; ++step) {
    Values inputs = carried;
    for (size_t i = 0; i < form.inputs; ++i) {
      const int64_t axis = form.axes[i];
      std::vector<Expr> shape = node.dims(form.states + i);
      shape[static_cast<size_t>(axis)] = form.steps;
      const Value whole = with_dims(node.in(form.states + i), shape);
      // Direction 1 runs from the end.
      const int64_t at = form.backward[i] ? steps - 1 - step : step;
      shape.erase(shape.begin() + axis);
      inputs.push_back(reshape_to(sliced(whole, axis, at, at + 1), shape));
    }
    Values outputs = node.run("body", inputs);
    if (outputs.size() != node.outputs()) node.reject("its body has {} outputs", outputs.size());
    std::copy_n(outputs.begin(), form.states, carried.begin());
    for (size_t i = 0; i < gathered.size(); ++i) {
      const Value& value = outputs[form.states + i];
      axes[i] = output_axis(node, form, i, value);
      gathered[i].insert(form.output_backward[i] ? gathered[i].begin() : gathered[i].end(),
                         element(value, axes[i]));
    }
  }
  for (size_t i = 0; i < gathered.size(); ++i) carried.push_back(concatenated(gathered[i], axes[i]));
  return carried;
}

/// Moves the first axis to place `axis`.
Value first_axis_moved(const Value& value, int64_t axis) {
  Ints order;
  for (int64_t d = 1; d < static_cast<int64_t>(type_of(value).shape.size()); ++d) order.push_back(d);
  order.insert(order.begin() + axis, 0);
  return axis == 0 ? value : transposed(value, order);
}

/// Of as many steps as a dimension that is open: scanned inputs get their axis in front, a step takes a row.
Values scan_at_run_time(const Node& node, const ScanForm& form) {
  const Value count = number_of(form.steps), last = minus(count, scalar(kInt64, 1));
  Values rows, first{scalar(kInt64, 0)};
  for (size_t i = 0; i < form.inputs; ++i) {
    Ints order{form.axes[i]};
    for (int64_t d = 0; d < node.rank(form.states + i); ++d)
      if (d != form.axes[i]) order.push_back(d);
    const Value whole = transposed(node.in(form.states + i), order);
    std::vector<Expr> shape = dims_of(whole);
    shape[0] = form.steps;
    rows.push_back(with_dims(whole, shape));
  }
  for (size_t i = 0; i < form.states; ++i) first.push_back(as_data(node.in(i)));
  auto run_body = [&](const Values& state) {
    Values inputs(state.begin() + 1, state.begin() + 1 + static_cast<std::ptrdiff_t>(form.states));
    for (size_t i = 0; i < form.inputs; ++i)
      inputs.push_back(row_of(rows[i], form.backward[i] ? minus(last, state[0]) : state[0]));
    Values outputs = node.run("body", inputs);
    if (outputs.size() != node.outputs()) node.reject("its body has {} outputs", outputs.size());
    require_one_type(node, outputs);
    for (Value& output : outputs) output = as_data(output);
    return outputs;
  };
  Ints axes;
  if (form.gathered > 0) {
    // What a step gives, for its type alone.
    OpenDimensions::Scope scope;
    const Values outputs = run_body(first);
    scope.leave();
    for (size_t i = 0; i < form.gathered; ++i) {
      const Value& row = outputs[form.states + i];
      axes.push_back(output_axis(node, form, i, row));
      first.push_back(no_rows_yet(row, form.steps));
    }
  }
  auto next = [&](const Values& state) {
    const Values outputs = run_body(state);
    Values after{plus(state[0], scalar(kInt64, 1))};
    after.insert(after.end(), outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(form.states));
    for (size_t i = 0; i < form.gathered; ++i)
      after.push_back(with_next_row(state[1 + form.states + i],
                                    form.output_backward[i] ? minus(last, state[0]) : state[0],
                                    outputs[form.states + i]));
    return after;
  };
  Values all = loop_while(
      first, [&](const Values& state) { return less(state[0], count); }, next);
  Values results(all.begin() + 1, all.end());
  for (size_t i = 0; i < form.gathered; ++i) {
    Value& rows = results[form.states + i];
    if (is_list(rows)) {
      rows = rows_in(rows, count);
      if (form.output_backward[i]) rows = emit("reverse", {rows}, make<relay::ReverseAttrs>(int64_t{0}));
    }
    rows = first_axis_moved(rows, axes[i]);
  }
  return results;
}

/// Of no steps: what is carried stays. The body is asked for the types of its rows alone.
Values scan_without_steps(const Node& node, const ScanForm& form) {
  Values results(node.all().begin(), node.all().begin() + static_cast<std::ptrdiff_t>(form.states));
  Values inputs = results;
  for (size_t i = 0; i < form.inputs; ++i) {
    std::vector<Expr> shape = node.dims(form.states + i);
    shape.erase(shape.begin() + form.axes[i]);
    inputs.push_back(repeated_to(scalar(node.dtype(form.states + i), 0), shape));
  }
  std::vector<relay::Type> rows;
  try {
    OpenDimensions::Scope scope;
    const Values outputs = node.run("body", inputs);
    if (outputs.size() != node.outputs()) node.reject("its body has {} outputs", outputs.size());
    for (size_t i = form.states; i < outputs.size(); ++i) rows.push_back(as_data(outputs[i])->checked_type);
  } catch (const NothingToTake& nothing) {
    for (size_t i = form.states; i < node.outputs(); ++i)
      rows.push_back(declared_row(node, i, nothing.what()));
  }
  for (size_t i = 0; i < form.gathered; ++i) {
    const auto rank = static_cast<int64_t>(rows[i].as<relay::TensorType>()->shape.size());
    results.push_back(no_rows(rows[i], node.axis(form.output_axes[i], rank + 1)));
  }
  return results;
}

/// Inputs: what is carried, then tensors whose elements along an axis are given to the steps in turn.
Values scan(const Node& node) {
  const ScanForm form = scan_form(node);
  const int64_t* steps = as_int(form.steps);
  if (steps && *steps == 0) return scan_without_steps(node, form);
  return steps && *steps >= 1 && node.may_unroll("body", *steps) ? unrolled_scan(node, form)
                                                                 : scan_at_run_time(node, form);
}

constexpr Converter kConverters[] = {{"If", if_op}, {"Loop", loop}, {"Scan", scan}};
}  // namespace

std::span<const Converter> control_converters() { return kConverters; }

}  // namespace lathe::onnx
