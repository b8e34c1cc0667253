// Constants of a file in forms that tensors here do not have: numbers of 4 bits, floats of 8, sparse tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontends/onnx_models.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kE4M3 = 17, kE5M2 = 19, kUInt4 = 21, kInt4 = 22;

/// A TensorProto's content; `data`: its fields of numbers.
std::string tensor(const std::string& name, const Shape& dims, int64_t type, const std::string& data) {
  std::string result;
  for (int64_t dim : dims) result += field(1, dim);
  return result + field(2, type) + field(8, name) + data;
}
std::string raw(const std::string& bytes) { return field(9, bytes); }
std::string int32s(const Shape& numbers) {
  std::string result;
  for (int64_t number : numbers) result += field(5, number);
  return result;
}
std::string raw_of(const auto& numbers) {
  return raw({reinterpret_cast<const char*>(std::data(numbers)), std::size(numbers) * sizeof(numbers[0])});
}
std::string initializer(const std::string& content) { return field(5, content); }

std::string file(const Strings& nodes, const std::string& more, int64_t opset = 21) {
  return Model{nodes, input_of("x", {"1"}) + more, {"y"}, opset}.file();
}
std::vector<double> result_of(const std::string& content) {
  const Tensor y = run(import_bytes(content, "m.onnx"), {tensor_of<float>({0}, {1}, kFloat32)}).at(0);
  std::vector<double> values;
  for (int64_t i = 0; i < y.size(); ++i) values.push_back(y.value(i));
  return values;
}
std::string refusal(const std::string& content) {
  return thrown_by([&] { import_bytes(content, "m.onnx"); });
}

/// The low half of a byte comes first; the last half of an odd count says nothing.
TEST(OnnxTensors, OfFourBitsArePacked) {
  const std::string to_float = node("Cast", {"w"}, {"y"}, integer("to", 1));
  EXPECT_THAT(result_of(file({to_float}, initializer(tensor("w", {3}, kInt4, raw("\x9f\x77"))))),
              ElementsAre(-1, -7, 7));
  EXPECT_THAT(result_of(file({to_float}, initializer(tensor("w", {2, 2}, kInt4, int32s({0x80, 0x3e}))))),
              ElementsAre(0, -8, -2, 3));
  EXPECT_THAT(result_of(file({to_float}, initializer(tensor("w", {4}, kUInt4, raw("\x9f\x70"))))),
              ElementsAre(15, 9, 0, 7));
  EXPECT_THAT(result_of(file({to_float}, initializer(tensor("w", {}, kUInt4, int32s({5}))))), ElementsAre(5));
  EXPECT_EQ(refusal(file({to_float}, initializer(tensor("w", {3}, kInt4, raw("\x11\x22\x33"))))),
            "m.onnx: tensor `w`: shape (3) of INT4 needs 2 bytes, the data has 3");
  EXPECT_EQ(refusal(file({to_float}, initializer(tensor("w", {5}, kInt4, int32s({1, 2}))))),
            "m.onnx: tensor `w`: shape (5) of INT4 needs 3 bytes, the data has 2");
}

/// Weights as language models have them.
TEST(OnnxTensors, OfFourBitsAreDequantizedByBlocks) {
  const std::string constants =
      initializer(tensor("w", {2, 4}, kInt4, raw("\x21\x43\xfe\xdc"))) +
      initializer(tensor("scale", {2, 2}, kFloat, raw_of(std::vector<float>{1, 10, 0.5, 2}))) +
      initializer(tensor("zero", {2, 2}, kInt4, raw("\x01\x10")));
  EXPECT_THAT(result_of(file({node("DequantizeLinear", {"w", "scale", "zero"}, {"y"},
                                   integer("axis", 1) + integer("block_size", 2))},
                             constants)),
              ElementsAre(0, 1, 30, 40, -1, -0.5, -10, -8));
}

TEST(OnnxTensors, FloatsOfEightBits) {
  const std::string to_float = node("Cast", {"w"}, {"y"}, integer("to", 1));
  const auto numbers = result_of(file(
      {to_float}, initializer(tensor("w", {7}, kE4M3, raw(std::string("\x00\x38\xb8\x7e\x01\x08\x7f", 7))))));
  EXPECT_THAT(std::vector<double>(numbers.begin(), numbers.end() - 1),
              ElementsAre(0, 1, -1, 448, std::ldexp(1, -9), std::ldexp(1, -6)));
  EXPECT_TRUE(std::isnan(numbers.back()));
  EXPECT_THAT(result_of(file({to_float},
                             initializer(tensor("w", {5}, kE5M2, int32s({0x3c, 0xbd, 0x7b, 0x01, 0xfc}))))),
              ElementsAre(1, -1.25, 57344, std::ldexp(1, -16), -INFINITY));
  EXPECT_THAT(
      result_of(file({node("DequantizeLinear", {"w", "scale"}, {"y"}, integer("axis", 0))},
                     initializer(tensor("w", {2, 2}, kE4M3, raw("\x38\xb8\x40\x40"))) +
                         initializer(tensor("scale", {2}, kFloat, raw_of(std::vector<float>{2, 3}))))),
      ElementsAre(2, -2, 6, 6));
}

