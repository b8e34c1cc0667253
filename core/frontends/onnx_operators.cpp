// The operators that import knows, by domain and name.
#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/frontends/onnx_arithmetic.h"

namespace lathe::onnx {
namespace {

const std::string kContrib = "com.microsoft.";

/// What com.microsoft calls so is the standard's operator, as it is there or as it was taken over.
struct Same {
  const char *contrib, *standard;
};
constexpr Same kSame[] = {
    {"DequantizeLinear", "DequantizeLinear"},
    {"ExpandDims", "Unsqueeze"},
    {"Gelu", "Gelu"},
    {"GatherND", "GatherND"},
    {"GridSample", "GridSample"},
    {"Pad", "Pad"},
    {"QuantizeLinear", "QuantizeLinear"},
    {"Range", "Range"},
    {"Trilu", "Trilu"},
};

using Rows = std::unordered_map<std::string, const Converter*>;

Rows rows_by_name() {
  Rows rows;
  for (auto family : {LATHE_ONNX_FAMILIES})
    for (const Converter& row : family) rows.emplace(row.op, &row);
  for (const Same& same : kSame) rows.emplace(kContrib + same.contrib, rows.at(same.standard));
  for (auto family : {LATHE_ONNX_CONTRIB_FAMILIES})
    for (const Converter& row : family) rows.emplace(kContrib + row.op, &row);
  return rows;
}

/// Built at the first call and never freed: no order of destruction to think of.
const Rows& rows() {
  static const auto* table = new Rows(rows_by_name());
  return *table;
}

bool is_narrow(const Value& value) {
  const auto* type = value ? value->checked_type.as<relay::TensorType>() : nullptr;
  return type && type->dtype.is_float() && type->dtype.bits < 32;
}

}  // namespace

const Converter* find_converter(const std::string& full_name) {
  auto found = rows().find(full_name);
  return found == rows().end() ? nullptr : found->second;
}

std::vector<Value> converted(const Converter& row, const Node& node) {
  if (row.arithmetic == Arithmetic::kGiven) return row.convert(node);
  // The inputs are widened, and results in float32 rounded to the first narrow input's type.
  std::optional<DataType> narrow;
  std::vector<Value> inputs;
  for (size_t i = 0; i < node.inputs(); ++i) {
    inputs.push_back(node.has(i) ? node.in(i) : Value());
    if (!is_narrow(inputs.back())) continue;
    if (!narrow) narrow = type_of(inputs.back()).dtype;
    inputs.back() = cast_to(inputs.back(), kFloat32);
  }
  if (!narrow) return row.convert(node);
  std::vector<Value> outputs = row.convert(node.as(node.op(), std::move(inputs), node.opset()));
  for (Value& output : outputs)
    if (output && type_of(output).dtype == kFloat32) output = cast_to(output, *narrow);
  return outputs;
}

std::vector<Value> converted_as(const char* full_name, const Node& node, std::vector<Value> inputs,
                                int64_t opset) {
  const Converter& row = *find_converter(full_name);
  return converted(row, node.as(row.op, std::move(inputs), opset));
}

std::vector<std::string> supported_operators() {
  std::set<std::string> names;
  for (const auto& [name, row] : rows()) names.insert(name);
  return {names.begin(), names.end()};
}

}  // namespace lathe::onnx
