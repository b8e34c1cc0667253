// Attributes in text, for every operator alike: derived from the fields of its attribute struct.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/relay/expr.h"

namespace lathe::relay {

/// "strides=[2, 2], axis=1": fields that differ from their defaults, in order of declaration.
std::string print_attrs(const Attrs& attrs);

/// The attributes of `type` with the given fields; the rest keep their defaults. Throws Error (without a
/// place) when a value has the wrong type. REQUIRES: the fields exist.
Attrs read_attrs(const NodeType& type, const nlohmann::json& fields);

/// One value: [1, 2], 0.5f, "text", True, None.
std::string print_attr_value(const nlohmann::json& value);

/// In quotes, with the escapes of JSON.
std::string json_string(std::string_view text);

}  // namespace lathe::relay
