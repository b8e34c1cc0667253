#include "core/frontends/onnx_run_sizes.h"

#include <limits>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_axes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_vision.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Dims = std::vector<Expr>;

Value larger(const Value& a, const Value& b) { return emit("maximum", {a, b}); }
Value smaller(const Value& a, const Value& b) { return emit("minimum", {a, b}); }
Value quotient(const Value& a, const Value& b) { return emit("floor_divide", {a, b}); }
Value remainder(const Value& a, const Value& b) { return emit("floor_mod", {a, b}); }
Value is_true(const Value& value) { return emit("not_equal", {value, number(value, 0)}); }

Value scattered(const Value& into, const Value& places, const Value& updates, const char* reduction) {
  return emit("scatter_elements", {into, places, updates},
              make<relay::ScatterElementsAttrs>(int64_t{0}, std::string(reduction)));
}
Value sorted_places(const Value& x, int64_t axis, bool ascending) {
  return emit("argsort", {x}, make<relay::SortAttrs>(axis, ascending, kInt64));
}
Value running_sum(const Value& x) {
  return emit("cumsum", {x},
              make<relay::ScanAttrs>(std::optional<int64_t>(0), std::optional<DataType>(kInt64)));
}
Value places_below(const Value& length) {
  return emit("arange_like", {length}, make<relay::DtypeAttrs>(kInt64));
}

/// A tensor of the shape that the numbers say, whose elements are of no interest.
Value shaped_at_run_time(const Values& sizes) { return emit("zeros_of", sizes); }

}  // namespace

bool is_known(const Value& value) { return known(value) != nullptr; }

Value counted_at_run_time(const Value& count) { return places_below(zeros_of(larger(count, integer(0)))); }

std::optional<KnownElement> known_element(const Value& vector, int64_t i) {
  if (const Tensor* tensor = known(vector)) return KnownElement{*tensor, i};
  const auto* call = vector.as<relay::Call>();
  const auto* op = call ? call->callee.as<relay::OpNode>() : nullptr;
  const auto* parts = op && op->name == "concatenate" ? call->args[0].as<relay::Tuple>() : nullptr;
  if (!parts) return {};
  for (const Value& part : parts->items) {
    const int64_t* length = as_int(dims_of(part)[0]);
    if (!length) return {};
    if (i < *length) return known_element(part, i);
    i -= *length;
  }
  return {};
}

Values numbers_in(const Node& node, size_t i, std::optional<int64_t> told) {
  if (node.rank(i) > 1) node.reject("input {} has rank {}, must be a vector", i, node.rank(i));
  if (node.dtype(i).is_float())
    node.reject("input {} is of type {}, must be integers", i, to_string(node.dtype(i)));
  const bool tells = node.rank(i) == 0 || as_int(node.dims(i)[0]) || !told;
  const int64_t count = node.rank(i) == 0 ? 1 : tells ? node.dim(i, 0) : *told;
  if (count > Node::kMostDims)
    node.reject("input {} has {} numbers, must have {} at most", i, count, Node::kMostDims);
  const Value data = cast_to(as_data(node.in(i)), kInt64);
  const Value vector = tells ? reshape(data, {count}) : with_dims(data, {count});
  Values numbers;
  for (int64_t k = 0; k < count; ++k) numbers.push_back(taken(vector, integer(k), 0));
  return numbers;
}

Dims sizes_at_run_time(const Node& node, size_t i) {
  const Values numbers = numbers_in(node, i);
  Dims sizes;
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (const auto size = known_element(node.in(i), static_cast<int64_t>(k))) {
      sizes.push_back(OpenDimensions::current()->dim(size->tensor.integer(size->place)));
      continue;
    }
    const Value places = counted_at_run_time(numbers[k]);
    OpenDimensions::current()->learn_from(places);
    sizes.push_back(dims_of(places)[0]);
  }
  return sizes;
}

