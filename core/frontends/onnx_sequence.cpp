// Sequences and optionals. A sequence whose length is known when the model is compiled is a tuple, and its
// operators choose among values that there are; else it is a list of the program.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_branches.h"
#include "core/frontends/onnx_lists.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// The items of input i.
Values items(const Node& node, size_t i) {
  const auto* tuple = node.in(i).as<relay::Tuple>();
  if (!tuple || node.in(i) == no_value()) node.reject("input {} is not a sequence", i);
  return tuple->items;
}

/// Whether input i is a list, or a tuple of which a position is asked for that only a run knows.
bool needs_list(const Node& node, size_t i, size_t position) {
  return is_list(node.in(i)) ||
         (node.has(position) && (!known(node.in(position)) || holds_handles(node.in(position))));
}

/// Input i as a list.
Value list_in(const Node& node, size_t i) {
  if (is_list(node.in(i))) return node.in(i);
  const relay::Type item = items(node, i).empty() ? nullptr : common_item_type({node.in(i)});
  if (!item) node.reject("input {} has no items, or such of several types: a position must be known", i);
  return as_list(node.in(i), item);
}

/// Input i as a position among `count`; counted from the end when negative.
int64_t position(const Node& node, size_t i, size_t count) {
  const auto size = static_cast<int64_t>(count);
  const int64_t at = node.int_in(i);
  if (at < -size || at >= size) throw NoElement(fmt::format("position {} of {}", at, size));
  return at < 0 ? at + size : at;
}

Values construct(const Node& node) { return {tuple_of(node.all())}; }

Values empty(const Node&) { return {tuple_of({})}; }

Values insert(const Node& node) {
  if (needs_list(node, 0, 2)) {
    const bool is_first = !is_list(node.in(0)) && items(node, 0).empty();
    const Value list =
        is_first ? as_list(node.in(0), with_told_sizes(node.in(1)->checked_type)) : list_in(node, 0);
    return {node.has(2) ? with_item_at(list, node.in(2), node.in(1)) : with_last(list, node.in(1))};
  }
  Values all = items(node, 0);
  // Before the item at the position, or at the end, which has the number of items for its own.
  const auto end = static_cast<int64_t>(all.size());
  const bool at_end = !node.has(2) || node.int_in(2) == end;
  all.insert(all.begin() + (at_end ? end : position(node, 2, all.size())), node.in(1));
  return {tuple_of(all)};
}

Values erase(const Node& node) {
  if (needs_list(node, 0, 1))
    return {without_item_at(list_in(node, 0), node.has(1) ? node.in(1) : scalar(kInt64, -1))};
  Values all = items(node, 0);
  if (all.empty()) throw NoElement("the sequence is empty");
  all.erase(all.begin() +
            (node.has(1) ? position(node, 1, all.size()) : static_cast<int64_t>(all.size()) - 1));
  return {tuple_of(all)};
}

Values at(const Node& node) {
  if (needs_list(node, 0, 1)) return {item_at(list_in(node, 0), node.in(1))};
  Values all = items(node, 0);
  return {all[static_cast<size_t>(position(node, 1, all.size()))]};
}

Values length(const Node& node) {
  if (is_list(node.in(0))) return {length_of(node.in(0))};
  return {constant(full({}, kInt64, static_cast<double>(items(node, 0).size())))};
}

/// Elements begin, begin + 1, ... along the axis, which vanishes where it need not be kept.
Value part_of(const Value& value, int64_t axis, const Value& begin, const Value& length, bool keep) {
  const Tensor* known_length = known(length);
  const Value offsets =
      known_length && known_length->integer(0) == 1
          ? int_constant({0})
          : emit("arange_like", {with_named_sizes(zeros_of(length))}, make<relay::DtypeAttrs>(kInt64));
  const Value part = taken(value, plus(offsets, begin), axis);
  std::vector<Expr> shape = dims_of(part);
  if (!keep) shape.erase(shape.begin() + axis);
  return reshape_to(part, shape);
}

