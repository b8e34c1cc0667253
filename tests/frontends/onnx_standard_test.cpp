// Corners of operators where the standard says what is easily got wrong. Numbers without a formula are those
// of ONNX Runtime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/frontends/one_node.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::Pointwise;
MATCHER(IsNear, "") { return std::fabs(std::get<0>(arg) - std::get<1>(arg)) < 1e-5; }

/// By the rules of an older version.
Tensor run_at_opset(int64_t opset, const std::string& op, const Tensor& input,
                    const std::string& attributes) {
  return outputs_of(
      import_bytes(bytes::model(bytes::node(op, {"x"}, {"y"}, attributes), bytes::input("x"), {"y"}, opset),
                   "m.onnx", {.constants = {{"x", input}}}))[0];
}

/// noop_with_empty_axes: of no axes, each element alone is what is reduced.
TEST(OnnxStandard, ReductionsOverNoAxesStillCompute) {
  const Tensor x = floats({-2, 3, 0.5}, {3});
  const auto reduced = [&](const char* op) {
    return values(run(op, {x}, bytes::integer("noop_with_empty_axes", 1))[0]);
  };
  EXPECT_THAT(reduced("ReduceSumSquare"), ElementsAre(4, 9, 0.25));
  EXPECT_THAT(reduced("ReduceL1"), ElementsAre(2, 3, 0.5));
  EXPECT_THAT(reduced("ReduceL2"), Pointwise(IsNear(), {2., 3., 0.5}));
  EXPECT_THAT(reduced("ReduceSum"), ElementsAre(-2, 3, 0.5));
  EXPECT_THAT(reduced("ReduceLogSumExp"), Pointwise(IsNear(), {-2., 3., 0.5}));
  const std::vector<double> logs = reduced("ReduceLogSum");
  EXPECT_TRUE(std::isnan(logs[0]));
  EXPECT_NEAR(logs[1], std::log(3), 1e-6);
}

/// The root of a sum, and logarithms, cut off to integers.
TEST(OnnxStandard, ReductionsOfIntegersAreIntegers) {
  for (DataType dtype : {kInt32, kInt64, kUInt32, kUInt64}) {
    SCOPED_TRACE(to_string(dtype));
    Tensor x({2, 2}, dtype);
    for (int64_t i = 0; i < 4; ++i) x.set_integer(i, 3 + i);
    const auto reduced = [&](const char* op) {
      const Tensor y = run(op, {x, longs({1})}, bytes::integer("keepdims", 0))[0];
      EXPECT_EQ(y.dtype(), dtype);
      return values(y);
    };
    EXPECT_THAT(reduced("ReduceL2"), ElementsAre(5, 7));         // 25, 61
    EXPECT_THAT(reduced("ReduceLogSum"), ElementsAre(1, 2));     // of 7, 11
    EXPECT_THAT(reduced("ReduceLogSumExp"), ElementsAre(4, 6));  // 4.3, 6.3
    EXPECT_THAT(reduced("ReduceSumSquare"), ElementsAre(25, 61));
    EXPECT_THAT(reduced("ReduceL1"), ElementsAre(7, 11));
  }
}

TEST(OnnxStandard, HardmaxWasOfRowsFromItsAxisOn) {
  const Tensor x = floats({1, 5, 7, 2, 0, 0, -1, 0}, {2, 2, 2});
  EXPECT_THAT(values(run_at_opset(11, "Hardmax", x, bytes::integer("axis", 1))),
              ElementsAre(0, 0, 1, 0, 1, 0, 0, 0));
  EXPECT_THAT(values(run_at_opset(13, "Hardmax", x, bytes::integer("axis", 1))),
              ElementsAre(0, 1, 1, 0, 1, 1, 0, 0));
}