Dims sizes_of(const Node& node, size_t i) {
  return known(node.in(i)) ? node.sizes_in(i) : sizes_at_run_time(node, i);
}

Expr size_in(const Node& node, size_t i) {
  const Dims sizes = sizes_of(node, i);
  if (sizes.size() != 1) node.reject("input {} has {} numbers, must have one", i, sizes.size());
  return sizes[0];
}

/// Each goes to its place, as many places on as there are before it; all others go one behind all.
Value positions_of(const Value& flags) {
  const Expr length = dims_of(flags).at(0);
  const Value is = cast_to(flags, kInt64), last = number_of(length);
  const Value to = choose(flags, minus(running_sum(is), integer(1)), last);
  const Value room = repeated_to(integer(0), {simplify(length + 1)});
  const Value all = scattered(room, to, counted_to(length), "update");
  return first_rows(all, emit("sum", {is}, make<relay::ReduceAttrs>(std::optional<Ints>(Ints{0}), false)));
}

/// The coordinates of the elements that are not 0, one column an element.
Values non_zero_at_run_time(const Node& node) {
  const Dims& shape = node.dims(0);
  const Value flat = reshape_to(node.in(0), {elements_of(shape)});
  const Value places = positions_of(node.dtype(0) == kBool ? flat : is_true(flat));
  const Expr count = dims_of(places)[0];
  // Of a scalar there are no coordinates: none of the rows of one.
  if (shape.empty()) return {taken(reshape_to(places, {1, count}), int_constant({}), 0)};
  Values rows;
  for (size_t d = 0; d < shape.size(); ++d) {
    Value row = quotient(places, number_of(elements_of(std::span(shape).subspan(d + 1))));
    if (d > 0) row = remainder(row, number_of(shape[d]));
    rows.push_back(reshape_to(row, {1, count}));
  }
  return {concatenated(rows, 0)};
}

namespace {

/// Whether two tensors are equal, element by element; a NaN is equal to another.
Value are_equal(const Value& a, const Value& b) {
  const Value equal = emit("equal", {a, b});
  if (!type_of(a).dtype.is_float()) return equal;
  return emit("logical_or", {equal, emit("logical_and", {emit("isnan", {a}), emit("isnan", {b})})});
}

/// The order of the rows of a matrix, by their first elements, then the second, ...: sorted by the last
/// first, since a sort keeps the order of equals.
Value order_of_rows(const Value& rows, const Expr& width) {
  const Value all = counted_to(dims_of(rows)[0]);
  const auto by_column = [&](const Value& order, const Value& column) {
    const Value keys = taken(taken(rows, column, 1), order, 0);
    return taken(order, sorted_places(keys, 0, true), 0);
  };
  // More than these, or any number, are a loop of the program.
  constexpr int64_t kFewColumns = 64;
  if (!as_int(width) || int_value(width) > kFewColumns) {
    const auto next = [&](const Values& state) {
      return Values{minus(state[0], integer(1)), by_column(state[1], state[0])};
    };
    return loop_while(
        {minus(number_of(width), integer(1)), all},
        [](const Values& state) {
          return emit("less_equal", {integer(0), state[0]});
        },
        next)[1];
  }
  Value order = all;
  for (int64_t column = int_value(width); column-- > 0;) order = by_column(order, integer(column));
  return order;
}

}  // namespace

