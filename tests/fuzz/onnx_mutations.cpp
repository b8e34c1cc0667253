#include "tests/fuzz/onnx_mutations.h"

#include <algorithm>
#include <array>

namespace lathe::fuzz {

using ::onnx::AttributeProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

const std::vector<ModelMutator::Change>& ModelMutator::changes() {
  using M = ModelMutator;
  static const std::vector<Change> kChanges = {&M::change_rank,
                                               &M::change_extent,
                                               &M::open_dimensions,
                                               &M::change_type,
                                               &M::rewire,
                                               &M::make_cycle,
                                               &M::add_operands,
                                               &M::change_outputs,
                                               &M::change_attribute_type,
                                               &M::change_attribute_value,
                                               &M::add_attribute,
                                               &M::remove_attribute,
                                               &M::change_constant,
                                               &M::make_constant,
                                               &M::change_nodes,
                                               &M::change_opset};
  return kChanges;
}

void set_operator(::onnx::NodeProto& node, const std::string& full_name) {
  const size_t dot = full_name.rfind('.');
  node.set_domain(dot == std::string::npos ? "" : full_name.substr(0, dot));
  node.set_op_type(dot == std::string::npos ? full_name : full_name.substr(dot + 1));
}

void ModelMutator::mutate(ModelProto& model) {
  for (uint32_t count = 1 + below(3); count > 0; --count)
    (this->*changes()[below(static_cast<int64_t>(changes().size()))])(model);
}

int64_t ModelMutator::number() {
  constexpr std::array<int64_t, 18> kNumbers = {0,
                                                1,
                                                2,
                                                3,
                                                -1,
                                                -2,
                                                4,
                                                5,
                                                7,
                                                100,
                                                1000,
                                                65537,
                                                INT32_MAX,
                                                int64_t{1} << 31,
                                                int64_t{1} << 40,
                                                int64_t{1} << 62,
                                                INT64_MAX,
                                                INT64_MIN};
  return kNumbers[below(kNumbers.size())];
}

int ModelMutator::element_type() { return static_cast<int>(below(TensorProto::DataType_ARRAYSIZE + 1)); }

NodeProto* ModelMutator::any_node(ModelProto& model) {
  auto& nodes = *model.mutable_graph()->mutable_node();
  return nodes.empty() ? nullptr : &nodes[static_cast<int>(below(nodes.size()))];
}

AttributeProto* ModelMutator::any_attribute(ModelProto& model) {
  std::vector<AttributeProto*> all;
  for (auto& node : *model.mutable_graph()->mutable_node())
    for (auto& attribute : *node.mutable_attribute()) all.push_back(&attribute);
  return all.empty() ? nullptr : all[below(static_cast<int64_t>(all.size()))];
}

::onnx::TypeProto_Tensor* ModelMutator::any_input_type(ModelProto& model) {
  auto& inputs = *model.mutable_graph()->mutable_input();
  if (inputs.empty()) return nullptr;
  return inputs[static_cast<int>(below(inputs.size()))].mutable_type()->mutable_tensor_type();
}

void ModelMutator::change_rank(ModelProto& model) {
  auto* type = any_input_type(model);
  if (!type) return;
  auto& dims = *type->mutable_shape()->mutable_dim();
  if (below(2) && !dims.empty()) return dims.RemoveLast();
  for (uint32_t count = below(8) ? 1 : 70; count > 0; --count) dims.Add()->set_dim_value(below(3));
}

void ModelMutator::change_extent(ModelProto& model) {
  auto* type = any_input_type(model);
  if (!type || type->shape().dim().empty()) return;
  type->mutable_shape()
      ->mutable_dim(static_cast<int>(below(type->shape().dim_size())))
      ->set_dim_value(number());
}

void ModelMutator::open_dimensions(ModelProto& model) {
  auto* type = any_input_type(model);
  if (!type) return;
  for (auto& dim : *type->mutable_shape()->mutable_dim())
    if (below(2)) dim.set_dim_param(below(2) ? "n" : "m");
}

void ModelMutator::change_type(ModelProto& model) {
  auto* type = any_input_type(model);
  if (!type) return;
  if (below(4))
    type->set_elem_type(element_type());
  else
    type->clear_shape();
}

void ModelMutator::rewire(ModelProto& model) {
  NodeProto* node = any_node(model);
  if (!node || node->input().empty()) return;
  const int i = static_cast<int>(below(node->input_size()));
  if (below(3) == 0)
    node->set_input(i, below(2) ? "" : "nowhere");
  else
    node->mutable_input()->SwapElements(i, static_cast<int>(below(node->input_size())));
}

void ModelMutator::make_cycle(ModelProto& model) {
  NodeProto *node = any_node(model), *other = any_node(model);
  if (!node || node->input().empty() || other->output().empty()) return;
  node->set_input(static_cast<int>(below(node->input_size())), other->output(0));
}

void ModelMutator::add_operands(ModelProto& model) {
  NodeProto* node = any_node(model);
  if (!node || node->input().empty()) return;
  for (uint32_t count = 1 + below(3); count > 0; --count)
    node->add_input(below(4) ? std::string(node->input(0)) : "");
}

void ModelMutator::change_outputs(ModelProto& model) {
  NodeProto* node = any_node(model);
  if (!node) return;
  if (below(2))
    node->add_output("another");
  else if (!node->output().empty())
    node->mutable_output()->RemoveLast();
}

void ModelMutator::set_value(AttributeProto& attribute, int type) {
  attribute.set_type(static_cast<AttributeProto::AttributeType>(type));
  const auto real = static_cast<float>(number());
  if (type == AttributeProto::INT) attribute.set_i(number());
  if (type == AttributeProto::FLOAT) attribute.set_f(below(4) ? real : 1 / (real - real));
  if (type == AttributeProto::STRING) attribute.set_s(below(2) ? "reflect" : "\xff?");
  attribute.clear_ints();
  attribute.clear_floats();
  for (uint32_t count = below(5); count > 0; --count) {
    if (type == AttributeProto::INTS) attribute.add_ints(number());
    if (type == AttributeProto::FLOATS) attribute.add_floats(real);
  }
}

void ModelMutator::change_attribute_type(ModelProto& model) {
  if (AttributeProto* attribute = any_attribute(model))
    set_value(*attribute, static_cast<int>(below(AttributeProto::AttributeType_ARRAYSIZE)));
}

void ModelMutator::change_attribute_value(ModelProto& model) {
  AttributeProto* attribute = any_attribute(model);
  if (!attribute) return;
  if (attribute->type() == AttributeProto::INTS && !attribute->ints().empty() && below(2))
    attribute->set_ints(static_cast<int>(below(attribute->ints_size())), number());
  else
    set_value(*attribute, attribute->type());
}

void ModelMutator::add_attribute(ModelProto& model) {
  constexpr std::array<const char*, 20> kNames = {
      "axis",     "axes",     "pads", "strides",    "dilations",   "kernel_shape", "group",
      "mode",     "to",       "perm", "k",          "scales",      "antialias",    "ceil_mode",
      "auto_pad", "keepdims", "size", "block_size", "num_outputs", "hidden_size"};
  NodeProto* node = any_node(model);
  if (!node) return;
  AttributeProto& attribute = *node->add_attribute();
  attribute.set_name(kNames[below(kNames.size())]);
  set_value(attribute, below(2) ? AttributeProto::INT : AttributeProto::INTS);
}

void ModelMutator::remove_attribute(ModelProto& model) {
  NodeProto* node = any_node(model);
  if (node && !node->attribute().empty()) node->mutable_attribute()->RemoveLast();
}

void ModelMutator::change_constant(ModelProto& model) {
  std::vector<TensorProto*> all;
  for (auto& each : *model.mutable_graph()->mutable_initializer()) all.push_back(&each);
  for (auto& node : *model.mutable_graph()->mutable_node())
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_t()) all.push_back(attribute.mutable_t());
  if (all.empty()) return make_constant(model);
  TensorProto& tensor = *all[below(static_cast<int64_t>(all.size()))];
  const uint32_t what = below(4);
  if (what == 0 && !tensor.dims().empty())
    tensor.set_dims(static_cast<int>(below(tensor.dims_size())), number());
  else if (what == 1)
    tensor.set_data_type(element_type());
  else if (what == 2)
    tensor.mutable_raw_data()->resize(tensor.raw_data().size() / 2);
  else
    tensor.add_dims(number());
}