TEST(OnnxStandard, PowersOfIntegersAreExact) {
  const auto power = [](const Tensor& base, const Tensor& exponent) {
    const Tensor y = run("Pow", {base, exponent})[0];
    EXPECT_EQ(y.dtype(), base.dtype());
    std::vector<int64_t> result;
    for (int64_t i = 0; i < y.size(); ++i) result.push_back(y.integer(i));
    return result;
  };
  EXPECT_THAT(power(longs({3, 10, -7, 2}), longs({39, 18, 21, 62})),
              ElementsAre(4052555153018976267, 1000000000000000000, -558545864083284007, int64_t{1} << 62));
  EXPECT_THAT(power(longs({2, 1, -1, -1, 5}), longs({-1, -5, -3, -2, 0})), ElementsAre(0, 1, -1, 1, 1));
  // They wrap, and the exponent may be of another type.
  EXPECT_THAT(power(longs({3}), longs({41})), ElementsAre(-420491770248316829));
  const auto of_type = [](const std::vector<int64_t>& numbers, DataType dtype) {
    Tensor tensor({static_cast<int64_t>(numbers.size())}, dtype);
    for (size_t i = 0; i < numbers.size(); ++i) tensor.set_integer(static_cast<int64_t>(i), numbers[i]);
    return tensor;
  };
  EXPECT_THAT(power(of_type({3, 2, 3}, kInt32), longs({20, 33, -1})),
              ElementsAre(static_cast<int32_t>(3486784401), 0, 0));
  EXPECT_THAT(power(of_type({2, 3}, kUInt8), longs({7, int64_t{1} << 32})), ElementsAre(128, 1));
  EXPECT_THAT(power(of_type({3, 4, 9}, kInt32), floats({0.5, -1, 2.5}, {3})), ElementsAre(1, 0, 243));
}

/// One step from a cell of 3, of gates whose sums are 9: ONNX Runtime clips these and not the cell.
TEST(OnnxStandard, AnLstmClipsItsGatesAlone) {
  const auto some = [](int64_t count, float value) {
    return floats(std::vector<float>(static_cast<size_t>(count), value), {1, count});
  };
  const std::vector<Tensor> results =
      run("LSTM",
          {floats({0}, {1, 1, 1}), floats({0, 0, 0, 0}, {1, 4, 1}), floats({0, 0, 0, 0}, {1, 4, 1}),
           some(8, 4.5F), Tensor(), floats({0}, {1, 1, 1}), floats({3}, {1, 1, 1})},
          bytes::integer("hidden_size", 1) + bytes::real("clip", .5F), 3);
  const double gate = 1 / (1 + std::exp(-.5)), cell = gate * 3 + gate * std::tanh(.5);
  EXPECT_NEAR(results[2].value(0), cell, 1e-6);
  EXPECT_NEAR(results[1].value(0), gate * std::tanh(cell), 1e-6);
}

TEST(OnnxStandard, AMissingBoundOfClipIsTheTypes) {
  const float inf = std::numeric_limits<float>::infinity(), most = std::numeric_limits<float>::max();
  const Tensor x = floats({-inf, 1, 5, inf}, {4}), three = floats({3}, {});
  EXPECT_THAT(values(run("Clip", {x})[0]), ElementsAre(-most, 1, 5, most));
  EXPECT_THAT(values(run("Clip", {x, three})[0]), ElementsAre(3, 3, 5, most));
  EXPECT_THAT(values(run("Clip", {x, Tensor(), three})[0]), ElementsAre(-most, 1, 3, 3));
  EXPECT_THAT(values(outputs_of(import_node("Clip", {x}, bytes::real("max", 3), 1, 6))[0]),
              ElementsAre(-most, 1, 3, 3));
  EXPECT_THAT(values(outputs_of(import_node("Clip", {run("Cast", {x}, bytes::integer("to", 10))[0]}))[0]),
              ElementsAre(-65504, 1, 5, 65504));
  EXPECT_TRUE(std::isnan(run("Clip", {floats({NAN}, {1})})[0].value(0)));
}

TEST(OnnxStandard, RangesOfIntegersAreExact) {
  const auto range = [](DataType dtype, int64_t start, int64_t limit, int64_t delta) {
    const auto number = [&](int64_t value) {
      Tensor tensor({}, dtype);
      tensor.set_integer(0, value);
      return tensor;
    };
    const Tensor y = run("Range", {number(start), number(limit), number(delta)})[0];
    EXPECT_EQ(y.dtype(), dtype);
    std::vector<int64_t> result;
    for (int64_t i = 0; i < y.size(); ++i) result.push_back(y.integer(i));
    return result;
  };
  constexpr int64_t kOdd = (int64_t{1} << 53) + 1;
  EXPECT_THAT(range(kInt64, kOdd, kOdd + 3, 1), ElementsAre(kOdd, kOdd + 1, kOdd + 2));
  EXPECT_THAT(range(kInt64, kOdd, kOdd - 5, -2), ElementsAre(kOdd, kOdd - 2, kOdd - 4));
  EXPECT_THAT(range(kInt64, INT64_MIN, INT64_MAX, int64_t{1} << 62),
              ElementsAre(INT64_MIN, -(int64_t{1} << 62), 0, int64_t{1} << 62));
  EXPECT_THAT(range(kInt64, INT64_MAX, INT64_MIN, INT64_MIN), ElementsAre(INT64_MAX, -1));
  EXPECT_THAT(range(kInt64, 5, 5, 1), ElementsAre());
  EXPECT_THAT(range(kInt64, 5, 7, -1), ElementsAre());
  EXPECT_THAT(range(kInt32, 10, 5, -2), ElementsAre(10, 8, 6));
  const auto refusal = [&](int64_t start, int64_t limit, int64_t delta) {
    return thrown_by([&] { range(kInt64, start, limit, delta); });
  };
  EXPECT_EQ(refusal(1, 2, 0), "m.onnx: node `out_0` (Range): a step of 0");
  EXPECT_EQ(
      refusal(INT64_MIN, INT64_MAX, 1),
      "m.onnx: node `out_0` (Range): from -9.223372036854776e+18 to 9.223372036854776e+18 by 1 is no range");
  EXPECT_THAT(values(run("Range", {floats({1}, {}), floats({2.2}, {}), floats({0.5}, {})})[0]),
              ElementsAre(1, 1.5, 2));
}

