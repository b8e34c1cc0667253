#include "core/frontends/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/support/file.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

const std::string kSuite = "/usr/share/libonnx-testdata/data/";  // Debian's libonnx-testdata
std::string node_case(const std::string& name) { return kSuite + "node/" + name + "/model.onnx"; }

std::vector<int64_t> output_shape(const ImportedModel& model) {
  const relay::Type& type = model.module->functions.at("main")->body->checked_type;
  return relay::constant_shape(*type.as<relay::TensorType>());
}

TEST(OnnxImport, ConvolutionGetsItsShape) {
  ImportedModel model = import_file(node_case("test_conv_with_strides_padding"));
  ASSERT_EQ(model.inputs.size(), 2u);
  EXPECT_EQ(model.inputs[0].name, "x");
  EXPECT_EQ(output_shape(model), (std::vector<int64_t>{1, 1, 4, 3}));
}

TEST(OnnxImport, ShapeArithmeticVanishes) {
  ImportedModel model = import_file(node_case("test_shape"));
  EXPECT_TRUE(model.module->functions.at("main")->body.as<relay::Constant>());
}

TEST(OnnxImport, PiecesOfAKnownTensorAreKnown) {
  Tensor six = tensor_of<float>({1, 2, 3, 4, 5, 6}, {6}, kFloat32);
  ImportedModel model = import_file(node_case("test_split_equal_parts_1d"), {.constants = {{"input", six}}});
  const auto* pieces = model.module->functions.at("main")->body.as<relay::Tuple>();
  ASSERT_TRUE(pieces && pieces->items.size() == 3);
  const auto* last = pieces->items[2].as<relay::Constant>();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->value.value(0), 5);
}

TEST(OnnxImport, DequantizedConstantsStayIntegers) {
  Tensor x = tensor_of<uint8_t>({0, 3, 128, 255}, {4}, kUInt8);
  ImportedModel model = import_file(node_case("test_dequantizelinear"), {.constants = {{"x", x}}});
  const auto* call = model.module->functions.at("main")->body.as<relay::Call>();
  ASSERT_TRUE(call) << "a float constant would hide the weights of a quantized model";
  EXPECT_EQ(call->callee.as<relay::OpNode>()->name, "qnn.dequantize");
}

TEST(OnnxImport, GivenShapesReplaceDynamicDimensionsOnly) {
  std::string path = node_case("test_relu");
  EXPECT_NE(thrown_by([&] {
              import_file(path, {.shapes = {{"x", {9, 9, 9}}}});
            }).find("dimension 0 is 3, given 9"),
            std::string::npos);
  EXPECT_NE(thrown_by([&] {
              import_file(path, {.shapes = {{"y", {1}}}});
            }).find("no input is named `y`"),
            std::string::npos);
}

/// A field of a protobuf message that is bytes: a string, or a message.
std::string bytes_field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string number_field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}

/// An input of float32; dimensions are numbers or names.
std::string input_of(const std::string& name, const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& dim : dims) {
    bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape += bytes_field(1, number ? number_field(1, std::stoi(dim)) : bytes_field(2, dim));
  }
  std::string tensor = number_field(1, 1) + bytes_field(2, shape);
  return bytes_field(11, bytes_field(1, name) + bytes_field(2, bytes_field(1, tensor)));
}

/// The file of one node that writes y, opset 15.
std::string one_node_model(const std::string& node, const std::string& inputs) {
  std::string graph =
      bytes_field(1, node + bytes_field(2, "y")) + inputs + bytes_field(12, bytes_field(1, "y"));
  return number_field(1, 8) + bytes_field(7, graph) + bytes_field(8, number_field(2, 15));
}

/// The file of y = op(a, b).
std::string binary_model(const std::string& op, const std::string& inputs) {
  return one_node_model(bytes_field(1, "a") + bytes_field(1, "b") + bytes_field(4, op), inputs);
}

TEST(OnnxImport, AShapeMayEndBeyondItsRank) {
  std::string largest = "\x18" + std::string(8, '\xff') + '\x7f';  // field 3, INT64_MAX as a varint
  std::string end = bytes_field(1, "end") + largest + std::string{'\xa0', '\x01', '\x02'};  // type 20: INT
  std::string node = bytes_field(1, "a") + bytes_field(4, "Shape") + bytes_field(5, end);
  ImportedModel model = import_bytes(one_node_model(node, input_of("a", {"3", "4"})), "m.onnx");
  const auto* shape = model.module->functions.at("main")->body.as<relay::Constant>();
  ASSERT_TRUE(shape);
  EXPECT_EQ(shape->value.shape(), (std::vector<int64_t>{2}));
}