TEST(OnnxTensors, WhatIsNoConstantIsRefused) {
  EXPECT_EQ(refusal(file({node("Cast", {"v"}, {"y"}, integer("to", 1))}, input_of("v", {"2"}, kInt4))),
            "m.onnx: input `v`: element type INT4 is not supported");
  EXPECT_THAT(refusal(file({node("Cast", {"x"}, {"y"}, integer("to", kE5M2))}, "")),
              HasSubstr("element type FLOAT8E5M2 is not supported"));
  // Rounded to the range of whole bytes it would be something else.
  EXPECT_EQ(refusal(file({node("QuantizeLinear", {"x", "s", "zero"}, {"y"})},
                         initializer(tensor("s", {}, kFloat, raw_of(std::vector<float>{1}))) +
                             initializer(tensor("zero", {}, kInt4, int32s({0}))))),
            "m.onnx: node `y` (QuantizeLinear): its result would be of INT4, which constants alone are");
  EXPECT_THAT(refusal(file({node("DequantizeLinear", {"x", "x"}, {"y"})}, "")),
              HasSubstr("dequantization of float32 is not supported"));
}

/// Labels beside a classifier.
TEST(OnnxTensors, OfTextMayStandWhereNothingReadsThem) {
  constexpr int64_t kText = 8;
  const std::string labels = initializer(tensor("labels", {2}, kText, field(6, "cat") + field(6, "dog")));
  const std::string add = node("Add", {"x", "x"}, {"y"}),
                    word = node("Constant", {}, {"word"}, text("value_string", "cat"));
  EXPECT_THAT(result_of(file({add}, labels)), ElementsAre(0));
  EXPECT_THAT(result_of(file({word, add}, "")), ElementsAre(0));
  // Old files list it among the inputs.
  EXPECT_EQ(import_bytes(file({add}, labels + input_of("labels", {"2"}, kText)), "m.onnx").inputs.size(), 1);
  EXPECT_EQ(refusal(file({node("Add", {"x", "labels"}, {"y"})}, labels)),
            "m.onnx: element type STRING is not supported");
  EXPECT_EQ(refusal(file({word, node("Add", {"x", "word"}, {"y"})}, "")),
            "m.onnx: node `word` (Constant): a constant without a numeric value is not supported");
  // Read by a graph within, and given by one.
  const auto branches = [&](const std::string& read) {
    const std::string branch = bytes::graph({node("Identity", {read}, {"inner"})}, "", {"inner"});
    return node("If", {"yes"}, {"y"},
                bytes::subgraph("then_branch", branch) + bytes::subgraph("else_branch", branch));
  };
  const std::string yes = initializer(tensor("yes", {}, kBoolean, int32s({1}))),
                    number = initializer(tensor("w", {}, kFloat, raw_of(std::vector<float>{3})));
  EXPECT_THAT(result_of(file({branches("w")}, yes + number)), ElementsAre(3));
  EXPECT_THAT(refusal(file({branches("labels")}, yes + labels)), HasSubstr("STRING is not supported"));
  const std::string given = bytes::graph({}, "", {"w"});
  EXPECT_THAT(
      result_of(file({node("If", {"yes"}, {"y"},
                           bytes::subgraph("then_branch", given) + bytes::subgraph("else_branch", given))},
                     yes + number)),
      ElementsAre(3));
}

/// Values and their places, in a row or along each axis.
std::string sparse_content(const std::string& values, const std::string& places, const Shape& dims) {
  std::string result = field(1, values) + field(2, places);
  for (int64_t dim : dims) result += field(3, dim);
  return result;
}
std::string sparse(const std::string& values, const std::string& places, const Shape& dims) {
  return field(15, sparse_content(values, places, dims));
}

TEST(OnnxTensors, AreSparse) {
  const std::string y = node("Add", {"w", "x"}, {"y"});
  const std::string values = tensor("w", {2}, kFloat, raw_of(std::vector<float>{5, 7}));
  EXPECT_THAT(result_of(file({y}, sparse(values, tensor("", {2}, kInt, raw_of(Shape{1, 5})), {2, 3}))),
              ElementsAre(0, 5, 0, 0, 0, 7));
  EXPECT_THAT(
      result_of(file({y}, sparse(values, tensor("", {2, 2}, kInt, raw_of(Shape{0, 2, 1, 0})), {2, 3}))),
      ElementsAre(0, 0, 5, 7, 0, 0));
  // Of a node.
  const std::string places = tensor("", {2}, kInt, raw_of(Shape{1, 5})),
                    value = field(5, field(1, std::string("sparse_value")) +
                                         field(22, sparse_content(values, places, {2, 3})) +
                                         field(20, int64_t{11}));
  EXPECT_THAT(result_of(file({node("Constant", {}, {"w"}, value), y}, "")), ElementsAre(0, 5, 0, 0, 0, 7));
  EXPECT_EQ(refusal(file({y}, sparse(values, tensor("", {2}, kInt, raw_of(Shape{1, 6})), {2, 3}))),
            "m.onnx: sparse tensor `w`: place 6 of a tensor of shape (2, 3)");
  EXPECT_EQ(refusal(file({y}, sparse(values, tensor("", {2, 2}, kInt, raw_of(Shape{0, 3, 1, 0})), {2, 3}))),
            "m.onnx: sparse tensor `w`: place 3 along axis 1 of a tensor of shape (2, 3)");
  EXPECT_EQ(refusal(file({y}, sparse(values, tensor("", {3}, kInt, raw_of(Shape{1, 2, 3})), {2, 3}))),
            "m.onnx: sparse tensor `w`: values of shape (2) at places of shape (3)");
  EXPECT_EQ(
      refusal(file({y}, sparse(values, tensor("", {2}, kInt, raw_of(Shape{0, 1})), {1 << 20, 1 << 20}))),
      "m.onnx: sparse tensor `w`: shape (1048576, 1048576) is out of range");
}

}  // namespace
}  // namespace lathe::onnx