/// An input of numbers that are no sizes, axes or indices.
void ModelMutator::make_constant(ModelProto& model) {
  auto& inputs = model.graph().input();
  if (inputs.empty()) return;
  const auto& input = inputs[static_cast<int>(below(inputs.size()))];
  const auto& type = input.type().tensor_type();
  constexpr int64_t kMost = 4096;
  int64_t size = 1;
  for (const auto& dim : type.shape().dim())
    size *= std::clamp<int64_t>(dim.dim_value(), 0, kMost), size = std::min(size, kMost);
  TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(input.name());
  tensor.set_data_type(type.elem_type());
  for (const auto& dim : type.shape().dim()) tensor.add_dims(dim.dim_value());
  const bool small = below(2);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t value = small ? static_cast<int64_t>(below(4)) - 1 : number();
    if (type.elem_type() == TensorProto::FLOAT) tensor.add_float_data(static_cast<float>(value));
    if (type.elem_type() == TensorProto::INT64) tensor.add_int64_data(value);
    if (type.elem_type() == TensorProto::INT32 || type.elem_type() == TensorProto::BOOL)
      tensor.add_int32_data(static_cast<int32_t>(value));
  }
}

void ModelMutator::change_nodes(ModelProto& model) {
  NodeProto* node = any_node(model);
  if (!node) return;
  auto& nodes = *model.mutable_graph()->mutable_node();
  const uint32_t what = below(4);
  if (what == 0)
    nodes.RemoveLast();
  else if (what == 1)
    *nodes.Add() = NodeProto(*node);
  else if (what == 2)
    std::reverse(nodes.begin(), nodes.end());
  else
    set_operator(*node, operators_[below(static_cast<int64_t>(operators_.size()))]);
}

void ModelMutator::change_opset(ModelProto& model) {
  if (model.opset_import().empty()) return;
  model.mutable_opset_import(0)->set_version(below(4) ? 7 + below(17) : number());
}

}  // namespace lathe::fuzz
