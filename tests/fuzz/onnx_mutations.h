// Well-formed ONNX models changed where files by others go wrong: mutated bytes seldom parse, and of those
// that do few are a graph.
#pragma once

#include <onnx/onnx_pb.h>

#include <random>
#include <string>
#include <vector>

namespace lathe::fuzz {

/// The node is of this operator, whose domain stands before its name: `com.microsoft.Attention`.
void set_operator(::onnx::NodeProto& node, const std::string& full_name);

class ModelMutator {
 public:
  /// `operators`: what a node may become.
  ModelMutator(uint32_t seed, std::vector<std::string> operators)
      : random_(seed), operators_(std::move(operators)) {}

  /// One to three changes of its graph, its types, its constants or its opset.
  void mutate(::onnx::ModelProto& model);

 private:
  using Change = void (ModelMutator::*)(::onnx::ModelProto&);
  static const std::vector<Change>& changes();

  void change_rank(::onnx::ModelProto& model);
  void change_extent(::onnx::ModelProto& model);
  void open_dimensions(::onnx::ModelProto& model);
  void change_type(::onnx::ModelProto& model);
  void rewire(::onnx::ModelProto& model);
  void make_cycle(::onnx::ModelProto& model);
  void add_operands(::onnx::ModelProto& model);
  void change_outputs(::onnx::ModelProto& model);
  void change_attribute_type(::onnx::ModelProto& model);
  void change_attribute_value(::onnx::ModelProto& model);
  void add_attribute(::onnx::ModelProto& model);
  void remove_attribute(::onnx::ModelProto& model);
  void change_constant(::onnx::ModelProto& model);
  void make_constant(::onnx::ModelProto& model);
  void change_nodes(::onnx::ModelProto& model);
  void change_opset(::onnx::ModelProto& model);

  uint32_t below(int64_t n) { return static_cast<uint32_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t number();
  int element_type();
  ::onnx::NodeProto* any_node(::onnx::ModelProto& model);
  ::onnx::AttributeProto* any_attribute(::onnx::ModelProto& model);
  ::onnx::TypeProto_Tensor* any_input_type(::onnx::ModelProto& model);
  void set_value(::onnx::AttributeProto& attribute, int type);

  std::mt19937 random_;
  std::vector<std::string> operators_;
};

}  // namespace lathe::fuzz