/// Parts of `size` elements, but perhaps the last: of a length, or a size, that only a run tells.
Value list_of_slices(const Value& value, int64_t axis, const Value& size, bool keep) {
  const Value end = number_of(dims_of(value)[static_cast<size_t>(axis)]);
  const Value more = minus(size, integer(1)), count = emit("floor_divide", {plus(end, more), size});
  return list_of_parts(count, [&](const Value& i) {
    const Value begin = times(i, size);
    // One element is there in each part.
    const bool single = known(size) && known(size)->integer(0) == 1;
    return part_of(value, axis, begin, single ? size : emit("minimum", {size, minus(end, begin)}), keep);
  });
}

/// Parts of any number of sizes, which must add up to the axis.
Value list_of_sizes(const Value& value, int64_t axis, const Value& sizes) {
  const Value all = sum_over(sizes, {0}, false), end = number_of(dims_of(value)[static_cast<size_t>(axis)]);
  const Value checked = emit("require", {sizes, emit("equal", {all, end})},
                             make<relay::RequireAttrs>(std::string("sizes that do not add up to the axis")));
  const Value ends = emit("cumsum", {checked},
                          make<relay::ScanAttrs>(std::optional<int64_t>(0), std::optional<DataType>(kInt64)));
  return list_of_parts(number_of(dims_of(sizes)[0]), [&](const Value& i) {
    const Value size = row_of(checked, i);
    return part_of(value, axis, minus(row_of(ends, i), size), size, /*keep=*/true);
  });
}

/// Parts of these sizes.
Values parts_of(const Value& value, int64_t axis, const std::vector<Expr>& sizes, bool keep) {
  Values parts;
  Expr begin(0);
  for (const Expr& size : sizes) {
    Value part = sliced_by(value, axis, {begin, size});
    std::vector<Expr> shape = dims_of(part);
    if (!keep) shape.erase(shape.begin() + axis);
    parts.push_back(reshape_to(part, shape));
    begin = simplify(begin + size);
  }
  return parts;
}

/// Parts of one size, but perhaps the last.
Value parts_of_one_size(const Value& value, int64_t axis, const Value& size, bool keep) {
  const Tensor* number = known(size);
  const Expr extent = dims_of(value)[static_cast<size_t>(axis)];
  if (number && !holds_handles(*number) && number->integer(0) < 1)
    fail("parts of {} elements", number->integer(0));
  if (!number || holds_handles(*number)) {
    const Value data = as_data(size);
    return list_of_slices(value, axis,
                          emit("require", {data, less(integer(0), data)},
                               make<relay::RequireAttrs>(std::string("parts of no elements"))),
                          keep);
  }
  if (!as_int(extent)) return list_of_slices(value, axis, size, keep);
  const int64_t all = int_value(extent), each = number->integer(0);
  std::vector<Expr> sizes(static_cast<size_t>(all / each), Expr(each));
  if (all % each) sizes.emplace_back(all % each);
  return tuple_of(parts_of(value, axis, sizes, keep));
}

/// Without sizes each part is one element along the axis, which vanishes unless keepdims says otherwise.
Values split_to_sequence(const Node& node) {
  const int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (!node.has(1))
    return {parts_of_one_size(node.in(0), axis, integer(1), node.integer("keepdims", 1) != 0)};
  const Value sizes = cast_to(node.in(1), kInt64);
  if (node.rank(1) == 0) return {parts_of_one_size(node.in(0), axis, sizes, /*keep=*/true)};
  if (node.rank(1) != 1) node.reject("input 1 has rank {}, must be a vector or a number", node.rank(1));
  if (!as_int(node.dims(1)[0])) return {list_of_sizes(node.in(0), axis, sizes)};
  const std::vector<Expr> known_sizes = sizes_of(node, 1);
  const Value whole = as_long_as_parts(node.in(0), axis, known_sizes);
  return {tuple_of(parts_of(whole, axis, known_sizes, /*keep=*/true))};
}

