#include "core/frontends/onnx_refusals.h"

#include <set>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::onnx {
namespace {

using Defined = std::set<std::string>;

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
  for (const auto& each : graph.initializer()) names.insert(each.name());
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
                        FunctionRef<bool(const std::string& op)> is_supported) {
  Defined unknown;
  const auto look = [&](const ::onnx::NodeProto& node) {
    if (functions.find(node) || (is_standard(node) && is_supported(node.op_type()))) return;
    unknown.insert((is_standard(node) ? "" : node.domain() + ".") + node.op_type());
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

}  // namespace lathe::onnx
