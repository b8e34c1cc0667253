// Single nodes on constants.
#pragma once

#include "core/frontends/onnx.h"
#include "core/relay/interpret_closed.h"
#include "tests/frontends/onnx_bytes.h"

namespace lathe::onnx {

inline std::vector<Tensor> outputs_of(const ImportedModel& model) {
  const relay::Expr& body = model.module->functions.at("main")->body;
  const auto* tuple = body.as<relay::Tuple>();
  return relay::interpret_closed(tuple ? tuple->items : std::vector<relay::Expr>{body});
}

inline Tensor floats(std::vector<float> values, std::vector<int64_t> shape) {
  return tensor_of(values, shape, kFloat32);
}
inline Tensor longs(std::vector<int64_t> values) {
  return tensor_of(values, {static_cast<int64_t>(values.size())}, kInt64);
}

/// Inputs that are not defined are left out.
inline ImportedModel import_node(const std::string& op, const std::vector<Tensor>& inputs,
                                 const std::string& attributes = "", int outputs = 1, int opset = 24) {
  std::vector<std::string> in, out;
  std::string declared;
  ImportOptions options;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {  // left out
      in.emplace_back();
      continue;
    }
    in.push_back(fmt::format("in_{}", i));
    options.constants[in.back()] = inputs[i];
    declared += bytes::input(in.back());
  }
  for (int i = 0; i < outputs; ++i) out.push_back(fmt::format("out_{}", i));
  return import_bytes(bytes::model(bytes::node(op, in, out, attributes), declared, out, opset), "m.onnx",
                      options);
}

inline std::vector<Tensor> run(const std::string& op, const std::vector<Tensor>& inputs,
                               const std::string& attributes = "", int outputs = 1) {
  return outputs_of(import_node(op, inputs, attributes, outputs));
}

inline std::vector<double> values(const Tensor& tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.size(); ++i) result.push_back(tensor.value(i));
  return result;
}

}  // namespace lathe::onnx