/// Slices along the axis are rows of a matrix. Sorted, equal ones follow each other, the first in the order
/// of the input first.
Values unique_at_run_time(const Node& node) {
  const bool flat = !node.has_attr("axis");
  const int64_t axis = flat ? 0 : node.axis(node.integer("axis", 0), node.rank(0));
  Ints front;  // the axis in front of the others
  Dims shape;
  if (flat) {
    shape = {elements_of(node.dims(0))};
  } else {
    front.push_back(axis);
    for (int64_t d = 0; d < node.rank(0); ++d)
      if (d != axis) front.push_back(d);
    for (int64_t d : front) shape.push_back(node.dims(0)[static_cast<size_t>(d)]);
  }
  const Value moved = flat ? reshape_to(node.in(0), shape) : transposed(node.in(0), front);
  const Expr width = elements_of(std::span(shape).subspan(1)), length = shape[0];
  const Value rows = reshape_to(moved, {length, width});
  const Value order = order_of_rows(rows, width), sorted = taken(rows, order, 0);

  const Value places = counted_to(length);
  const Value before = taken(sorted, larger(minus(places, integer(1)), integer(0)), 0);
  const Value repeats = emit("all", {are_equal(sorted, before)}, make<relay::ReduceAttrs>(Ints{1}, false));
  const Value first =
      emit("logical_or", {emit("equal", {places, integer(0)}), emit("logical_not", {repeats})});
  const Value group = minus(running_sum(cast_to(first, kInt64)), integer(1));
  Value firsts = taken(order, positions_of(first), 0);
  const Expr count = dims_of(firsts)[0];
  Value inverse = scattered(repeated_to(integer(0), {length}), order, group, "update");
  Value counts = scattered(repeated_to(integer(0), {count}), group, repeated_to(integer(1), {length}), "add");
  if (node.integer("sorted", 1) == 0) {
    const Value by_first = sorted_places(firsts, 0, true);
    firsts = taken(firsts, by_first, 0), counts = taken(counts, by_first, 0);
    inverse = taken(sorted_places(by_first, 0, true), inverse, 0);
  }
  Value values = taken(moved, firsts, 0);
  if (!flat) {
    Ints back(front.size());
    for (size_t d = 0; d < front.size(); ++d) back[static_cast<size_t>(front[d])] = static_cast<int64_t>(d);
    values = transposed(values, back);
  }
  return {values, firsts, inverse, counts};
}

/// (batch, class, box) of what `best` tells of each class, where that is known: -1 is no box.
Value rows_of_chosen(const Tensor& best) {
  const int64_t classes = best.shape()[1], each = best.shape()[2];
  Ints rows;
  for (int64_t i = 0; i < best.size(); ++i)
    if (best.integer(i) >= 0)
      rows.insert(rows.end(), {i / each / classes, i / each % classes, best.integer(i)});
  const auto count = static_cast<int64_t>(rows.size()) / 3;
  return constant(tensor_of(rows, {count, 3}, kInt64));
}

/// (batch, class, box) of the boxes kept: of each class the best first, without those that overlap a better
/// one.
Values non_max_suppression(const Node& node) {
  if (node.rank(0) != 3 || node.rank(1) != 3) node.reject("boxes and scores must be of rank 3");
  const Expr batch = node.dims(1)[0], classes = node.dims(1)[1], count = node.dims(1)[2];
  const Value boxes = with_dims(node.in(0), {batch, count, 4}), scores = node.in(1);
  const Value least = node.has(4) ? reshape(node.in(4), {})
                                  : scalar(type_of(scores).dtype, std::numeric_limits<double>::quiet_NaN());
  const Value limit = node.has(2) ? reshape(cast_to(node.in(2), kInt64), {}) : integer(0);
  const Value overlap = node.has(3) ? reshape(node.in(3), {}) : scalar(type_of(boxes).dtype, 0);
  // Places for so many where that is known and few.
  constexpr int64_t kMost = 4096;
  const Tensor* known_limit = node.has(2) ? known(node.in(2)) : nullptr;
  int64_t most = known_limit && known_limit->size() == 1 ? known_limit->integer(0) : 0;
  if (most > kMost || (as_int(count) && most >= int_value(count))) most = 0;
  const Value best =
      emit("vision.best_boxes", {boxes, scores, least, limit, overlap},
           make<relay::BestBoxesAttrs>(node.integer("center_point_box", 0) != 0, std::max<int64_t>(most, 0)));
  if (const Tensor* chosen = known(best)) return {rows_of_chosen(*chosen)};
  const Expr each = dims_of(best)[2], all = elements_of(Dims{batch, classes, each});
  const Value places = positions_of(reshape_to(emit("greater_equal", {best, integer(0)}), {all}));
  const Dims column{dims_of(places)[0], 1};
  const Value per_class = number_of(each), per_batch = number_of(elements_of(Dims{classes, each}));
  const Value chosen = taken(reshape_to(best, {all}), places, 0);
  return {concatenated(
      {reshape_to(quotient(places, per_batch), column),
       reshape_to(quotient(remainder(places, per_batch), per_class), column), reshape_to(chosen, column)},
      1)};
}

