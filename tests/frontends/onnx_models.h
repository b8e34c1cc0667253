// Small ONNX models with open dimensions, and their runs.
#pragma once

#include <gtest/gtest.h>

#include "core/frontends/onnx.h"
#include "core/relay/interpret/interpreter.h"
#include "tests/frontends/onnx_bytes.h"

namespace lathe::onnx {

using bytes::field;
using bytes::integer;
using bytes::integers;
using bytes::node;
using bytes::text;
using Shape = std::vector<int64_t>;
using Shapes = std::map<std::string, Shape>;
using Strings = std::vector<std::string>;

inline constexpr int64_t kFloat = 1, kInt = 7, kBoolean = 9;

/// A value of a graph in the list of that number. Dimensions are numbers or names.
inline std::string value_of(uint64_t list, const std::string& name, const Strings& dims, int64_t type) {
  std::string shape;
  for (const std::string& dim : dims) {
    const bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape += field(1, number ? field(1, int64_t{std::stoi(dim)}) : field(2, dim));
  }
  return field(list, field(1, name) + field(2, field(1, field(1, type) + field(2, shape))));
}
inline std::string input_of(const std::string& name, const Strings& dims, int64_t type = kFloat) {
  return value_of(11, name, dims, type);
}
/// What a file says besides of a value that a node gives.
inline std::string stated(const std::string& name, const Strings& dims, int64_t type = kFloat) {
  return value_of(13, name, dims, type);
}

inline std::string ints(const std::string& name, const Shape& values) {
  return node("Constant", {}, {name}, integers("value_ints", values));
}

struct Model {
  Strings nodes;
  std::string inputs;
  Strings outputs = {"y"};
  int64_t opset = 17;

  std::string file() const {
    return field(1, int64_t{8}) + field(7, bytes::graph(nodes, inputs, outputs)) + field(8, field(2, opset));
  }
};

/// Small numbers that repeat seldom; integers count up, booleans come and go.
inline Tensor numbers(const ValueInfo& input, const Shape& shape) {
  Tensor tensor(shape, input.dtype);
  for (int64_t i = 0; i < tensor.size(); ++i)
    tensor.set(i, input.dtype == kBool     ? static_cast<double>(i * 5 % 3 == 1)
                  : input.dtype.is_float() ? static_cast<double>((i * 37 + 11) % 101) / 50 - 1
                                           : static_cast<double>(i % 3));
  return tensor;
}

/// The outputs, by the interpreter.
inline std::vector<Tensor> run(const ImportedModel& model, const std::vector<Tensor>& inputs) {
  std::vector<relay::Value> args;
  for (const Tensor& input : inputs) args.push_back(relay::tensor_value(input));
  const relay::Value result = relay::Interpreter(model.module).call("main", args);
  std::vector<Tensor> tensors;
  const auto* tuple = result.as<relay::TupleValue>();
  for (const relay::Value& item : tuple ? tuple->items : std::vector<relay::Value>{result})
    tensors.push_back(item.as<relay::TensorValue>()->tensor);
  return tensors;
}

/// Of inputs of these shapes.
inline std::vector<Tensor> run_at(const ImportedModel& model, const Shapes& shapes) {
  std::vector<Tensor> inputs;
  for (const ValueInfo& input : model.inputs) inputs.push_back(numbers(input, shapes.at(input.name)));
  return run(model, inputs);
}

inline void expect_equal(const std::vector<Tensor>& ours, const std::vector<Tensor>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_EQ(shape_text(ours[i].shape()), shape_text(expected[i].shape())) << i;
    EXPECT_EQ(ours[i].dtype(), expected[i].dtype());
    EXPECT_LT(max_relative_error(ours[i], expected[i]), 1e-5) << i;
  }
}

}  // namespace lathe::onnx
