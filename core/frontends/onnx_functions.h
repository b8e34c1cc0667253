// Functions that a model brings along, whose nodes stand for operators that the standard does not have:
// exporters of PyTorch write them.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "core/support/node.h"

namespace lathe::onnx {

/// f(node) for these nodes and for those of the graphs that they have as attributes.
void for_each_node(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes,
                   FunctionRef<void(const ::onnx::NodeProto&)> f);

/// f(name) for what these nodes read, and the graphs that they have as attributes, whose outputs may be names
/// from around them.
void for_each_read(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes,
                   FunctionRef<void(const std::string&)> f);

/// Whether the node's domain is that of the standard's operators.
bool is_standard(const ::onnx::NodeProto& node);

/// The name of its operator, behind its domain's where that is not the standard's: `com.microsoft.Attention`.
std::string full_name(const ::onnx::NodeProto& node);

/// Attributes by name, of the node that calls a function or the function's own where the node has none.
using Attributes = std::map<std::string, const ::onnx::AttributeProto*>;

class Functions {
 public:
  /// Throws Error for two of one name. REQUIRES: `model` outlives it.
  explicit Functions(const ::onnx::ModelProto& model);

  /// The function that the node calls; null where it is an operator. A function of an operator's name is
  /// meant by it.
  const ::onnx::FunctionProto* find(const ::onnx::NodeProto& node) const;

  /// f(function) for those that the nodes call, and those that these call, each once. Throws Error for one
  /// that calls itself, and for calls within calls that are too deep.
  void for_each_called(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes,
                       FunctionRef<void(const ::onnx::FunctionProto&)> f) const;

  /// REQUIRES: `call` calls a function, and lives as long as the result.
  Attributes attributes_of(const ::onnx::NodeProto& call) const;

 private:
  /// A domain, a name, and the variant of it.
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Function {
    const ::onnx::FunctionProto* proto;
    std::map<std::string, ::onnx::AttributeProto> defaults;
  };
  /// How many functions call each other from one on, itself included; 0 while that is being found.
  using Depths = std::map<const ::onnx::FunctionProto*, int>;
  int visit(const ::onnx::FunctionProto& function, Depths& depths,
            FunctionRef<void(const ::onnx::FunctionProto&)> f, int around) const;

  std::map<Key, Function> functions_;
};

/// The node with the values of the attributes that it takes from the function around it; nothing where it
/// takes none. One that the call leaves out is left out.
std::optional<::onnx::NodeProto> with_attributes(const ::onnx::NodeProto& node, const Attributes& given);

}  // namespace lathe::onnx
