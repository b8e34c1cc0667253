// Access to a node's inputs and attributes.
#include <algorithm>
#include <cmath>

#include "core/frontends/onnx_dims.h"

namespace lathe::onnx {

Node Node::as(std::string op, std::vector<Value> inputs, int64_t opset) const {
  Node result = *this;
  result.op_ = std::move(op);
  result.inputs_ = std::move(inputs);
  result.opset_ = opset;
  return result;
}

const Value& Node::in(size_t i) const {
  if (!has(i)) reject("input {} is missing", i);
  return inputs_[i];
}

const std::vector<Value>& Node::all() const {
  for (size_t i = 0; i < inputs_.size(); ++i) in(i);
  return inputs_;
}

const Tensor& Node::known_in(size_t i) const {
  const Tensor* tensor = known(in(i));
  if (!tensor)
    reject("input {} must be known when the model is compiled, it depends on the model's inputs", i);
  if (holds_handles(*tensor))
    reject("input {} depends on a dimension that is open, which this operator does not take yet", i);
  return *tensor;
}

/// Keeps arithmetic on sizes free of overflow, whatever the file holds.
int64_t Node::in_range(int64_t value) const {
  if (value < -kLargest || value > kLargest) reject("{} is out of range", value);
  return value;
}

std::vector<int64_t> Node::ints_in(size_t i) const {
  const Tensor& tensor = known_in(i);
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor.size(); ++k) {
    // Some operators take counts as real numbers. Those that no int64 is, infinity among them, become none.
    if (const double value = tensor.value(k);
        tensor.dtype().is_float() && !(value == std::floor(value) && std::abs(value) <= kLargest))
      reject("input {} holds {}, must be integers", i, value);
    values.push_back(in_range(tensor.integer(k)));
  }
  return values;
}

std::vector<Expr> Node::sizes_in(size_t i) const {
  const Tensor* tensor = known(in(i));
  std::vector<Expr> sizes;
  if (!tensor || !holds_handles(*tensor)) {
    for (int64_t size : ints_in(i)) sizes.emplace_back(size);
    return sizes;
  }
  for (int64_t k = 0; k < tensor->size(); ++k)
    sizes.push_back(OpenDimensions::current()->dim(tensor->integer(k)));
  return sizes;
}

int64_t Node::dim(size_t i, int64_t axis) const {
  if (axis < 0 || axis >= rank(i)) reject("input {} has rank {}, which is too few dimensions", i, rank(i));
  const Expr& extent = type_of(in(i)).shape[static_cast<size_t>(axis)];
  if (!as_int(extent))
    reject("dimension {} of input {} is open, which this operator does not take yet", axis, i);
  return int_value(extent);
}

std::vector<double> Node::reals_in(size_t i) const {
  const Tensor& tensor = known_in(i);
  std::vector<double> values;
  for (int64_t k = 0; k < tensor.size(); ++k) values.push_back(tensor.value(k));
  return values;
}

int64_t Node::int_in(size_t i) const {
  if (int64_t size = known_in(i).size(); size != 1) reject("input {} has {} numbers, must have one", i, size);
  return ints_in(i)[0];
}

double Node::real_in(size_t i) const {
  if (int64_t size = known_in(i).size(); size != 1) reject("input {} has {} numbers, must have one", i, size);
  return reals_in(i)[0];
}

std::vector<int64_t> Node::positions_in(size_t i) const {
  const Tensor& tensor = known_in(i);
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor.size(); ++k)
    values.push_back(std::clamp(tensor.integer(k), -kLargest, kLargest));
  return values;
}

std::vector<Expr> Node::open_positions_in(size_t i) const {
  const Tensor* tensor = known(in(i));
  if (tensor && holds_handles(*tensor)) return sizes_in(i);
  const std::vector<int64_t> positions = positions_in(i);
  return {positions.begin(), positions.end()};
}