/// Slices along an axis (of the flattened tensor without one) where booleans say so.
Values compress_at_run_time(const Node& node) {
  const Value data = node.has_attr("axis") ? node.in(0) : reshape_to(node.in(0), {elements_of(node.dims(0))});
  const int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(dims_of(data).size()));
  if (node.rank(1) != 1) node.reject("a condition of rank {}, must be a vector", node.rank(1));
  const Expr extent = dims_of(data)[static_cast<size_t>(axis)], count = node.dims(1)[0];
  if (as_int(extent) && as_int(count) && int_value(count) > int_value(extent))
    node.reject("{} conditions for {} elements", int_value(count), int_value(extent));
  Value flags = node.in(1);
  if (!OpenDimensions::current()->is_at_most(count, extent))
    flags = emit("require", {flags, emit("less_equal", {number_of(count), number_of(extent)})},
                 make<relay::RequireAttrs>(std::string("more conditions than elements")));
  return {taken(data, positions_of(flags), axis)};
}

Values top_at_run_time(const Node& node) {
  const int64_t axis = node.axis(node.integer("axis", -1), node.rank(0));
  const auto attrs =
      make<relay::TopkAttrs>(int64_t{1}, axis, std::string("both"), node.integer("largest", 1) == 0, kInt64);
  const Value both = emit("topk_like", {node.in(0), of_shape({size_in(node, 1)})}, attrs);
  return {field_of(both, 0), field_of(both, 1)};
}

/// start, start + delta, ... before the limit.
Values range_at_run_time(const Node& node) {
  Values bounds;
  for (size_t i = 0; i < 3; ++i) bounds.push_back(reshape(as_data(node.in(i)), {}));
  // Rounded up: of real numbers in float64, as where they are known when the model is compiled; exact for
  // integers.
  Values wide;
  for (const Value& bound : bounds)
    wide.push_back(node.dtype(0).is_float() ? cast_to(bound, kFloat64) : bound);
  const Value span = minus(wide[1], wide[0]);
  const Value count = node.dtype(0).is_float()
                          ? emit("ceil", {over(span, wide[2])})
                          : minus(number(span, 0), quotient(minus(number(span, 0), span), wide[2]));
  const Value places = cast_to(counted_at_run_time(cast_to(count, kInt64)), node.dtype(0));
  return {plus(times(places, bounds[2]), bounds[0])};
}

namespace {

/// start:end:step along an axis.
Value sliced_at_run_time(const Value& value, int64_t axis, const Value& start, const Value& stop,
                         const Value& step) {
  const Value extent = number_of(dims_of(value)[static_cast<size_t>(axis)]), zero = integer(0);
  const Value forward = less(zero, step);
  const Value high = choose(forward, extent, minus(extent, integer(1)));
  auto position = [&](const Value& at, const Value& low) {
    return smaller(larger(choose(less(at, zero), plus(at, extent), at), low), high);
  };
  // Backwards the end may be one before the front, the begin not.
  const Value begin = position(start, zero), end = position(stop, choose(forward, zero, integer(-1)));
  const Value count = minus(zero, quotient(minus(begin, end), step));
  return taken(value, plus(times(counted_at_run_time(count), step), begin), axis);
}

/// Of axes that a run names, as many as there are starts: all others are taken whole.
Values slice_of_run_axes(const Node& node) {
  const RunAxes axes(node, 3, node.rank(0));
  auto of_axis = [&](int64_t axis, size_t i, const Value& otherwise) {
    return axes.of_axis(axis, cast_to(as_data(node.in(i)), kInt64), otherwise);
  };
  Value value = node.in(0);
  for (int64_t axis = 0; axis < axes.rank(); ++axis) {
    const Value all = number_of(node.dims(0)[static_cast<size_t>(axis)]);
    const Value step = node.has(4) ? of_axis(axis, 4, integer(1)) : integer(1);
    value = sliced_at_run_time(value, axis, of_axis(axis, 1, integer(0)), of_axis(axis, 2, all), step);
  }
  return {value};
}

}  // namespace

