#include "core/frontends/onnx_inputs.h"

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {
namespace {

/// The type of what an optional holds, or the type itself.
const ::onnx::TypeProto& held_type(const ::onnx::TypeProto& type) {
  return type.has_optional_type() ? type.optional_type().elem_type() : type;
}

/// The items of a sequence side by side along a new first axis, of which the file says nothing. Where it says
/// nothing of the items' shape either, the shape that is given has to.
::onnx::TypeProto rows_of(const ::onnx::TypeProto& item) {
  ::onnx::TypeProto rows = item;
  if (!item.has_tensor_type() || !item.tensor_type().has_shape()) return rows;
  auto& dims = *rows.mutable_tensor_type()->mutable_shape()->mutable_dim();
  dims.Clear();
  dims.Add();
  for (const auto& dim : item.tensor_type().shape().dim()) *dims.Add() = dim;
  return rows;
}

}  // namespace

ValueInfo declared(const ::onnx::ValueInfoProto& input, const std::string& model) {
  if (!input.type().has_tensor_type()) fail("{}: input `{}` is not a tensor", model, input.name());
  ValueInfo value{input.name(), {}, {}};
  try {
    value.dtype = dtype_from(input.type().tensor_type().elem_type());
  } catch (const Error& e) {
    fail("{}: input `{}`: {}", model, input.name(), e.what());
  }
  int64_t elements = 1;
  for (const auto& dim : input.type().tensor_type().shape().dim()) {
    value.shape.push_back(dim.has_dim_value() && dim.dim_value() >= 0 ? dim.dim_value() : -1);
    // Open dimensions count as 1 until they are settled.
    if (__builtin_mul_overflow(elements, std::max<int64_t>(value.shape.back(), 1), &elements) ||
        elements > Node::kLargest)
      fail("{}: input `{}`: its shape is out of range", model, value.name);
  }
  return value;
}

ValueInfo declared_value(const ::onnx::ValueInfoProto& value, const std::string& model) {
  const ::onnx::TypeProto& held = held_type(value.type());
  ::onnx::ValueInfoProto tensor = value;
  *tensor.mutable_type() = held.has_sequence_type() ? held.sequence_type().elem_type() : held;
  ValueInfo info = declared(tensor, model);
  info.sequence = held.has_sequence_type();
  info.optional = value.type().has_optional_type();
  return info;
}

HeldInputs take_apart_inputs(::onnx::GraphProto& graph, const ImportOptions& options,
                             const std::string& model) {
  HeldInputs result;
  google::protobuf::RepeatedPtrField<::onnx::ValueInfoProto> tensors;
  for (const auto& input : graph.input()) {
    const ::onnx::TypeProto& held = held_type(input.type());
    const bool empty = options.empty.count(input.name()) > 0;
    if (held.has_sequence_type()) {
      const ::onnx::TypeProto& item = held.sequence_type().elem_type();
      std::vector<std::string> items;
      for (std::string name; !empty;) {
        name = fmt::format("{}.{}", input.name(), items.size());
        if (!options.shapes.count(name)) break;
        items.push_back(name);
        tensors.Add()->set_name(name);
        *tensors.rbegin()->mutable_type() = item;
        // Items may differ in shape: a dimension's name says nothing about other items.
        if (auto* tensor = tensors.rbegin()->mutable_type()->mutable_tensor_type(); tensor->has_shape())
          for (auto& dim : *tensor->mutable_shape()->mutable_dim()) dim.clear_dim_param();
      }
      if (!items.empty() || empty) {
        result[input.name()] = {HeldInput::Form::kItems, std::move(items)};
        continue;
      }
      if (!options.shapes.count(input.name()) &&
          !(options.keeps_open && options.keeps_open(fmt::format("{}.0", input.name()))))
        fail(
            "{0}: input `{1}` is a sequence of as many items as are given shapes: --shape {1}.0=2x3, {1}.1, "
            "...; or of one shape, as one tensor: --shape {1}=7x2x3, --open {1}.0",
            model, input.name());
      result[input.name()] = {HeldInput::Form::kRows};
      *tensors.Add() = input;
      *tensors.rbegin()->mutable_type() = rows_of(item);
    } else if (input.type().has_optional_type() && empty) {
      result[input.name()] = {HeldInput::Form::kNoValue};
    } else {
      *tensors.Add() = input;
      *tensors.rbegin()->mutable_type() = held;
    }
  }
  graph.mutable_input()->Swap(&tensors);
  return result;
}

void forget_sizes(::onnx::GraphProto& graph) {
  const std::set<std::string> initialized = constants_of(graph);
  for (auto& input : *graph.mutable_input()) {
    if (initialized.count(input.name()) || !input.type().has_tensor_type()) continue;
    auto& type = *input.mutable_type()->mutable_tensor_type();
    if (!type.has_shape() || (type.shape().dim_size() == 1 && !dtype_from(type.elem_type()).is_float()))
      continue;
    for (auto& dim : *type.mutable_shape()->mutable_dim())
      if (dim.has_dim_value() && dim.dim_value() != 1) dim.set_dim_param(fmt::format("d{}", dim.dim_value()));
  }
}

std::set<std::string> constants_of(const ::onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& each : graph.initializer()) names.insert(each.name());
  for (const auto& each : graph.sparse_initializer()) names.insert(each.values().name());
  return names;
}

}  // namespace lathe::onnx
