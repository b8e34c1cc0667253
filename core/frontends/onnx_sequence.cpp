// Sequences and optionals whose length is known when the model is compiled: a sequence is a tuple, and its
// operators choose among values that there are.
#include <algorithm>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// The items of input i.
Values items(const Node& node, size_t i) {
  const auto* tuple = node.in(i).as<relay::Tuple>();
  if (!tuple || node.in(i) == no_value()) node.reject("input {} is not a sequence", i);
  return tuple->items;
}

/// Input i as a position among `count`; counted from the end when negative.
int64_t position(const Node& node, size_t i, size_t count) {
  const auto size = static_cast<int64_t>(count);
  const int64_t at = node.int_in(i);
  if (at < -size || at >= size) node.reject("position {} of {}", at, size);
  return at < 0 ? at + size : at;
}

Values construct(const Node& node) { return {tuple_of(node.all())}; }

Values empty(const Node&) { return {tuple_of({})}; }

Values insert(const Node& node) {
  Values all = items(node, 0);
  // Before the item at the position, or at the end, which has the number of items for its own.
  const auto end = static_cast<int64_t>(all.size());
  const bool at_end = !node.has(2) || node.int_in(2) == end;
  all.insert(all.begin() + (at_end ? end : position(node, 2, all.size())), node.in(1));
  return {tuple_of(all)};
}

Values erase(const Node& node) {
  Values all = items(node, 0);
  if (all.empty()) node.reject("the sequence is empty");
  all.erase(all.begin() +
            (node.has(1) ? position(node, 1, all.size()) : static_cast<int64_t>(all.size()) - 1));
  return {tuple_of(all)};
}

Values at(const Node& node) {
  Values all = items(node, 0);
  return {all[static_cast<size_t>(position(node, 1, all.size()))]};
}

Values length(const Node& node) {
  return {constant(full({}, kInt64, static_cast<double>(items(node, 0).size())))};
}

/// Without sizes each part is one element along the axis, which vanishes unless keepdims says otherwise.
Values split_to_sequence(const Node& node) {
  const int64_t axis = node.axis(node.integer("axis", 0), node.rank(0)), extent = node.dim(0, axis);
  const bool single = !node.has(1), keep = !single || node.integer("keepdims", 1) != 0;
  Ints sizes = single ? Ints{1} : node.ints_in(1);
  // One number is the size of all parts but perhaps the last.
  if (single || node.rank(1) == 0) {
    const int64_t size = sizes[0];
    if (size < 1) node.reject("parts of {} elements", size);
    sizes.assign(static_cast<size_t>(extent / size), size);
    if (extent % size) sizes.push_back(extent % size);
  }
  Values parts;
  for (int64_t begin = 0; int64_t size : sizes) {
    Value part = sliced(node.in(0), axis, begin, begin + size);
    std::vector<Expr> shape = dims_of(part);
    if (!keep) shape.erase(shape.begin() + axis);
    parts.push_back(reshape_to(part, shape));
    begin += size;
  }
  return {tuple_of(parts)};
}

Values concat_from_sequence(const Node& node) {
  Values all = items(node, 0);
  if (all.empty()) node.reject("the sequence is empty");
  const bool stack = node.integer("new_axis", 0) != 0;
  const int64_t axis = node.axis(node.integer("axis", 0),
                                 static_cast<int64_t>(type_of(all[0]).shape.size()) + (stack ? 1 : 0));
  for (Value& each : all)
    if (stack) {
      std::vector<Expr> shape = dims_of(each);
      shape.insert(shape.begin() + axis, Expr(1));
      each = reshape_to(each, shape);
    }
  return {concatenated(all, axis)};
}

/// The body for each item; further inputs give it an item each if they are sequences, else the same tensor.
Values sequence_map(const Node& node) {
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
  if (node.in(0) == no_value()) node.reject("the optional has no value");
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