/// Along each axis in turn.
Values slice_at_run_time(const Node& node) {
  if (is_told_by_run(node, 3)) return slice_of_run_axes(node);
  std::optional<int64_t> named;
  if (node.has(3)) named = static_cast<int64_t>(node.ints_in(3).size());
  const Values starts = numbers_in(node, 1, named), ends = numbers_in(node, 2, named);
  Ints axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3)) axes = node.ints_in(3);
  const Values steps = node.has(4) ? numbers_in(node, 4, named) : Values(starts.size(), integer(1));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    node.reject("starts, ends, axes and steps differ in length");
  Value value = node.in(0);
  for (size_t i = 0; i < axes.size(); ++i)
    value = sliced_at_run_time(value, node.axis(axes[i], node.rank(0)), starts[i], ends[i], steps[i]);
  return {value};
}

Values reshape_at_run_time(const Node& node) {
  Values sizes = numbers_in(node, 1, node.stated_rank());
  const Dims& from = node.dims(0);
  Value product = integer(1);
  for (size_t i = 0; i < sizes.size(); ++i) {
    // 0 copies the input's dimension at the same place.
    if (i < from.size() && node.integer("allowzero", 0) == 0)
      sizes[i] = choose(emit("equal", {sizes[i], integer(0)}), number_of(from[i]), sizes[i]);
    product = times(product, choose(less(sizes[i], integer(0)), integer(1), sizes[i]));
  }
  // -1 is what is left.
  const Value rest = quotient(number_of(elements_of(from)), larger(product, integer(1)));
  Values args{node.in(0)};
  for (const Value& size : sizes) args.push_back(choose(less(size, integer(0)), rest, size));
  return {emit("reshape_to", args)};
}

Values expand_at_run_time(const Node& node) {
  Values sizes = numbers_in(node, 1);
  const Dims& from = node.dims(0);
  while (sizes.size() < from.size()) sizes.insert(sizes.begin(), integer(1));
  // Expand broadcasts both ways: a 1 asked for leaves a larger dimension as it is.
  for (size_t i = 0; i < from.size(); ++i) {
    Value& size = sizes[sizes.size() - from.size() + i];
    if (!is_int(from[i], 1)) size = choose(emit("equal", {size, integer(1)}), number_of(from[i]), size);
  }
  return {emit("broadcast_to_like", {node.in(0), shaped_at_run_time(sizes)})};
}

Values constant_of_shape_at_run_time(const Node& node) {
  const auto value = node.tensor("value");
  if (value && value->size() != 1) node.reject("value has {} numbers, must have one", value->size());
  const Value element = value ? constant(value->reshaped({})) : scalar(kFloat32, 0);
  return {emit("broadcast_to_like", {element, shaped_at_run_time(numbers_in(node, 0, node.stated_rank()))})};
}

Values tile_at_run_time(const Node& node) {
  const Values counts = numbers_in(node, 1, node.rank(0));
  if (static_cast<int64_t>(counts.size()) != node.rank(0))
    node.reject("{} counts for rank {}", counts.size(), node.rank(0));
  Value value = node.in(0);
  for (size_t d = 0; d < counts.size(); ++d) {
    // However often, nothing stays nothing.
    if (is_int(node.dims(0)[d], 0)) continue;
    const Value extent = number_of(node.dims(0)[d]);
    const Value places = counted_at_run_time(times(extent, counts[d]));
    value = taken(value, remainder(places, extent), static_cast<int64_t>(d));
  }
  return {value};
}

