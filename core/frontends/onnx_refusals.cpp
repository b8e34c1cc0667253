#include "core/frontends/onnx_refusals.h"

#include <map>
#include <set>

#include "core/frontends/onnx_converter.h"
#include "core/frontends/onnx_inputs.h"
#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::onnx {
namespace {

using Defined = std::set<std::string>;

/// The node's input that says of which type its result is; -1 where none does.
int type_giver(const ::onnx::NodeProto& node) {
  return node.op_type() == "QuantizeLinear" ? 2 : node.op_type() == "CastLike" ? 1 : -1;
}

void define(Defined& names, const std::string& name) {
  if (!name.empty() && !names.insert(name).second) fail("`{}` is defined twice", name);
}

void define_outputs(Defined& names, const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes) {
  for (const auto& node : nodes)
    for (const std::string& output : node.output()) define(names, output);
}

void look_at_graph(const ::onnx::GraphProto& graph) {
  Defined names;
  for (const auto& input : graph.input()) define(names, input.name());
  // Files before IR version 4 list them among the inputs.
  names.merge(constants_of(graph));
  define_outputs(names, graph.node());
}

/// Those that the nodes have as attributes.
void look_at_graphs(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes) {
  for_each_node(nodes, [](const ::onnx::NodeProto& node) {
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) look_at_graph(attribute.g());
  });
}

}  // namespace

void refuse_unsupported(const ::onnx::GraphProto& graph, const Functions& functions,
                        FunctionRef<bool(const ::onnx::NodeProto&)> is_supported) {
  Defined unknown;
  const auto look = [&](const ::onnx::NodeProto& node) {
    if (!functions.find(node) && !is_supported(node)) unknown.insert(full_name(node));
  };
  for_each_node(graph.node(), look);
  functions.for_each_called(
      graph.node(), [&](const ::onnx::FunctionProto& function) { for_each_node(function.node(), look); });
  if (unknown.empty()) return;
  fail("unsupported operator{}: {}", unknown.size() > 1 ? "s" : "",
       join_text({unknown.begin(), unknown.end()}, ", "));
}

void refuse_doubled_names(const ::onnx::GraphProto& graph, const Functions& functions) {
  look_at_graph(graph);
  look_at_graphs(graph.node());
  functions.for_each_called(graph.node(), [](const ::onnx::FunctionProto& function) {
    Defined names;
    for (const std::string& input : function.input()) define(names, input);
    define_outputs(names, function.node());
    look_at_graphs(function.node());
  });
}

void refuse_small_results(const ::onnx::GraphProto& graph, const Functions& functions) {
  std::map<std::string, const char*> small;
  const auto note = [&](const std::string& name, const ::onnx::TensorProto& tensor) {
    if (const char* type = small_type(tensor.data_type())) small[name] = type;
  };
  const auto note_initializers = [&](const ::onnx::GraphProto& of) {
    for (const auto& each : of.initializer()) note(each.name(), each);
  };
  const auto look = [&](const ::onnx::NodeProto& node) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) note_initializers(attribute.g());
      if (attribute.has_t() && node.output_size() == 1) note(node.output(0), attribute.t());
    }
    const int giver = type_giver(node);
    if (giver < 0 || giver >= node.input_size()) return;
    if (auto found = small.find(node.input(giver)); found != small.end())
      fail("node `{}` ({}): its result would be of {}, which constants alone are",
           node.output_size() ? node.output(0) : node.name(), node.op_type(), found->second);
  };
  note_initializers(graph);
  for_each_node(graph.node(), look);
  functions.for_each_called(
      graph.node(), [&](const ::onnx::FunctionProto& function) { for_each_node(function.node(), look); });
}

}  // namespace lathe::onnx
