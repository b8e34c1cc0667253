#include "core/frontends/onnx_run_axes.h"

#include "core/frontends/onnx_arithmetic.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {

Value is_equal(const Value& a, const Value& b) { return emit("equal", {a, b}); }
Value both(const Value& a, const Value& b) { return emit("logical_and", {a, b}); }
Value either(const Value& a, const Value& b) { return emit("logical_or", {a, b}); }
Value opposite(const Value& a) { return emit("logical_not", {a}); }
Value is_any(const Value& flags) {
  return emit("any", {flags}, make<relay::ReduceAttrs>(relay::Ints{0}, false));
}
Value is_all(const Value& flags) {
  return emit("all", {flags}, make<relay::ReduceAttrs>(relay::Ints{0}, false));
}

/// The numbers, of which each must be an axis.
Value checked_axes(const Value& axes, int64_t rank) {
  const Value inside = both(emit("less_equal", {integer(-rank), axes}), less(axes, integer(rank)));
  return emit("require", {axes, is_all(inside)},
              make<relay::RequireAttrs>(fmt::format("an axis that a tensor of rank {} does not have", rank)));
}

/// Input i as a vector.
Value vector_in(const Node& node, size_t i) {
  if (node.rank(i) > 1) node.reject("input {} has rank {}, must be a vector", i, node.rank(i));
  const Value numbers = cast_to(as_data(node.in(i)), kInt64);
  return node.rank(i) == 0 ? reshape(numbers, {1}) : numbers;
}

/// The sizes of a tensor's axes as numbers that a run knows.
Values extents_of(const Value& value) {
  Values extents;
  for (const Expr& dim : dims_of(value)) extents.push_back(number_of(dim));
  return extents;
}

}  // namespace

bool is_told_by_run(const Node& node, size_t i) { return node.has(i) && !known(node.in(i)); }

RunAxes::RunAxes(const Node& node, size_t i, int64_t rank) : axes_(checked_axes(vector_in(node, i), rank)) {
  for (int64_t axis = 0; axis < rank; ++axis) {
    places_.push_back(either(is_equal(axes_, integer(axis)), is_equal(axes_, integer(axis - rank))));
    named_.push_back(is_any(places_.back()));
  }
}

std::optional<int64_t> RunAxes::count() const {
  const int64_t* count = as_int(dims_of(axes_)[0]);
  return count ? std::optional(*count) : std::nullopt;
}

void RunAxes::be_all_if_none() {
  const Value none = is_equal(number_of(dims_of(axes_)[0]), integer(0));
  for (Value& named : named_) named = either(named, none);
}

Value RunAxes::of_axis(int64_t axis, const Value& numbers, const Value& otherwise) const {
  const Value own = sum_over(choose(places_[static_cast<size_t>(axis)], numbers, integer(0)), {0}, false);
  return choose(names(axis), own, otherwise);
}

Value reduced_at_run_time(const Value& value, const RunAxes& axes,
                          FunctionRef<Value(const Value&, int64_t)> f) {
  Value result = value;
  for (int64_t axis = 0; axis < axes.rank(); ++axis) {
    // What names the result's sizes is in scope behind the branch, what its sides compute is not.
    OpenDimensions::Scope scope;
    const Value reduced = f(result, axis);
    scope.leave();
    result = branch(axes.names(axis), {reduced}, {result})[0];
  }
  return result;
}

namespace {

/// `value`, where so many axes are named.
Value of_so_many(const Value& value, const RunAxes& axes, int64_t count) {
  Value named = integer(0);
  for (int64_t axis = 0; axis < axes.rank(); ++axis) named = plus(named, cast_to(axes.names(axis), kInt64));
  return emit("require", {value, is_equal(named, integer(count))},
              make<relay::RequireAttrs>(fmt::format(
                  "other than {} axes: the result has not the rank that the file states", count)));
}

}  // namespace

Value without_axes(const Node& node, const Value& given, const RunAxes& axes) {
  Value value = given;
  std::optional<int64_t> count = axes.count();
  if (const auto rank = node.stated_rank(); !count && rank && *rank <= axes.rank()) {
    count = axes.rank() - *rank;
    value = of_so_many(given, axes, *count);
  }
  if (!count)
    node.reject(
        "how many axes it drops must be known when the model is compiled, since the result has as many "
        "dimensions less, and its rank is not stated; input 1 has any number of them");
  if (*count > axes.rank()) node.reject("{} axes of a tensor of rank {}", *count, axes.rank());
  if (*count == axes.rank()) return reshape_to(value, {});
  const Values extents = extents_of(value);
  Values args{value};
  for (int64_t place = 0; place < axes.rank() - *count; ++place) {
    // The axis that as many others stand in front of, of those that stay.
    Value size = integer(0), before = integer(0);
    for (int64_t axis = 0; axis < axes.rank(); ++axis) {
      const Value stays = opposite(axes.names(axis));
      size = choose(both(stays, is_equal(before, integer(place))), extents[static_cast<size_t>(axis)], size);
      before = plus(before, cast_to(stays, kInt64));
    }
    args.push_back(size);
  }
  return emit("reshape_to", args);
}

Value along_run_axis(const Node& node, size_t i, FunctionRef<Value(int64_t)> f) {
  const RunAxes axes(node, i, node.rank(0));
  if (axes.count() != 1) node.reject("input {} has several numbers, must have one", i);
  if (axes.rank() == 0) return node.in(0);
  // What a side computes is not there behind it.
  OpenDimensions::Scope scope;
  Value result = f(0);
  for (int64_t axis = 1; axis < axes.rank(); ++axis)
    result = branch(axes.names(axis), {f(axis)}, {result})[0];
  return result;
}

Values unsqueeze_at_run_time(const Node& node) {
  const int64_t from = node.rank(0);
  const Expr count = node.rank(1) == 0 ? Expr(1) : node.dims(1)[0];
  const auto stated = node.stated_rank();
  if (!as_int(count) && !stated)
    node.reject(
        "how many axes it adds must be known when the model is compiled, since the result has as many "
        "dimensions more, and its rank is not stated; input 1 has any number of them");
  const int64_t rank = as_int(count) ? from + int_value(count) : *stated;
  const RunAxes axes(node, 1, rank);
  const Values extents = extents_of(node.in(0));
  Values args{as_int(count) ? node.in(0) : of_so_many(node.in(0), axes, rank - from)};
  Value before = integer(0);  // axes of the input that stand in front
  for (int64_t place = 0; place < rank; ++place) {
    Value size = integer(1);
    for (int64_t axis = 0; axis < from; ++axis)
      size = choose(is_equal(before, integer(axis)), extents[static_cast<size_t>(axis)], size);
    args.push_back(choose(axes.names(place), integer(1), size));
    before = plus(before, cast_to(opposite(axes.names(place)), kInt64));
  }
  return {emit("reshape_to", args)};
}

}  // namespace lathe::onnx
