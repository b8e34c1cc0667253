// Models made to harm whoever reads them: each is refused by name, at once and without the memory it asks
// for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "core/frontends/onnx.h"
#include "core/relay/passes/canonicalize_ops.h"
#include "core/relay/passes/fuse_ops.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"
#include "core/support/error.h"
#include "core/support/file.h"
#include "core/support/temporary_folder.h"
#include "tests/frontends/onnx_bytes.h"

namespace lathe::onnx {
namespace {

using bytes::field;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kFloat = 1, kInt64 = 7;

std::string tensor(const std::string& name, const std::vector<int64_t>& dims, int64_t type,
                   const std::string& content) {
  std::string result;
  for (int64_t dim : dims) result += field(1, dim);
  return field(5, result + field(2, type) + field(8, name) + content);
}

std::string integers(const std::string& name, const std::vector<int64_t>& values) {
  std::string raw(values.size() * sizeof(int64_t), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return tensor(name, {static_cast<int64_t>(values.size())}, kInt64, field(9, raw));
}

std::string outside(const std::string& location, const std::string& offset = "0") {
  return tensor("w", {1, 4}, kFloat,
                field(13, field(1, "location") + field(2, location)) +
                    field(13, field(1, "offset") + field(2, offset)) + field(14, int64_t{1}));
}

/// A file with the input x: float32 (1, 4), and the output y.
std::string model(const std::string& nodes, const std::string& initializers = "",
                  const std::vector<int64_t>& shape = {1, 4}) {
  std::string dims;
  for (int64_t dim : shape) dims += field(1, field(1, dim));
  const std::string x = field(11, field(1, "x") + field(2, field(1, field(1, kFloat) + field(2, dims))));
  return field(1, int64_t{8}) + field(7, nodes + initializers + x + field(12, field(1, "y"))) +
         field(8, field(2, int64_t{17}));
}

std::string relu(const std::string& from, const std::string& to) { return bytes::node("Relu", {from}, {to}); }

std::string add_outside(const std::string& location, const std::string& offset = "0") {
  return model(bytes::node("Add", {"x", "w"}, {"y"}), outside(location, offset));
}

/// What the importer says of the file; "" when it takes it.
std::string refusal(const std::string& content) {
  TemporaryFolder folder;
  const std::string path = folder / "hostile.onnx";
  write_file(path, content);
  write_file(folder / "near.bin", std::string(16, 'w'));
  try {
    import_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OnnxHostile, TheModelsOfThisTestAreSoundOtherwise) {
  EXPECT_EQ(refusal(model(relu("x", "y"))), "");
  EXPECT_EQ(refusal(add_outside("near.bin")), "");
}

TEST(OnnxHostile, ExternalDataStaysInTheModelsFolder) {
  for (const char* location : {"../../../../../../etc/passwd", "/etc/passwd", "a/../../b", "..", ""})
    EXPECT_THAT(refusal(add_outside(location)), HasSubstr("lies outside the model's folder")) << location;
  // Names that only look like the folder above, and ways that end inside.
  EXPECT_THAT(refusal(add_outside("near..bin")), HasSubstr("cannot read 16 bytes of external data"));
  EXPECT_EQ(refusal(add_outside("elsewhere/../near.bin")), "");
  for (const char* offset : {"no number", "1e3", "9223372036854775808", ""})
    EXPECT_THAT(refusal(add_outside("near.bin", offset)), HasSubstr("of its external data is no number"));
  for (const char* offset : {"-9223372036854775808", "9223372036854775807", "1"})
    EXPECT_THAT(refusal(add_outside("near.bin", offset)), HasSubstr("cannot read 16 bytes of external data"));
  EXPECT_THAT(refusal(add_outside(".")), HasSubstr("cannot read 16 bytes of external data"));
}

/// A few bytes that unfold to more than any memory.
TEST(OnnxHostile, BombsAreCountedBeforeTheyUnfold) {
  const int64_t k1 = int64_t{1} << 20, k2 = int64_t{1} << 31, k3 = int64_t{1} << 45;
  const std::pair<const char*, std::string> cases[] = {
      {"(ConstantOfShape): shape",
       model(bytes::node("ConstantOfShape", {"s"}, {"y"}), integers("s", {k1, k1, 4, 4}))},
      {"(Expand)", model(bytes::node("Expand", {"x", "s"}, {"y"}), integers("s", {k2, k2, 4}))},
      {"(Tile)", model(bytes::node("Tile", {"x", "s"}, {"y"}), integers("s", {k3, k3}))},
      {"shape (8589934592, 8589934592) is out of range",
       model(bytes::node("Add", {"x", "w"}, {"y"}),
             tensor("w", {int64_t{1} << 33, int64_t{1} << 33}, kFloat, field(9, std::string(16, '\0'))))},
      {"shape (-1, 4) is out of range", model(bytes::node("Add", {"x", "w"}, {"y"}),
                                              tensor("w", {-1, 4}, kFloat, field(9, std::string(16, '\0'))))},
      {"its shape is out of range", model(relu("x", "y"), "", {int64_t{1} << 40, int64_t{1} << 40})},
      {"is out of range", model(bytes::node("Softmax", {"x"}, {"y"}, bytes::integer("axis", INT64_MIN)))},
      {"-1000 positions along an axis",
       model(bytes::node("OneHot", {"x", "d", "x"}, {"y"}), integers("d", {-1000}), {1, 2})},
      {"is out of range", model(bytes::node("MaxPool", {"x"}, {"y"},
                                            bytes::integers("kernel_shape", {int64_t{1} << 62, 1}) +
                                                bytes::integers("strides", {0, 0})),
                                "", {1, 1, 8, 8})},
  };
  for (const auto& [message, content] : cases) EXPECT_THAT(refusal(content), HasSubstr(message));
}

/// Within what 64 bits and a dimension may be, and more than any machine computes: it is said of the node.
TEST(OnnxHostile, WhatIsTooLargeIsSaidOfItsNode) {
  const int64_t k1 = int64_t{1} << 20;
  const auto image = [](const std::string& nodes, const std::string& initializers = "") {
    return model(nodes, initializers, {1, 1, 4, 4});
  };
  const std::vector<int64_t> shape{k1, k1 / 4, 4};
  const std::string pads = bytes::integers("pads", {k1, k1, k1, k1});
  const std::string kernel = tensor("w", {1, 1, 1, 1}, kFloat, field(9, std::string(4, '\0')));
  const std::pair<const char*, std::string> cases[] = {
      {"node `y` (Expand): a tensor Tensor[(1048576, 262144, 4), float32] of more than 1099511627776 bytes",
       model(bytes::node("Expand", {"x", "s"}, {"y"}), integers("s", shape))},
      {"node `y` (Tile): a tensor Tensor[(1048576, 4194304), float32] of more than",
       model(bytes::node("Tile", {"x", "s"}, {"y"}), integers("s", {k1, k1}))},
      {"node `y` (Pad): a tensor Tensor[(2097153, 2097156), float32] of more than",
       model(bytes::node("Pad", {"x", "p"}, {"y"}), integers("p", {k1, k1, k1, k1}))},
      {"node `y` (Resize): a tensor Tensor[(1, 1, 1048576, 1048576), float32] of more than",
       image(bytes::node("Resize", {"x", "", "", "s"}, {"y"}), integers("s", {1, 1, k1, k1}))},
      {"node `y` (Conv): a tensor", image(bytes::node("Conv", {"x", "w"}, {"y"}, pads), kernel)},
      {"node `y` (ConvTranspose): a tensor",
       image(bytes::node("ConvTranspose", {"x", "w"}, {"y"}, bytes::integers("strides", {k1, k1})), kernel)},
      {"node `y` (MatMul): a tensor Tensor[(33554432, 33554432), float32] of more than",
       model(bytes::node("Transpose", {"x"}, {"t"}) + bytes::node("MatMul", {"x", "t"}, {"y"}), "",
             {int64_t{1} << 25, 1})},
  };
  for (const auto& [message, content] : cases) EXPECT_THAT(refusal(content), HasSubstr(message));
}

/// Each operand in another order, without a product of matrices anywhere: a chain of quotients of places in
/// one long dimension was planned for hours.
TEST(OnnxHostile, ManyOperandsOfManyLettersAreMultipliedAsTheyAre) {
  const std::string letters = "abcdefghijklmnopqrstuvwx";
  std::string equation;
  std::vector<std::string> operands;
  for (size_t i = 0; i < letters.size(); ++i) {
    equation += (i ? "," : "") + letters.substr(i) + letters.substr(0, i);
    operands.emplace_back("x");
  }
  TemporaryFolder folder;
  const std::string path = folder / "einsum.onnx";
  write_file(path,
             model(bytes::node("Einsum", operands, {"y"}, bytes::text("equation", equation + "->" + letters)),
                   "", std::vector<int64_t>(letters.size(), 2)));
  const std::string text = relay::print(import_file(path).module);
  EXPECT_THAT(text, HasSubstr("multiply("));
  EXPECT_THAT(text, Not(HasSubstr("reshape(")));
  EXPECT_THAT(refusal(model(
                  bytes::node("Einsum", {"x", "x", "x"}, {"y"}, bytes::text("equation", "ab,cd,ef->abcdef")),
                  "", {1 << 15, 1 << 15})),
              HasSubstr("node `y` (Einsum): a tensor"));
}

/// Blocks of no elements were scheduled for minutes, or refused without a word of the node.
TEST(OnnxHostile, OfNoElementsNothingIsComputed) {
  const auto text_of = [](const std::string& content) {
    TemporaryFolder folder;
    write_file(folder / "empty.onnx", content);
    return relay::print(import_file(folder / "empty.onnx").module);
  };
  const std::string kernel = tensor("w", {64, 0, 2, 2}, kFloat, field(9, "")),
                    moves = tensor("m", {1, 8, 2, 2}, kFloat, field(9, std::string(128, '\0'))),
                    weight = tensor("w", {0, 4}, kFloat, field(9, ""));
  for (const std::string& content :
       {model(bytes::node("DeformConv", {"x", "w", "m"}, {"y"}), kernel + moves, {1, 0, 3, 3}),
        model(bytes::node("Conv", {"x", "w"}, {"y"}), kernel, {1, 0, 300, 300}),
        model(bytes::node("MatMul", {"x", "w"}, {"y"}), weight, {3, 0})}) {
    const std::string text = text_of(content);
    EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("take("), HasSubstr("conv2d("), HasSubstr("dense("))));
  }
  EXPECT_THAT(text_of(model(relu("x", "y"), "", {0, 4})), Not(HasSubstr("relu(")));
}

/// One kernel of 3,000 arguments was compiled for more than a minute.
TEST(OnnxHostile, AConcatenationOfThousandsIsOneOfMany) {
  const std::string content =
      model(bytes::node("Concat", std::vector<std::string>(3000, "x"), {"y"}, bytes::integer("axis", 0)));
  TemporaryFolder folder;
  write_file(folder / "many.onnx", content);
  const relay::Module fused =
      relay::fuse_ops(relay::canonicalize_ops(relay::infer_type(import_file(folder / "many.onnx").module)));
  size_t functions = 0;
  post_order(fused->functions.at("main")->body, [&](const NodeRef& node) {
    const auto* call = dynamic_cast<const relay::Call*>(node.get());
    if (!call || !call->callee.as<relay::Function>()) return;
    ++functions;
    const auto* body = call->callee.as<relay::Function>();
    size_t reads = 0;
    post_order(body->body, [&](const NodeRef& inner) {
      if (const auto* tuple = dynamic_cast<const relay::Tuple*>(inner.get())) reads += tuple->items.size();
    });
    EXPECT_LE(reads, 321 + 48);
  });
  EXPECT_GE(functions, 3000 / 321);
}

/// Recursion that is as deep as the file says would end the process.
TEST(OnnxHostile, NestingEndsWhereProtobufEndsIt) {
  std::string type = field(1, field(1, kFloat));
  for (int i = 0; i < 20'000; ++i) type = field(4, field(1, type));
  EXPECT_THAT(
      refusal(field(1, int64_t{8}) + field(7, relu("x", "y") + field(11, field(1, "x") + field(2, type)))),
      HasSubstr("not an ONNX model, or cut off"));
  std::string graph = relu("x", "o");
  for (int i = 0; i < 1000; ++i)
    graph = bytes::node(
        "If", {"c"}, {"o"},
        bytes::subgraph("then_branch", graph) + bytes::subgraph("else_branch", graph.substr(0, 0)));
  EXPECT_THAT(refusal(field(1, int64_t{8}) + field(7, graph)), HasSubstr("not an ONNX model, or cut off"));
}

TEST(OnnxHostile, CyclesAreNoGraphs) {
  EXPECT_THAT(refusal(model(relu("y", "y"))), HasSubstr("which nothing defines before it"));
  EXPECT_THAT(refusal(model(relu("b", "a") + relu("a", "b") + bytes::node("Add", {"x", "b"}, {"y"}))),
              HasSubstr("which nothing defines before it"));
}

/// Of what has one name nobody says which is meant: the second input was dropped, and the later value
/// counted.
TEST(OnnxHostile, ANameIsOneValues) {
  const std::string twice = refusal(model(relu("x", "y") + relu("x", "y")));
  EXPECT_THAT(twice, HasSubstr("`y` is defined twice"));
  EXPECT_THAT(refusal(model(relu("x", "x") + relu("x", "y"))), HasSubstr("`x` is defined twice"));
  const std::string w = tensor("w", {1, 4}, kFloat, field(9, std::string(16, '\0')));
  EXPECT_THAT(refusal(model(relu("x", "w") + relu("w", "y"), w)), HasSubstr("`w` is defined twice"));
  const std::string x = field(11, field(1, "x") + field(2, field(1, field(1, kFloat) + field(2, ""))));
  EXPECT_THAT(refusal(model(relu("x", "y"), x)), HasSubstr("`x` is defined twice"));
  EXPECT_EQ(refusal(model(bytes::node("Add", {"x", "w"}, {"y"}), w + w)), "") << "there are such files";
}

/// Names of 800,000 bytes, which were printed whole, and 50,000 operators that there are not.
TEST(OnnxHostile, ARefusalIsBrief) {
  const std::string name(800'000, 'N');
  std::string nodes;
  for (int i = 0; i < 50'000; ++i) nodes += bytes::node(fmt::format("Op{}", i), {"x"}, {"y"});
  const std::pair<const char*, std::string> cases[] = {
      {"unsupported operator: NNN", model(bytes::node(name, {"x"}, {"y"}))},
      {"node `y` (Relu) uses `NNN", model(relu(name, "y"))},
      {"NN... (800000 bytes)` is unknown",
       model(bytes::node("GridSample", {"x", "x"}, {"y"}, bytes::text("mode", name)), "", {1, 2, 2, 2})},
      {"unsupported operators: Op0, Op1", model(nodes)},
  };
  for (const auto& [message, content] : cases) {
    const std::string said = refusal(content);
    EXPECT_THAT(said, HasSubstr(message));
    EXPECT_LT(said.size(), 5000);
  }
}

/// Of several models a message that names none leaves one guessing.
TEST(OnnxHostile, ARefusalNamesTheFile) {
  const std::string typed =
      field(11, field(1, "x") + field(2, field(1, field(1, int64_t{8}) + field(2, field(1, field(1, 4))))));
  const std::string strings =
      field(1, int64_t{8}) + field(7, relu("x", "y") + typed + field(12, field(1, "y")));
  const std::string odd = model(bytes::node("Add", {"x", "w"}, {"y"}),
                                tensor("w", {1, 4}, int64_t{99}, field(9, std::string(16, '\0'))));
  const std::string zero =
      model(bytes::node("Cast", {"x"}, {"b"}, bytes::integer("to", 2)) +
                bytes::node("ConvInteger", {"b", "w", "z"}, {"y"}),
            tensor("w", {1, 1, 2, 2}, 2, field(9, std::string(4, '\0'))) + tensor("z", {0}, 2, field(9, "")),
            {1, 1, 4, 4});
  const std::pair<const char*, std::string> cases[] = {
      {"input `x`: element type STRING is not supported", strings},
      {"element type 99 is not supported", odd},
      {"tensor `w`: external data `../x` lies outside the model's folder", add_outside("../x")},
      {"node `y` (ConvInteger): zero points of shapes (0) and ()", zero},
  };
  for (const auto& [message, content] : cases)
    EXPECT_THAT(refusal(content), testing::AllOf(HasSubstr("/hostile.onnx: "), HasSubstr(message)));
}

TEST(OnnxHostile, ANodeGivesSomething) {
  EXPECT_THAT(refusal(model(bytes::node("Split", {"x"}, {}) + relu("x", "y"))),
              HasSubstr("node `` (Split): has no output"));
}

/// Found by fuzz_onnx.
TEST(OnnxHostile, ACountOfStepsIsOneNumber) {
  EXPECT_THAT(refusal(model(bytes::node("Loop", {"steps", "x"}, {"y"}), integers("steps", {}))),
              HasSubstr("input 0 has 0 numbers, must have one"));
}

/// A chain of 30,000 nodes: no recursion over it, and no time that grows with its square.
TEST(OnnxHostile, ALongChainIsRead) {
  std::string nodes;
  constexpr int kNodes = 30'000;
  for (int i = 0; i < kNodes; ++i)
    nodes += relu(i == 0 ? "x" : fmt::format("t{}", i), i + 1 == kNodes ? "y" : fmt::format("t{}", i + 1));
  EXPECT_EQ(refusal(model(nodes)), "");
}

/// Lengths that promise more than there is.
TEST(OnnxHostile, LengthsThatLie) {
  EXPECT_THAT(refusal(field(1, int64_t{8}) + "\x3a\xff\xff\xff\xff\x07x"), HasSubstr("not an ONNX model"));
  const std::string sound = model(relu("x", "y"));
  for (size_t size = 0; size < sound.size(); ++size)
    refusal(sound.substr(0, size));  // whatever it says of them
}

}  // namespace
}  // namespace lathe::onnx
