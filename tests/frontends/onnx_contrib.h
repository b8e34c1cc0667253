// Single nodes of com.microsoft on constants.
#pragma once

#include <gmock/gmock.h>

#include <cmath>

#include "core/frontends/onnx.h"
#include "core/relay/pass.h"
#include "tests/frontends/one_node.h"
#include "tests/frontends/onnx_models.h"

namespace lathe::onnx {

MATCHER(IsNear, "") { return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 2e-5; }

inline const std::string kContrib = field(7, std::string("com.microsoft"));

/// Quantized products have a meaning in terms of others.
inline std::vector<Tensor> contrib(const std::string& op, const std::vector<Tensor>& inputs,
                                   const std::string& attributes = "", int outputs = 1) {
  constexpr relay::PassId kPasses[] = {relay::PassId::kInferType, relay::PassId::kCanonicalizeQnn};
  ImportedModel model = import_node(op, inputs, attributes + kContrib, outputs);
  model.module = relay::run_passes(model.module, kPasses);
  return outputs_of(model);
}

inline Tensor random(std::vector<int64_t> shape, uint64_t seed) {
  return random_tensor(shape, kFloat32, seed);
}
inline Tensor ints32(std::vector<int32_t> values) {
  return tensor_of(values, {static_cast<int64_t>(values.size())}, kInt32);
}
inline Tensor bytes8(std::vector<uint8_t> values, std::vector<int64_t> shape) {
  return tensor_of(values, shape, kUInt8);
}
inline Tensor int32_scalar(int32_t value) { return tensor_of(std::vector<int32_t>{value}, {}, kInt32); }
inline Tensor one(float value) { return floats({value}, {}); }

}  // namespace lathe::onnx