Values concat_from_sequence(const Node& node) {
  const bool stack = node.integer("new_axis", 0) != 0;
  auto axis_among = [&](const std::vector<Expr>& shape) {
    return node.axis(node.integer("axis", 0), static_cast<int64_t>(shape.size()) + (stack ? 1 : 0));
  };
  if (is_list(node.in(0))) {
    const int64_t axis = axis_among(item_type(node.in(0)).shape);
    return {joined_items(node.in(0), axis, stack)};
  }
  Values all = items(node, 0);
  if (all.empty()) throw NoElement("the sequence is empty");
  const int64_t axis = axis_among(type_of(all[0]).shape);
  for (Value& each : all)
    if (stack) {
      std::vector<Expr> shape = dims_of(each);
      shape.insert(shape.begin() + axis, Expr(1));
      each = reshape_to(each, shape);
    }
  return {concatenated(all, axis)};
}

/// sequence_map of lists, or of tuples beside them.
Values map_of_lists(const Node& node) {
  Values lists;
  std::vector<bool> is_item;
  for (size_t i = 0; i < node.inputs(); ++i) {
    is_item.push_back(is_sequence(node.in(i)));
    if (is_item.back()) lists.push_back(list_in(node, i));
  }
  return mapped_items(lists, [&](const Values& items) {
    Values inputs;
    for (size_t i = 0, k = 0; i < node.inputs(); ++i) inputs.push_back(is_item[i] ? items[k++] : node.in(i));
    Values outputs = node.run("body", inputs);
    if (outputs.size() != node.outputs()) node.reject("its body has {} outputs", outputs.size());
    for (const Value& output : outputs) type_of(output);
    return outputs;
  });
}

/// The body for each item; further inputs give it an item each if they are sequences, else the same tensor.
Values sequence_map(const Node& node) {
  if (is_list(node.in(0))) return map_of_lists(node);
  std::vector<Values> gathered(node.outputs());
  for (size_t i = 0; i < items(node, 0).size(); ++i) {
    Values inputs;
    for (size_t k = 0; k < node.inputs(); ++k) {
      const bool sequence = node.in(k).as<relay::Tuple>() != nullptr;
      if (sequence && items(node, k).size() <= i) node.reject("input {} is shorter than the first", k);
      inputs.push_back(sequence ? items(node, k)[i] : node.in(k));
    }
    Values outputs = node.run("body", inputs);
    if (outputs.size() != gathered.size()) node.reject("its body has {} outputs", outputs.size());
    for (size_t k = 0; k < outputs.size(); ++k) gathered[k].push_back(outputs[k]);
  }
  Values results;
  for (const Values& each : gathered) results.push_back(tuple_of(each));
  return results;
}

Values optional(const Node& node) { return {node.has(0) ? node.in(0) : no_value()}; }

Values has_element(const Node& node) {
  return {constant(full({}, kBool, node.has(0) && !(node.in(0) == no_value())))};
}

Values get_element(const Node& node) {
  if (node.in(0) == no_value()) throw NoElement("the optional has no value");
  return {node.in(0)};
}

constexpr Converter kConverters[] = {
    {"ConcatFromSequence", concat_from_sequence},
    {"Optional", optional},
    {"OptionalGetElement", get_element},
    {"OptionalHasElement", has_element},
    {"SequenceAt", at},
    {"SequenceConstruct", construct},
    {"SequenceEmpty", empty},
    {"SequenceErase", erase},
    {"SequenceInsert", insert},
    {"SequenceLength", length},
    {"SequenceMap", sequence_map},
    {"SplitToSequence", split_to_sequence},
};
}  // namespace

const Value& no_value() {
  static const auto* value = new Value(tuple_of({}));
  return *value;
}

std::span<const Converter> sequence_converters() { return kConverters; }

}  // namespace lathe::onnx
