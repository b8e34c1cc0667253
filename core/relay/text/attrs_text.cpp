#include "core/relay/text/attrs_text.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

namespace lathe::relay {
namespace {

nlohmann::json fields_of(const Node& attrs) {
  return attrs.write_fields(
      [](const Node* node) -> int64_t { CHECK(false, "an attribute holds a {}", node->type().name); });
}

std::string print_value(const nlohmann::json& value) {
  using Kind = nlohmann::json::value_t;
  switch (value.type()) {
    case Kind::null:
      return "None";
    case Kind::boolean:
      return value.get<bool>() ? "True" : "False";
    case Kind::number_float:
      return fmt::format("{}f", value.get<double>());
    case Kind::string:
      return json_string(value.get<std::string>());
    case Kind::array: {
      std::string text = "[";
      for (const nlohmann::json& item : value) text += (text.size() > 1 ? ", " : "") + print_value(item);
      return text + "]";
    }
    default:
      return value.dump();
  }
}

/// JSON's numbers convert into each other silently; attributes must not.
bool fits(const nlohmann::json& value, const nlohmann::json& like) {
  if (like.is_number_integer()) return value.is_number_integer();
  if (like.is_number_float()) return value.is_number() || value == "inf" || value == "-inf" || value == "nan";
  if (like.is_array() && value.is_array()) {
    for (const nlohmann::json& item : value)
      if (!like.empty() && !fits(item, like[0])) return false;
    return true;
  }
  return like.is_null() || value.type() == like.type();
}

}  // namespace

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string print_attr_value(const nlohmann::json& value) { return print_value(value); }

std::string print_attrs(const Attrs& attrs) {
  if (!attrs) return "";
  // Only what differs from the defaults is printed; read_attrs() starts from the same defaults.
  std::unique_ptr<Node> defaults(attrs->type().create());
  nlohmann::json values = fields_of(*attrs), default_values = fields_of(*defaults);
  std::string text;
  for (const char* name : attrs->type().field_names()) {
    if (values.at(name) == default_values.at(name)) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, print_value(values.at(name)));
  }
  return text;
}

Attrs read_attrs(const NodeType& type, const nlohmann::json& fields) {
  std::unique_ptr<Node> node(type.create());
  // Defaults serve as examples of the kind of value, too.
  nlohmann::json values = fields_of(*node);
  for (const auto& [name, value] : fields.items()) {
    if (!fits(value, values.at(name)))
      fail("attribute `{}` is {}; a value like {} is expected", name, print_value(value),
           print_value(values.at(name)));
    values[name] = value;
  }
  try {
    node->read_fields(values, [](int64_t) -> NodeRef { fail("an attribute can't refer to a node"); });
  } catch (const nlohmann::json::exception&) {
    std::string names;
    for (const auto& [name, value] : fields.items())
      names += fmt::format("{}{}={}", names.empty() ? "" : ", ", name, print_value(value));
    fail("attributes {} have a value of the wrong kind", names);
  }
  return Attrs(static_cast<const AttrsNode*>(node.release()));
}

}  // namespace lathe::relay