namespace {

/// Elements before and behind those of an axis; negative ones cut off.
struct Pads {
  Value before, behind;
};

/// Of each axis of input 0.
std::vector<Pads> pads_in(const Node& node) {
  std::vector<Pads> pads(static_cast<size_t>(node.rank(0)), {integer(0), integer(0)});
  if (is_told_by_run(node, 3)) {
    const RunAxes axes(node, 3, node.rank(0));
    const Value numbers = cast_to(as_data(node.in(1)), kInt64);
    const Value both = reshape_to(numbers, {2, node.rank(3) == 0 ? Expr(1) : node.dims(3)[0]});
    for (int64_t axis = 0; axis < node.rank(0); ++axis)
      pads[static_cast<size_t>(axis)] = {axes.of_axis(axis, row_of(both, integer(0)), integer(0)),
                                         axes.of_axis(axis, row_of(both, integer(1)), integer(0))};
    return pads;
  }
  Ints axes(pads.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has(3)) axes = node.ints_in(3);
  const Values numbers = numbers_in(node, 1, 2 * static_cast<int64_t>(axes.size()));
  if (numbers.size() != 2 * axes.size())
    node.reject("pads has {} numbers for {} axes", numbers.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    pads[static_cast<size_t>(node.axis(axes[i], node.rank(0)))] = {numbers[i], numbers[axes.size() + i]};
  return pads;
}

}  // namespace

/// Each axis in turn: positions from before the front on, and where they lie outside the fill, or what the
/// mode says.
Values pad_at_run_time(const Node& node) {
  const std::string mode = node.text("mode", "constant");
  const std::vector<Pads> pads = pads_in(node);
  const Value fill = node.has(2) ? cast_to(reshape(node.in(2), {}), node.dtype(0)) : scalar(node.dtype(0), 0);
  Value value = node.in(0);
  for (size_t d = 0; d < pads.size(); ++d) {
    const auto& [before, behind] = pads[d];
    auto is_nothing = [](const Value& pad) { return known(pad) && known(pad)->integer(0) == 0; };
    if (is_nothing(before) && is_nothing(behind)) continue;
    const Value count = plus(plus(before, number_of(node.dims(0)[d])), behind);
    const Value places = minus(counted_at_run_time(count), before);
    value = padded_at(node, value, places, static_cast<int64_t>(d), mode, fill);
  }
  return {value};
}

Value padded_at(const Node& node, const Value& value, const Value& places, int64_t axis,
                const std::string& mode, const Value& fill) {
  const Value size = number_of(dims_of(value)[static_cast<size_t>(axis)]), zero = integer(0),
              last = minus(size, integer(1));
  if (mode == "edge") return taken(value, smaller(larger(places, zero), last), axis);
  if (mode == "wrap") return taken(value, remainder(places, size), axis);
  if (mode == "reflect") {
    // Back and forth between both ends.
    const Value period = larger(plus(last, last), integer(1)), there = remainder(places, period);
    return taken(value, smaller(there, minus(period, there)), axis);
  }
  if (mode != "constant") node.reject("mode `{}` is unknown", mode);
  const Value inside = emit("logical_and", {emit("less_equal", {zero, places}), less(places, size)});
  // Of what may have no elements none is taken: a row of the fill stands behind it.
  if (!OpenDimensions::current()->is_at_most(1, dims_of(value)[static_cast<size_t>(axis)]))
    return taken(padded_along(value, axis, 0, 1, fill), choose(inside, places, size), axis);
  Dims along(dims_of(value).size(), Expr(1));
  along[static_cast<size_t>(axis)] = dims_of(places)[0];
  return choose(reshape_to(inside, along), taken(value, places, axis), fill);
}

}  // namespace lathe::onnx