const ::onnx::AttributeProto* Node::find(const char* name, Type type) const {
  for (const auto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    // What is not there would read as 0 or as an empty list.
    if (attribute.type() != type)
      reject("attribute {} is of type {}, must be {}", name,
             ::onnx::AttributeProto::AttributeType_Name(attribute.type()),
             ::onnx::AttributeProto::AttributeType_Name(type));
    return &attribute;
  }
  return nullptr;
}

bool Node::has_attr(const char* name) const {
  return std::ranges::any_of(proto_.attribute(), [&](const auto& each) { return each.name() == name; });
}

int64_t Node::position(const char* name, int64_t otherwise) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_INT);
  return attribute ? std::clamp<int64_t>(attribute->i(), -kLargest, kLargest) : otherwise;
}

std::vector<int64_t> Node::positions(const char* name) const {
  std::vector<int64_t> values;
  if (const auto* attribute = find(name, Type::AttributeProto_AttributeType_INTS))
    for (int64_t value : attribute->ints()) values.push_back(std::clamp(value, -kLargest, kLargest));
  return values;
}

int64_t Node::integer(const char* name, int64_t otherwise) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_INT);
  return attribute ? in_range(attribute->i()) : otherwise;
}

double Node::real(const char* name, double otherwise) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_FLOAT);
  return attribute ? static_cast<double>(attribute->f()) : otherwise;
}

std::string Node::text(const char* name, const std::string& otherwise) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_STRING);
  return attribute ? attribute->s() : otherwise;
}

std::vector<int64_t> Node::ints(const char* name, std::vector<int64_t> otherwise) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_INTS);
  if (!attribute) return otherwise;
  std::vector<int64_t> values;
  for (int64_t value : attribute->ints()) values.push_back(in_range(value));
  return values;
}

std::vector<double> Node::reals(const char* name) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_FLOATS);
  if (!attribute) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> Node::texts(const char* name) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_STRINGS);
  if (!attribute) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

const ::onnx::GraphProto& Node::graph(const char* name) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_GRAPH);
  if (!attribute || !attribute->has_g()) reject("attribute {} is no graph", name);
  return attribute->g();
}

std::vector<Value> Node::run(const char* name, const std::vector<Value>& inputs) const {
  return around_.run(graph(name), inputs);
}

relay::Type Node::declared_output(const char* name, size_t i) const {
  const ::onnx::GraphProto& of = graph(name);
  if (i >= static_cast<size_t>(of.output_size())) return nullptr;
  const ::onnx::TypeProto& type = of.output(static_cast<int>(i)).type();
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return nullptr;
  std::vector<Expr> shape;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return nullptr;
    shape.emplace_back(in_range(dim.dim_value()));
  }
  return relay::tensor_type(shape, dtype_from(type.tensor_type().elem_type()));
}

bool Node::may_unroll(const char* name, int64_t steps) const {
  return steps <= kMostSteps && around_.has_room_for(graph(name), steps);
}

std::optional<Tensor> Node::tensor(const char* name) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_TENSOR);
  if (!attribute || !attribute->has_t()) return std::nullopt;
  return tensor_from(attribute->t(), folder_);
}

std::optional<Tensor> Node::sparse_tensor(const char* name) const {
  const auto* attribute = find(name, Type::AttributeProto_AttributeType_SPARSE_TENSOR);
  if (!attribute || !attribute->has_sparse_tensor()) return std::nullopt;
  return tensor_from(attribute->sparse_tensor(), folder_);
}

int64_t Node::axis(int64_t value, int64_t rank) const {
  if (value < -rank || value >= rank) reject("axis {} of a tensor of rank {}", value, rank);
  return value < 0 ? value + rank : value;
}

const std::vector<int64_t>& Node::constant_shape(const std::vector<int64_t>& dims) const {
  int64_t elements = 1;
  for (int64_t dim : dims)
    // Also for shapes that a 0 makes empty later: the product is checked at each step.
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements) || elements > kMostConstant)
      reject("shape {} is out of range", shape_text(dims));
  return dims;
}

}  // namespace lathe::onnx