TEST(OnnxImport, ANamedDimensionIsOneNumberInAllInputs) {
  std::string file = binary_model("Add", input_of("a", {"n", "4"}) + input_of("b", {"n", "m"}));
  ImportedModel model = import_bytes(file, "m.onnx", {.shapes = {{"b", {5, 4}}}});
  EXPECT_EQ(model.inputs[0].shape, (std::vector<int64_t>{5, 4})) << "though it stands before b";
  EXPECT_EQ(thrown_by([&] {
              import_bytes(file, "m.onnx", {.shapes = {{"a", {6, 4}}, {"b", {5, 4}}}});
            }),
            "m.onnx: dimension `n` is 6 in input `a` and 5 in input `b`");
  EXPECT_EQ(thrown_by([&] {
              import_bytes(file, "m.onnx", {.shapes = {{"a", {6}}}});
            }),
            "m.onnx: input `a` has rank 2, given shape (6)");
}

TEST(OnnxImport, OpenDimensionsAreNotGuessed) {
  std::string file = binary_model("MatMul", input_of("a", {"n", "k"}) + input_of("b", {"k", "4"}));
  EXPECT_EQ(
      thrown_by([&] { import_bytes(file, "m.onnx"); }),
      "m.onnx: the model leaves dimensions of its inputs open: `a` is [n, k], `b` is [k, 4]; say what they "
      "are, as in --shape a=1x128");
  EXPECT_EQ(thrown_by([&] {
              import_bytes(file, "m.onnx", {.shapes = {{"b", {3, 4}}}});
            }),
            "m.onnx: the model leaves dimensions of its inputs open: `a` is [n, k]; say what they are, as in "
            "--shape a=1x3");
  EXPECT_EQ(output_shape(import_bytes(file, "m.onnx", {.shapes = {{"a", {2, 3}}}})),
            (std::vector<int64_t>{2, 4}))
      << "k is given once";
}

TEST(OnnxImport, UnsupportedOperatorIsOneClearMessage) {
  std::string path = node_case("test_strnormalizer_nostopwords_nochangecase");
  EXPECT_EQ(thrown_by([&] { import_file(path); }), path + ": unsupported operator: StringNormalizer");
}

TEST(OnnxImport, CorruptFilesAreErrorsNotCrashes) {
  EXPECT_EQ(thrown_by([] { import_bytes("garbage", "g.onnx"); }),
            "g.onnx: not an ONNX model, or cut off (7 bytes)");
  EXPECT_EQ(thrown_by([] { import_bytes("", "e.onnx"); }), "e.onnx: the ONNX model has no graph");
  EXPECT_EQ(thrown_by([] { import_file("/nonexistent.onnx"); }),
            "cannot read /nonexistent.onnx: No such file or directory");
  // Every truncation and many single-byte changes of a real file: an Error or a model, nothing else.
  std::string bytes = read_file(node_case("test_gemm_all_attributes"));
  auto survives = [](const std::string& damaged) {
    try {
      import_bytes(damaged, "d.onnx");
    } catch (const Error&) {
    }
  };
  for (size_t size = 0; size < bytes.size(); ++size) survives(bytes.substr(0, size));
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int flip : {1, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ flip);
      survives(damaged);
    }
  }
}

/// Found by fuzz_onnx.
TEST(OnnxImport, AConvolutionOfAMatrixIsRefused) {
  std::string path = LATHE_TESTS "/frontends/crashes/conv_of_a_matrix.onnx";
  EXPECT_EQ(thrown_by([&] { import_file(path); }),
            path + ": node `y` (Conv): data of rank 2, must be 3 to 5");
}

TEST(OnnxImport, AnAxisOfAScalarIsRefused) {
  for (const char* op : {"split", "scatter"}) {
    std::string path = fmt::format("{}/frontends/crashes/{}_of_a_scalar.onnx", LATHE_TESTS, op);
    ImportOptions options;  // the file says nothing of its inputs' shapes
    for (const ValueInfo& input : declared_inputs(path)) options.shapes[input.name] = input.shape;
    EXPECT_THAT(thrown_by([&] { import_file(path, options); }),
                testing::EndsWith("axis 0 of a tensor of rank 0"));
  }
}

TEST(OnnxTensor, FilesLoadAndMalformedOnesFail) {
  Tensor x = load_tensor(kSuite + "node/test_relu/test_data_set_0/input_0.pb");
  EXPECT_EQ(x.shape(), (std::vector<int64_t>{3, 4, 5}));
  EXPECT_EQ(x.dtype(), kFloat32);
  EXPECT_THROW(load_tensor(node_case("test_relu")), Error);
}

}  // namespace
}  // namespace lathe::onnx
