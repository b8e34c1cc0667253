#include "core/frontends/onnx_branches.h"

#include <algorithm>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_lists.h"
#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/ops/attrs_require.h"

namespace lathe::onnx {
namespace {

/// One side of a branch, or why it is left out.
struct Side {
  Values values;
  std::string unfit;
};

/// Whether no handle in the value is of a dimension that is told in a branch alone.
bool is_told_here(const Value& value) {
  const auto* tuple = value.as<relay::Tuple>();
  if (tuple) return std::ranges::all_of(tuple->items, is_told_here);
  const Tensor* tensor = known(value);
  const OpenDimensions& open = *OpenDimensions::current();
  for (int64_t i = 0; tensor && holds_handles(*tensor) && i < tensor->size(); ++i)
    if (!open.tells(open.dim(tensor->integer(i)))) return false;
  return true;
}

/// What the side gives; sizes that are told within it alone become numbers that it computes.
Values with_own_sizes(FunctionRef<Values()> side, OpenDimensions::Scope& scope) {
  Values values = side(), computed;
  for (const Value& value : values) computed.push_back(value && !is_either(value) ? as_data(value) : value);
  scope.leave();
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && !is_told_here(values[i])) values[i] = computed[i];
  return values;
}

Side side_of(FunctionRef<Values()> values, bool holds) {
  OpenDimensions::Scope scope;
  const Choices& choices = OpenDimensions::current()->choices();
  const size_t before = choices.made();
  auto left_out = [&](const char* why, const Error& error) {
    return Side{{}, fmt::format("{}_branch of a branch {}: {}", holds ? "then" : "else", why, error.what())};
  };
  try {
    return {with_own_sizes(values, scope), ""};
  } catch (const NoElement& error) {
    return left_out("does not go with this input", error);
  } catch (const Error& error) {
    // Another choice within it may lead through.
    if (!choices.leaves_out() || choices.made() != before) throw;
    return left_out("does not fit the sizes that the model was compiled for", error);
  }
}

/// The side that is left; a run that would take the other is refused.
Values only_side(const Value& condition, const Values& values, bool holds, const std::string& unfit) {
  const Value allowed = holds ? condition : emit("logical_not", {condition});
  Values results;
  for (const Value& value : values) {
    if (is_either(value) || !value->checked_type.as<relay::TensorType>()) fail("{}", unfit);
    results.push_back(emit("require", {as_data(value), allowed}, make<relay::RequireAttrs>(unfit)));
    OpenDimensions::current()->learn_from(results.back());
  }
  return results;
}

bool is_tensor(const Value& value) {
  return !is_either(value) && value->checked_type.as<relay::TensorType>() != nullptr;
}

/// Sequences as lists of one type; false where they are of none.
bool become_lists(Value& yes, Value& no) {
  if (is_either(yes) || is_either(no) || !is_sequence(yes) || !is_sequence(no)) return false;
  if (yes == no_value() || no == no_value()) return false;
  const relay::Type item = common_item_type({yes, no});
  if (!item) return false;
  yes = as_list(yes, item), no = as_list(no, item);
  return true;
}

bool are_empty_sequences(const Value& yes, const Value& no) {
  const auto *a = yes.as<relay::Tuple>(), *b = no.as<relay::Tuple>();
  return a && b && a->items.empty() && b->items.empty() && (yes == no_value()) == (no == no_value());
}

/// Of values that have a type in common. Where there is nothing to compute, elements are chosen, and the
/// model stays a graph.
Values one_of(const Value& condition, const Values& yes, const Values& no) {
  bool computes = false;
  for (size_t i = 0; i < yes.size(); ++i)
    computes |= !is_tensor(yes[i]) || !relay::is_leaf(yes[i]) || !relay::is_leaf(no[i]) ||
                !structural_equal(yes[i]->checked_type, no[i]->checked_type);
  if (computes) return branch(condition, yes, no);
  Values results;
  for (size_t i = 0; i < yes.size(); ++i) results.push_back(choose(condition, yes[i], no[i]));
  return results;
}

/// A side's tensor for whoever asks for it. Several branches may, by the same condition; it is computed in
/// front of them then, so where it may fail it is computed here, and is nothing on the other side.
Value for_all(const Value& condition, const Value& side, bool holds) {
  if (!is_tensor(side) || !may_fail(side, condition)) return side;
  const relay::Type told = with_told_sizes(side->checked_type);
  std::vector<Expr> shape = told.as<relay::TensorType>()->shape;
  std::ranges::replace_if(
      shape, [](const Expr& dim) { return dim.as<Any>() != nullptr; }, Expr(0));
  const Value value = as_data(side), nothing = repeated_to(scalar(type_of(side).dtype, 0), shape);
  return holds ? branch(condition, {value}, {nothing})[0] : branch(condition, {nothing}, {value})[0];
}

Values joined(const Value& condition, Values yes, Values no) {
  yes.resize(std::min(yes.size(), no.size()));
  no.resize(yes.size());
  Values results(yes.size()), first, second;
  std::vector<size_t> places;  // of those with a type in common
  for (size_t i = 0; i < yes.size(); ++i) {
    if (!yes[i] || !no[i]) continue;  // an output that nobody takes
    const bool same = yes[i] == no[i] || (known(yes[i]) && known(no[i]) && structural_equal(yes[i], no[i]));
    if (same || are_empty_sequences(yes[i], no[i])) {
      results[i] = yes[i];
      continue;
    }
    const bool tensors = is_tensor(yes[i]) && is_tensor(no[i]);
    if (tensors) yes[i] = as_data(yes[i]), no[i] = as_data(no[i]);
    const bool alike = tensors ? common_type(yes[i]->checked_type, no[i]->checked_type) != nullptr
                               : become_lists(yes[i], no[i]);
    if (!alike) {
      results[i] =
          make<relay::If>(condition, for_all(condition, yes[i], true), for_all(condition, no[i], false));
      continue;
    }
    places.push_back(i);
    first.push_back(yes[i]), second.push_back(no[i]);
  }
  if (places.empty()) return results;
  const Values chosen = one_of(condition, first, second);
  for (size_t i = 0; i < places.size(); ++i) results[places[i]] = chosen[i];
  return results;
}

/// `value` where the condition is known to hold, or not to.
Value given(const Value& value, const Value& condition, bool holds) {
  if (!value || !is_either(value)) return value;
  const auto& choice = *value.as<relay::If>();
  if (choice.condition == condition)
    return given(holds ? choice.then_case : choice.else_case, condition, holds);
  const Value yes = given(choice.then_case, condition, holds), no = given(choice.else_case, condition, holds);
  return yes == choice.then_case && no == choice.else_case ? value
                                                           : make<relay::If>(choice.condition, yes, no);
}

}  // namespace

bool is_either(const Value& value) { return value.as<relay::If>() && !value->checked_type; }

Values branch_of(const Value& condition, FunctionRef<Values()> yes, FunctionRef<Values()> no) {
  const Side first = side_of(yes, true), second = side_of(no, false);
  if (!first.unfit.empty() && !second.unfit.empty()) fail("{}", first.unfit);
  if (!first.unfit.empty()) return only_side(condition, second.values, false, first.unfit);
  if (!second.unfit.empty()) return only_side(condition, first.values, true, second.unfit);
  return joined(condition, first.values, second.values);
}

Values of_each_side(const Values& inputs, FunctionRef<Values(const Values&)> f, FunctionRef<void()> again) {
  const auto either =
      std::ranges::find_if(inputs, [](const Value& input) { return input && is_either(input); });
  if (either == inputs.end()) return f(inputs);
  again();
  const Value condition = either->as<relay::If>()->condition;
  auto side = [&](bool holds) {
    Values own;
    for (const Value& input : inputs) own.push_back(given(input, condition, holds));
    return of_each_side(own, f, again);
  };
  return branch_of(
      condition, [&] { return side(true); }, [&] { return side(false); });
}

}  // namespace lathe::onnx
