// Access to a node's inputs and attributes.
#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

const Value& Node::in(size_t i) const {
  if (!has(i)) reject("input {} is missing", i);
  return inputs_[i];
}

std::vector<int64_t> Node::ints_in(size_t i) const {
  const Tensor* tensor = known(in(i));
  if (!tensor)
    reject("input {} must be known when the model is compiled, it depends on the model's inputs", i);
  std::vector<int64_t> values;
  for (int64_t k = 0; k < tensor->size(); ++k) values.push_back(tensor->integer(k));
  return values;
}

std::vector<double> Node::reals_in(size_t i) const {
  const Tensor* tensor = known(in(i));
  if (!tensor)
    reject("input {} must be known when the model is compiled, it depends on the model's inputs", i);
  std::vector<double> values;
  for (int64_t k = 0; k < tensor->size(); ++k) values.push_back(tensor->value(k));
  return values;
}

const ::onnx::AttributeProto* Node::find(const char* name) const {
  for (const auto& attribute : proto_.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

int64_t Node::integer(const char* name, int64_t otherwise) const {
  const auto* attribute = find(name);
  return attribute ? attribute->i() : otherwise;
}

double Node::real(const char* name, double otherwise) const {
  const auto* attribute = find(name);
  return attribute ? static_cast<double>(attribute->f()) : otherwise;
}

std::string Node::text(const char* name, const std::string& otherwise) const {
  const auto* attribute = find(name);
  return attribute ? attribute->s() : otherwise;
}

std::vector<int64_t> Node::ints(const char* name, std::vector<int64_t> otherwise) const {
  const auto* attribute = find(name);
  if (!attribute) return otherwise;
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::optional<Tensor> Node::tensor(const char* name) const {
  const auto* attribute = find(name);
  if (!attribute || !attribute->has_t()) return std::nullopt;
  return tensor_from(attribute->t(), folder_);
}

int64_t Node::axis(int64_t value, int64_t rank) const {
  if (value < -rank || value >= std::max<int64_t>(rank, 1))
    reject("axis {} of a tensor of rank {}", value, rank);
  return value < 0 ? value + rank : value;
}

}  // namespace lathe::onnx