TEST(OnnxStandard, TheBestOfNone) {
  const Tensor x = floats({1, 3, 2, 6, 4, 5}, {2, 3});
  const auto none = run("TopK", {x, longs({0})}, "", 2);
  EXPECT_EQ(none[0].shape(), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(none[1].shape(), (std::vector<int64_t>{2, 0}));
  EXPECT_EQ(none[1].dtype(), kInt64);
  EXPECT_EQ(thrown_by([&] {
              run("TopK", {x, longs({-1})}, "", 2);
            }),
            "m.onnx: node `out_0` (TopK): k is -1, must not be negative");
}

/// Labels that occur once, sorted.
TEST(OnnxStandard, EinsumWithoutAnOutput) {
  const auto of = [](const char* equation, const std::vector<Tensor>& operands) {
    const Tensor y = run("Einsum", operands, bytes::text("equation", equation))[0];
    return std::pair(y.shape(), values(y));
  };
  using Shape = std::vector<int64_t>;
  const Tensor square = floats({1, 2, 3, 4}, {2, 2}), cube = floats({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  EXPECT_EQ(of("ii", {square}), std::pair(Shape{}, std::vector<double>{5}));
  EXPECT_EQ(of("iij", {cube}), std::pair(Shape{2}, std::vector<double>{8, 10}));
  EXPECT_EQ(of("...ii", {cube}), std::pair(Shape{2}, std::vector<double>{5, 13}));
  EXPECT_EQ(of("ba", {square}), std::pair(Shape{2, 2}, std::vector<double>{1, 3, 2, 4}));
  EXPECT_EQ(of("ii,i", {square, floats({10, 100}, {2})}), std::pair(Shape{}, std::vector<double>{410}));
  for (const char* equation : {"i1", "01->10", "ij->i1"})
    EXPECT_THAT(thrown_by([&] { of(equation, {square}); }), testing::HasSubstr("is not of letters"))
        << equation;
}

TEST(OnnxStandard, AVectorIsABatchOfOneChannel) {
  const Tensor x = floats({1, 2, 6}, {3}), one = floats({2}, {1}), three = floats({3}, {1});
  // (x - mean) / sqrt(variance) * scale + bias
  const std::vector<Tensor> inputs{x, one, three, one, floats({4}, {1})};
  EXPECT_THAT(values(run("BatchNormalization", inputs, bytes::real("epsilon", 0))[0]),
              Pointwise(IsNear(), {2., 3., 7.}));
  const auto trained = run("BatchNormalization", inputs,
                           bytes::real("momentum", 0.5f) + bytes::integer("training_mode", 1), 3);
  EXPECT_EQ(trained[0].shape(), x.shape());
  EXPECT_THAT(values(trained[1]), Pointwise(IsNear(), {2.5}));
  EXPECT_THAT(values(trained[2]), Pointwise(IsNear(), {2 + 7. / 3}));
}

TEST(OnnxStandard, ShrinksInTheTypeOfItsInput) {
  const std::string attributes = bytes::real("lambd", 1.5f) + bytes::real("bias", 1.5f);
  EXPECT_THAT(values(run("Shrink", {longs({-3, 1, 5, 2})}, attributes)[0]), ElementsAre(-1, 0, 3, 0));
  EXPECT_EQ(run("Shrink", {longs({1'000'000'001})}, attributes)[0].integer(0), 999'999'999);
  Tensor x({2}, kFloat64);
  x.set(0, 1e10 + 0.25), x.set(1, -2);
  EXPECT_THAT(values(run("Shrink", {x}, attributes)[0]), ElementsAre(1e10 - 1.25, -0.5));
}

TEST(OnnxStandard, CubicSamplesAreKeptWithinTheBorderOneByOne) {
  const Tensor image = floats({1, 5, 2, 7, 3, 9, 4, 6, 8, 0, 11, 10}, {1, 1, 3, 4}),
               grid = floats({-0.95, -0.95, 1.3, 0.2, 0.1, 0.93, -1.5, 1.5, 0.5, 0.5}, {1, 1, 5, 2});
  const auto sampled = [&](const char* mode, int64_t corners) {
    return values(run("GridSample", {image, grid},
                      bytes::text("mode", mode) + bytes::text("padding_mode", "border") +
                          bytes::integer("align_corners", corners))[0]);
  };
  EXPECT_THAT(sampled("cubic", 0), Pointwise(IsNear(), {0.37998962, 7.0057449, 7.9023767, 8., 9.9562988}));
  EXPECT_THAT(sampled("cubic", 1),
              Pointwise(IsNear(), {1.3291106, 6.7288837, 6.9159999, 8.7961426, 8.0336914}));
  EXPECT_THAT(sampled("linear", 0), Pointwise(IsNear(), {1., 7.2, 7.7, 8., 9.125}));
  EXPECT_THAT(sampled("nearest", 0), ElementsAre(1, 6, 11, 8, 11));
}

/// Padding is the least number of these types, and not told apart from an element of it.
TEST(OnnxStandard, MaximaOfBytesAreNeverInThePadding) {
  const std::string attributes =
      bytes::integers("kernel_shape", {3, 3}) + bytes::integers("pads", {1, 1, 1, 1});
  for (const auto& [dtype, least] : {std::pair{kUInt8, 0}, std::pair{kInt8, -128}}) {
    const Tensor x = full({1, 1, 2, 2}, dtype, least);
    const auto outputs = run("MaxPool", {x}, attributes, 2);
    EXPECT_THAT(values(outputs[0]), ElementsAre(least, least, least, least));
    EXPECT_THAT(values(outputs[1]), ElementsAre(0, 0, 0, 0));
  }
}

TEST(OnnxStandard, NormsOfWindowsThatReachBeyondTheEnd) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6}, {1, 1, 6});
  const std::string ceil = bytes::integer("ceil_mode", 1);
  EXPECT_THAT(values(run("LpPool", {x},
                         ceil + bytes::integers("kernel_shape", {3}) + bytes::integers("strides", {2}))[0]),
              Pointwise(IsNear(), {3.7416575, 7.0710678, 7.8102497}));
  EXPECT_THAT(values(run("LpPool", {x},
                         ceil + bytes::integers("kernel_shape", {2}) + bytes::integers("strides", {2}) +
                             bytes::integer("p", 1))[0]),
              ElementsAre(3, 7, 11));
}

/// Each function that has parameters takes the next ones of the lists.
TEST(OnnxStandard, ActivationsTakeTheirParametersInTurn) {
  const auto rnn = [](const std::vector<std::string>& names, const std::vector<float>& alphas,
                      const std::vector<float>& betas) {
    const auto list = [](const std::string& name, const std::vector<float>& numbers) {
      std::string result = bytes::field(1, name);
      for (float number : numbers) {
        std::string bits(sizeof number, '\0');
        std::memcpy(bits.data(), &number, sizeof number);
        result += bytes::varint(7 << 3 | 5) + bits;
      }
      return bytes::field(5, result + bytes::field(20, int64_t{6}));
    };
    std::string texts = bytes::field(1, std::string("activations"));
    for (const std::string& name : names) texts += bytes::field(9, name);
    return values(run("RNN", {floats({-2}, {1, 1, 1}), floats({1, 1}, {2, 1, 1}), floats({0, 0}, {2, 1, 1})},
                      bytes::integer("hidden_size", 1) + bytes::text("direction", "bidirectional") +
                          bytes::field(5, texts + bytes::field(20, int64_t{8})) +
                          list("activation_alpha", alphas) + list("activation_beta", betas))[0]);
  };
  EXPECT_THAT(rnn({"Tanh", "LeakyRelu"}, {0.5}, {}), Pointwise(IsNear(), {std::tanh(-2), -1.}));
  EXPECT_THAT(rnn({"Elu", "LeakyRelu"}, {0.5}, {}), Pointwise(IsNear(), {0.5 * std::expm1(-2), -0.02}));
  EXPECT_THAT(rnn({"LeakyRelu", "Affine"}, {0.5, 0.25}, {3}), Pointwise(IsNear(), {-1., 2.5}));
  EXPECT_THAT(rnn({"Affine", "HardSigmoid"}, {0.5, 0.1f}, {3, 0.3f}), Pointwise(IsNear(), {2., 0.1}));
}

/// Statistics of another type than the data's keep it.
TEST(OnnxStandard, StatisticsOfABatchKeepTheirType) {
  Tensor x({2, 1, 2}, kFloat16);
  for (int64_t i = 0; i < 4; ++i) x.set(i, static_cast<double>(i));
  const Tensor scale = full({1}, kFloat16, 1), bias = full({1}, kFloat16, 0);
  const auto outputs = run("BatchNormalization", {x, scale, bias, floats({0.1f}, {1}), floats({2}, {1})},
                           bytes::integer("training_mode", 1), 3);
  EXPECT_EQ(outputs[0].dtype(), kFloat16);
  EXPECT_EQ(outputs[1].dtype(), kFloat32);
  EXPECT_EQ(outputs[2].dtype(), kFloat32);
  EXPECT_THAT(values(outputs[1]), Pointwise(IsNear(), {0.1 * 0.9 + 1.5 * 0.1}));
  EXPECT_THAT(values(outputs[2]), Pointwise(IsNear(), {2 * 0.9 + 1.25 * 0.1}));
}

/// sampling_ratio 0, the default: as many samples in each region as its bins have pixels.
TEST(OnnxStandard, RegionsAreSampledByTheirSize) {
  Tensor image({2, 2, 5, 6}, kFloat32);
  for (int64_t i = 0; i < image.size(); ++i) image.set(i, static_cast<double>((i * 37 + 11) % 101) / 50 - 1);
  const Tensor regions = floats({0, 0, 8, 8, 2, 3, 11, 9, -3, -2, 14, 12, 4, 4, 4.5, 4.25}, {4, 4});
  const auto aligned = [&](const Tensor& x, const Tensor& batch, const char* mode) {
    return values(run("RoiAlign", {x, regions, batch},
                      bytes::integer("output_height", 2) + bytes::integer("output_width", 3) +
                          bytes::real("spatial_scale", 0.5f) +
                          bytes::text("coordinate_transformation_mode", mode))[0]);
  };
  const std::vector<double> expected{
      -0.39499998, 0.02499999,  -0.2508333,  0.15249999,  -0.18500002, 0.21249999,  -0.41499999, 0.005,
      -0.27083331, 0.13249999,  -0.20500001, 0.19249999,  0.09484378,  -0.11289062, 0.29484373,  -0.40984374,
      0.37664062,  -0.20984374, 0.07484375,  -0.13289063, 0.27484375,  -0.42984372, 0.35664064,  -0.22984377,
      -0.17319445, -0.0423438,  0.11717881,  0.17863717,  -0.12348959, 0.01223089,  -0.18319447, -0.0573438,
      0.10717881,  0.16863719,  0.09472228,  0.00223089,  -0.16083325, -0.26749998, -0.37416655, -0.13583326,
      -0.24249999, -0.34916654, -0.18083327, -0.28749999, -0.39416659, -0.15583327, -0.26249999, -0.36916655};
  EXPECT_THAT(aligned(image, longs({0, 1, 0, 1}), "half_pixel"), Pointwise(IsNear(), expected));
  EXPECT_NEAR(aligned(image, longs({0, 1, 0, 1}), "output_half_pixel")[0], 0.11333336, 1e-5);
  Tensor one({1, 2, 5, 6}, kFloat32);
  for (int64_t i = 0; i < one.size(); ++i) one.set(i, image.value(i));
  const std::vector<double> of_one = aligned(one, longs({0, 0, 0, 0}), "half_pixel");
  EXPECT_NEAR(of_one[0], -0.39499998, 1e-5);
  EXPECT_NEAR(of_one[12], 0.13484374, 1e-5);
}

/// As `stash_type` says: float32, whatever is normalised.
TEST(OnnxStandard, ALayerNormTellsItsMeanInFloat32) {
  const Tensor x = tensor_of<double>({1, 3, 5, 7}, {2, 2}, kFloat64),
               scale = tensor_of<double>({1, 1}, {2}, kFloat64);
  const auto outputs = run("LayerNormalization", {x, scale}, bytes::real("epsilon", 0), 3);
  EXPECT_EQ(outputs[0].dtype(), kFloat64);
  for (size_t i : {1, 2}) EXPECT_EQ(outputs[i].dtype(), kFloat32) << i;
  EXPECT_THAT(values(outputs[1]), ElementsAre(2, 6));
}

}  // namespace
}  // namespace lathe::onnx
