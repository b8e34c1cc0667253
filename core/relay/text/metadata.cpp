#include "core/relay/text/metadata.h"

#include <charconv>

#include "core/support/error.h"
#include "core/tir/verify.h"

namespace lathe::relay {
namespace {

/// {"dtype": .., "shape": .., "data": ..}: the bytes in hexadecimal. The digits must be there before that
/// much memory is asked for.
Tensor read_tensor(const nlohmann::json& json) {
  auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  if (!dtype) fail("metadata: `{}` is not an element type", json.at("dtype").get<std::string>());
  std::vector<int64_t> shape = checked_shape(json.at("shape").get<std::vector<int64_t>>());
  const auto& hex = json.at("data").get_ref<const std::string&>();
  size_t bytes = static_cast<size_t>(shape_size(shape) * dtype->bytes());
  if (hex.size() != bytes * 2) fail("metadata: a constant of {} bytes has {} digits", bytes, hex.size());
  Tensor tensor(shape, *dtype);
  for (size_t i = 0; i < bytes; ++i) {
    uint8_t* to = static_cast<uint8_t*>(tensor.data()) + i;
    if (std::from_chars(&hex[2 * i], &hex[2 * i] + 2, *to, 16).ptr != &hex[2 * i] + 2)
      fail("metadata: `{}` is not hexadecimal", hex.substr(2 * i, 2));
  }
  return tensor;
}

std::string hex_digits(const Tensor& tensor) {
  std::string hex;
  hex.reserve(static_cast<size_t>(tensor.bytes()) * 2);
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    uint8_t byte = static_cast<const uint8_t*>(tensor.data())[i];
    hex += "0123456789abcdef"[byte >> 4];
    hex += "0123456789abcdef"[byte & 15];
  }
  return hex;
}

/// A stranger's program: the compiler takes for granted that it keeps to its buffers.
void check(const tir::Func& func) {
  std::optional<std::string> fault = tir::find_hole(func);
  if (!fault) fault = tir::find_fault(func, tir::level_of(func));
  if (fault) fail("metadata: invalid tensor program {}: {}", func->name, *fault);
}

}  // namespace

std::vector<int64_t> checked_shape(std::vector<int64_t> shape) {
  int64_t size = 1;
  for (int64_t dim : shape)
    if (dim < 0 || __builtin_mul_overflow(size, dim, &size) || size > int64_t{1} << 40)
      fail("metadata: a constant of shape {}", shape_text(shape));
  return shape;
}

Metadata read_metadata(std::string_view text) {
  Metadata metadata;
  try {
    nlohmann::json json = nlohmann::json::parse(text);
    if (is_tvm_metadata(json)) return read_tvm_metadata(json);
    for (const nlohmann::json& each : json.value("relay.Constant", nlohmann::json::array()))
      metadata.constants.push_back(read_tensor(each));
    for (const nlohmann::json& each : json.value("tir.Func", nlohmann::json::array())) {
      NodeRef func = load_json(each.get_ref<const std::string&>(), tir::tir_node_types());
      if (!func.as<tir::FuncNode>()) fail("metadata: tir.Func holds another node");
      metadata.funcs.push_back(func.cast<tir::FuncNode>());
      check(metadata.funcs.back());
    }
  } catch (const nlohmann::json::exception& e) {
    fail("metadata: {}", e.what());
  }
  return metadata;
}

std::string write_metadata(const Metadata& metadata) {
  nlohmann::json json = nlohmann::json::object();
  for (const Tensor& each : metadata.constants)
    json["relay.Constant"].push_back(
        {{"dtype", to_string(each.dtype())}, {"shape", each.shape()}, {"data", hex_digits(each)}});
  for (const tir::Func& each : metadata.funcs) json["tir.Func"].push_back(save_json(each));
  return json.dump(1);
}

}  // namespace lathe::relay
