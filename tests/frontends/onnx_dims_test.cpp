// Models whose dimensions stay open: shape arithmetic becomes expressions of them, and what cannot is
// refused.
#include <gtest/gtest.h>

#include "core/frontends/onnx.h"
#include "core/relay/text.h"
#include "tests/frontends/onnx_bytes.h"

namespace lathe::onnx {
namespace {

using bytes::field;

/// An input of float32; dimensions are numbers or names.
std::string input_of(const std::string& name, const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& dim : dims) {
    const bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape += field(1, number ? field(1, int64_t{std::stoi(dim)}) : field(2, dim));
  }
  return field(11, field(1, name) + field(2, field(1, field(1, int64_t{1}) + field(2, shape))));
}

std::string model(const std::vector<std::string>& nodes, const std::string& inputs,
                  const std::vector<std::string>& outputs = {"y"}) {
  return field(1, int64_t{8}) + field(7, bytes::graph(nodes, inputs, outputs)) +
         field(8, field(2, int64_t{15}));
}

std::string ints(const std::string& name, const std::vector<int64_t>& values) {
  return bytes::node("Constant", {}, {name}, bytes::integers("value_ints", values));
}

/// Shape(x) in s, and its elements b and t as vectors of one.
std::vector<std::string> shape_of_x() {
  return {bytes::node("Shape", {"x"}, {"s"}), ints("i0", {0}), ints("i1", {1}),
          bytes::node("Gather", {"s", "i0"}, {"b"}), bytes::node("Gather", {"s", "i1"}, {"t"})};
}

const std::string kInput = input_of("x", {"b", "t", "24"});

/// The type of y, or what is wrong.
std::string result_of(const std::vector<std::string>& more, const std::string& inputs = kInput,
                      const std::vector<std::string>& outputs = {"y"}) {
  std::vector<std::string> nodes = shape_of_x();
  nodes.insert(nodes.end(), more.begin(), more.end());
  try {
    ImportedModel imported = import_bytes(model(nodes, inputs, outputs), "m.onnx",
                                          {.keeps_open = [](const std::string&) { return true; }});
    return relay::print(imported.module->functions.at("main")->body->checked_type);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(OnnxDims, ReshapesFollowTheShapeOfAnInput) {
  EXPECT_EQ(
      result_of({ints("d", {4, 6}), bytes::node("Concat", {"b", "t", "d"}, {"to"}, bytes::integer("axis", 0)),
                 bytes::node("Reshape", {"x", "to"}, {"y"})}),
      "Tensor[(b, t, 4, 6), float32]");
  EXPECT_EQ(result_of({ints("d", {24}), bytes::node("Mul", {"b", "t"}, {"rows"}),
                       bytes::node("Concat", {"rows", "d"}, {"to"}, bytes::integer("axis", 0)),
                       bytes::node("Reshape", {"x", "to"}, {"y"})}),
            "Tensor[(b * t, 24), float32]");
  EXPECT_EQ(result_of({ints("d", {0, -1, 8}), bytes::node("Reshape", {"x", "d"}, {"y"})}),
            "Tensor[(b, t * 3, 8), float32]");
}

TEST(OnnxDims, ViewsAndProductsTakeThem) {
  EXPECT_EQ(result_of({ints("axes", {1}), bytes::node("Unsqueeze", {"x", "axes"}, {"y"})}),
            "Tensor[(b, 1, t, 24), float32]");
  EXPECT_EQ(result_of({bytes::node("Flatten", {"x"}, {"y"}, bytes::integer("axis", 2))}),
            "Tensor[(b * t, 24), float32]");
  EXPECT_EQ(result_of({bytes::node("MatMul", {"x", "w"}, {"y"})}, kInput + input_of("w", {"24", "7"})),
            "Tensor[(b, t, 7), float32]");
  EXPECT_EQ(result_of({bytes::node("MatMul", {"x", "w"}, {"y"})}, kInput + input_of("w", {"b", "24", "p"})),
            "Tensor[(b, t, p), float32]");
}

TEST(OnnxDims, WithoutANameTheyAreCalledByTheirPlace) {
  std::vector<std::string> names;
  const std::string unnamed = field(
      11, field(1, std::string("x")) +
              field(2, field(1, field(1, int64_t{1}) +
                                    field(2, field(1, std::string()) + field(1, field(1, int64_t{4}))))));
  import_bytes(model({bytes::node("Relu", {"x"}, {"y"})}, unnamed), "m.onnx",
               {.keeps_open = [&](const std::string& name) {
                 names.push_back(name);
                 return true;
               }});
  EXPECT_EQ(names, std::vector<std::string>{"x.0"});
}

TEST(OnnxDims, TensorsAreMadeInTheirSize) {
  EXPECT_EQ(result_of({bytes::node("ConstantOfShape", {"s"}, {"y"})}), "Tensor[(b, t, 24), float32]");
  EXPECT_EQ(
      result_of({ints("zero", {0}), ints("one", {1}), bytes::node("Range", {"zero", "t", "one"}, {"y"})}),
      "Tensor[(t), int64]");
  EXPECT_EQ(
      result_of({ints("four", {4}), bytes::node("Concat", {"four", "s"}, {"to"}, bytes::integer("axis", 0)),
                 bytes::node("Expand", {"x", "to"}, {"y"})}),
      "Tensor[(4, b, t, 24), float32]");
}

/// In a tensor, it is what the dimension turns out to be.
TEST(OnnxDims, AHandleIsNeverTakenForANumber) {
  EXPECT_EQ(result_of({bytes::node("Cast", {"b"}, {"y"}, bytes::integer("to", 1))}), "Tensor[(1), float32]");
  EXPECT_EQ(result_of({bytes::node("Identity", {"s"}, {"y"})}), "Tensor[(3), int64]");
  EXPECT_EQ(result_of({bytes::node("Equal", {"b", "t"}, {"y"})}), "Tensor[(1), bool]");
  // Beside what a run computes, too.
  const std::string beside = result_of({bytes::node("Cast", {"k"}, {"c"}, bytes::integer("to", 7)),
                                        bytes::node("Concat", {"b", "c"}, {"to"}, bytes::integer("axis", 0)),
                                        bytes::node("ConstantOfShape", {"to"}, {"y"})},
                                       kInput + input_of("k", {"1"}));
  EXPECT_EQ(beside, "Tensor[(size0, size1), float32]");
}

}  // namespace
}  // namespace lathe::onnx
