#include "core/frontends/onnx_functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "core/support/error.h"

namespace lathe::onnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

// Deeper than any exporter writes, and far from the end of the stack: graphs nest within each of them.
constexpr int kDeepestCalls = 32;

// Fields that are younger than this release of ONNX: the parser keeps them as they are.
constexpr int kOverloadOfNode = 8, kDefaultsOfFunction = 11, kOverloadOfFunction = 13;

template <typename Message, typename F>
void for_each_unknown(const Message& message, int number, F&& f) {
  const google::protobuf::UnknownFieldSet& fields = message.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i)
    if (const auto& field = fields.field(i);
        field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      f(field.length_delimited());
}

template <typename Message>
std::string unknown_text(const Message& message, int number) {
  std::string text;
  for_each_unknown(message, number, [&](const std::string& value) { text = value; });
  return text;
}

std::string domain_of(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

std::string name_of(const ::onnx::FunctionProto& function) {
  return (function.domain().empty() ? "" : function.domain() + ".") + function.name();
}

}  // namespace

void for_each_node(const Nodes& nodes, FunctionRef<void(const ::onnx::NodeProto&)> f) {
  for (const auto& node : nodes) {
    f(node);
    for (const auto& attribute : node.attribute())
      if (attribute.has_g()) for_each_node(attribute.g().node(), f);
  }
}

void for_each_read(const Nodes& nodes, FunctionRef<void(const std::string&)> f) {
  for_each_node(nodes, [&](const ::onnx::NodeProto& node) {
    for (const std::string& input : node.input()) f(input);
    for (const auto& attribute : node.attribute())
      for (const auto& output : attribute.g().output()) f(output.name());
  });
}

bool is_standard(const ::onnx::NodeProto& node) { return domain_of(node.domain()).empty(); }

std::string full_name(const ::onnx::NodeProto& node) {
  return (is_standard(node) ? "" : node.domain() + ".") + node.op_type();
}

Functions::Functions(const ::onnx::ModelProto& model) {
  for (const auto& proto : model.functions()) {
    Function function{&proto, {}};
    for_each_unknown(proto, kDefaultsOfFunction, [&](const std::string& bytes) {
      ::onnx::AttributeProto attribute;
      if (!attribute.ParseFromString(bytes))
        fail("function `{}`: one of its attributes cannot be read", name_of(proto));
      const std::string name = attribute.name();
      function.defaults[name] = std::move(attribute);
    });
    const Key key{domain_of(proto.domain()), proto.name(), unknown_text(proto, kOverloadOfFunction)};
    if (!functions_.emplace(key, std::move(function)).second)
      fail("function `{}` is defined twice", name_of(proto));
  }
}

const ::onnx::FunctionProto* Functions::find(const ::onnx::NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  auto found =
      functions_.find({domain_of(node.domain()), node.op_type(), unknown_text(node, kOverloadOfNode)});
  return found == functions_.end() ? nullptr : found->second.proto;
}

int Functions::visit(const ::onnx::FunctionProto& function, Depths& depths,
                     FunctionRef<void(const ::onnx::FunctionProto&)> f, int around) const {
  const auto [known, fresh] = depths.try_emplace(&function, 0);
  if (!fresh) {
    if (known->second == 0) fail("function `{}` calls itself", name_of(function));
    return known->second;
  }
  f(function);
  int depth = 1;
  // Functions that were seen before may be deep where those around are not, and the other way round.
  const auto refuse_deep = [&](int calls) {
    if (calls > kDeepestCalls)
      fail("function `{}` is one of more than {} that call each other", name_of(function), kDeepestCalls);
  };
  refuse_deep(around + 1);
  for_each_node(function.node(), [&](const ::onnx::NodeProto& node) {
    if (const auto* called = find(node)) depth = std::max(depth, 1 + visit(*called, depths, f, around + 1));
  });
  refuse_deep(depth);
  return depths[&function] = depth;
}

void Functions::for_each_called(const Nodes& nodes, FunctionRef<void(const ::onnx::FunctionProto&)> f) const {
  Depths depths;
  for_each_node(nodes, [&](const ::onnx::NodeProto& node) {
    if (const auto* called = find(node)) visit(*called, depths, f, 0);
  });
}

Attributes Functions::attributes_of(const ::onnx::NodeProto& call) const {
  const Key key{domain_of(call.domain()), call.op_type(), unknown_text(call, kOverloadOfNode)};
  Attributes result;
  for (const auto& [name, attribute] : functions_.at(key).defaults) result[name] = &attribute;
  for (const auto& attribute : call.attribute()) {
    // Its names would be those around the call, which the function does not see.
    if (attribute.has_g() || attribute.graphs_size())
      fail("attribute {} of a function is a graph, which is not supported", attribute.name());
    result[attribute.name()] = &attribute;
  }
  return result;
}

std::optional<::onnx::NodeProto> with_attributes(const ::onnx::NodeProto& node, const Attributes& given) {
  const auto refers = [](const ::onnx::AttributeProto& attribute) {
    return !attribute.ref_attr_name().empty();
  };
  if (std::none_of(node.attribute().begin(), node.attribute().end(), refers)) return std::nullopt;
  ::onnx::NodeProto result = node;
  result.clear_attribute();
  for (const auto& attribute : node.attribute()) {
    if (!refers(attribute)) {
      *result.add_attribute() = attribute;
    } else if (auto found = given.find(attribute.ref_attr_name()); found != given.end()) {
      *result.add_attribute() = *found->second;
      result.mutable_attribute()->rbegin()->set_name(attribute.name());
    }
  }
  return result;
}

}  // namespace lathe::onnx
