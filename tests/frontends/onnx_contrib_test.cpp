// Operators of com.microsoft but attention, against the standard's on the same numbers, or computed the plain
// way. (bench/contrib_models.py writes models of each, which a race compares with ONNX Runtime.)
#include "tests/frontends/onnx_contrib.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/relay/text.h"
#include "tests/thrown_by.h"

namespace lathe::onnx {
namespace {

using bytes::real;
using bytes::reals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pointwise;

/// f of each element.
std::vector<double> each(const Tensor& x, const std::function<double(double, int64_t)>& f) {
  std::vector<double> result;
  for (int64_t i = 0; i < x.size(); ++i) result.push_back(f(x.value(i), i));
  return result;
}

TEST(OnnxContrib, ProductsTurnTheirOperands) {
  const Tensor a = random({3, 2, 4}, 1), b = random({3, 5, 4}, 2);
  const Tensor y = contrib("FusedMatMul", {a, b}, integer("transB", 1) + real("alpha", 0.5F))[0];
  ASSERT_EQ(y.shape(), (Shape{3, 2, 5}));
  EXPECT_THAT(values(y), Pointwise(IsNear(), each(y, [&](double, int64_t i) {
                                     double sum = 0;
                                     for (int64_t k = 0; k < 4; ++k)
                                       sum += a.value(i / 5 * 4 + k) * b.value((i / 10 * 5 + i % 5) * 4 + k);
                                     return sum / 2;
                                   })));
  // (rows, batch, k) and (columns, batch, k): the batch's axes lie between.
  const Tensor between =
      contrib("FusedMatMul", {random({2, 3, 4}, 3), random({5, 3, 4}, 4)},
              integer("transBatchA", 1) + integer("transBatchB", 1) + integer("transB", 1))[0];
  const auto turned = [](const Tensor& x) { return run("Transpose", {x}, integers("perm", {1, 0, 2}))[0]; };
  expect_equal({between}, contrib("FusedMatMul", {turned(random({2, 3, 4}, 3)), turned(random({5, 3, 4}, 4))},
                                  integer("transB", 1)));
  // A vector has nothing to turn.
  const Tensor vector = random({4}, 5);
  expect_equal(contrib("FusedMatMul", {vector, b}, integer("transA", 1) + integer("transB", 1)),
               contrib("FusedMatMul", {vector, b}, integer("transB", 1)));
}

TEST(OnnxContrib, ProductsAndConvolutionsActivate) {
  const Tensor x = random({1, 2, 4, 4}, 1), w = random({3, 2, 3, 3}, 2), b = random({3}, 3),
               z = random({1, 3, 2, 2}, 4);
  const Tensor plain = run("Conv", {x, w, b})[0];
  const Tensor clipped = contrib("FusedConv", {x, w, b},
                                 text("activation", "Clip") + reals("activation_params", {-0.5F, 0.25F}))[0];
  EXPECT_THAT(values(clipped),
              Pointwise(IsNear(), each(plain, [](double v, int64_t) { return std::clamp(v, -0.5, 0.25); })));
  const Tensor summed = contrib("FusedConv", {x, w, b, z}, text("activation", "Relu"))[0];
  EXPECT_THAT(
      values(summed),
      Pointwise(IsNear(), each(plain, [&](double v, int64_t i) { return std::max(v + z.value(i), 0.0); })));
  const Tensor m = random({3, 4}, 5), n = random({4, 5}, 6), c = random({5}, 7);
  const Tensor gemm = run("Gemm", {m, n, c})[0];
  EXPECT_THAT(values(contrib("FusedGemm", {m, n, c},
                             text("activation", "LeakyRelu") + real("activation_alpha", 0.25F))[0]),
              Pointwise(IsNear(), each(gemm, [](double v, int64_t) { return v < 0 ? v / 4 : v; })));
  EXPECT_THAT(thrown_by([&] {
                contrib("FusedConv", {x, w}, text("activation", "Gelu"));
              }),
              HasSubstr("activation `Gelu` is not supported"));
}

TEST(OnnxContrib, Gelus) {
  const Tensor x = random({2, 5}, 1), bias = random({5}, 2);
  const auto gelu = [](double v) { return v / 2 * (1 + std::erf(v / std::sqrt(2.0))); };
  const auto fast = [](double v) {
    return v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
  };
  const auto biased = [&](const auto& f) {
    return each(x, [&, f](double v, int64_t i) { return f(v + bias.value(i % 5)); });
  };
  EXPECT_THAT(values(contrib("Gelu", {x})[0]),
              Pointwise(IsNear(), each(x, [&](double v, int64_t) { return gelu(v); })));
  EXPECT_THAT(values(contrib("BiasGelu", {x, bias})[0]), Pointwise(IsNear(), biased(gelu)));
  EXPECT_THAT(values(contrib("FastGelu", {x, bias})[0]), Pointwise(IsNear(), biased(fast)));
  EXPECT_THAT(values(contrib("FastGelu", {x})[0]),
              Pointwise(IsNear(), each(x, [&](double v, int64_t) { return fast(v); })));
  EXPECT_THAT(values(contrib("QuickGelu", {x})[0]),
              Pointwise(IsNear(), each(x, [](double v, int64_t) { return v / (1 + std::exp(-1.702 * v)); })));
}

TEST(OnnxContrib, NormsOfSums) {
  const Tensor x = random({2, 3, 4}, 1), skip = random({3, 4}, 2), scale = random({4}, 3),
               beta = random({4}, 4), bias = random({4}, 5);
  const Tensor sum = run("Add", {run("Add", {x, skip})[0], bias})[0];
  const std::vector<Tensor> norm = contrib("SkipLayerNormalization", {x, skip, scale, beta, bias}, "", 4);
  expect_equal({norm[0]}, run("LayerNormalization", {sum, scale, beta}, real("epsilon", 1e-12F)));
  expect_equal({norm[3]}, {sum});
  const std::vector<Tensor> rms =
      contrib("SkipSimplifiedLayerNormalization", {x, skip, scale, bias}, real("epsilon", 0.5F), 1);
  expect_equal(rms, run("RMSNormalization", {sum, scale}, real("epsilon", 0.5F)));
  // In the standard's domain, where no version has it.
  const std::vector<Tensor> simplified =
      run("SimplifiedLayerNormalization", {x, scale}, real("epsilon", 0.5F), 2);
  expect_equal({simplified[0]}, run("RMSNormalization", {x, scale}, real("epsilon", 0.5F)));
  EXPECT_NEAR(1 / std::pow(simplified[1].value(0), 2),
              0.5 + (std::pow(x.value(0), 2) + std::pow(x.value(1), 2) + std::pow(x.value(2), 2) +
                     std::pow(x.value(3), 2)) /
                        4,
              1e-5);
}

TEST(OnnxContrib, EmbeddingsAreAddedUp) {
  const Tensor words = tensor_of(std::vector<int32_t>{2, 0, 1, 1, 2, 0}, {2, 3}, kInt32),
               kinds = tensor_of(std::vector<int32_t>{0, 0, 1, 1, 0, 1}, {2, 3}, kInt32),
               mask = tensor_of(std::vector<int32_t>{1, 1, 0, 1, 0, 0}, {2, 3}, kInt32);
  const Tensor of_words = random({3, 4}, 1), of_places = random({5, 4}, 2), of_kinds = random({2, 4}, 3),
               ones = floats({1, 1, 1, 1}, {4}), zero = floats({0, 0, 0, 0}, {4});
  const std::vector<Tensor> y = contrib(
      "EmbedLayerNormalization", {words, kinds, of_words, of_places, of_kinds, ones, zero, mask}, "", 3);
  EXPECT_THAT(values(y[1]), ElementsAre(2, 1));
  EXPECT_THAT(values(y[2]), Pointwise(IsNear(), each(y[2], [&](double, int64_t i) {
                                        const int64_t token = i / 4, d = i % 4;
                                        return of_words.value(words.integer(token) * 4 + d) +
                                               of_places.value(token % 3 * 4 + d) +
                                               of_kinds.value(kinds.integer(token) * 4 + d);
                                      })));
  expect_equal({y[0]}, run("LayerNormalization", {y[2], ones, zero}, real("epsilon", 1e-12F)));
  EXPECT_THAT(
      thrown_by([&] {
        contrib("EmbedLayerNormalization", {words, kinds, of_words, of_places, Tensor(), ones, zero}, "", 2);
      }),
      HasSubstr("segments without a table for them"));
}

/// Numbers of some bits as a file packs them.
Tensor packed(const std::vector<int>& numbers, int bits, std::vector<int64_t> shape) {
  std::vector<uint8_t> result(numbers.size() * static_cast<size_t>(bits) / 8);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t place = i * static_cast<size_t>(bits);
    result[place / 8] = static_cast<uint8_t>(result[place / 8] | numbers[i] << place % 8);
  }
  return bytes8(result, shape);
}

TEST(OnnxContrib, ProductsWithWeightsOfFewBits) {
  for (const int bits : {2, 4, 8}) {
    SCOPED_TRACE(bits);
    // 3 columns of 20 numbers in blocks of 16, of which the second has 4.
    constexpr int64_t kColumns = 3, kDepth = 20, kBlock = 16;
    std::vector<int> numbers;
    for (int i = 0; i < kColumns * 2 * kBlock; ++i) numbers.push_back(i * 37 % 101 % (1 << bits));
    const Tensor x = random({2, kDepth}, 1), scales = random_tensor({kColumns * 2}, kFloat32, 2, 0.02),
                 w = packed(numbers, bits, {kColumns, 2, kBlock * bits / 8});
    const std::string attributes =
        integer("K", kDepth) + integer("N", kColumns) + integer("bits", bits) + integer("block_size", kBlock);
    const auto expected = [&](const std::function<double(int64_t)>& zero) {
      Tensor y({2, kColumns}, kFloat32);
      return each(y, [&](double, int64_t i) {
        double sum = 0;
        for (int64_t k = 0; k < kDepth; ++k) {
          const int64_t block = i % kColumns * 2 + k / kBlock;
          sum += x.value(i / kColumns * kDepth + k) * scales.value(block) *
                 (numbers[static_cast<size_t>(block * kBlock + k % kBlock)] - zero(block));
        }
        return sum;
      });
    };
    EXPECT_THAT(values(contrib("MatMulNBits", {x, w, scales}, attributes)[0]),
                Pointwise(IsNear(), expected([&](int64_t) { return 1 << (bits - 1); })));
    const Tensor reals = random({kColumns * 2}, 3);
    EXPECT_THAT(values(contrib("MatMulNBits", {x, w, scales, reals}, attributes)[0]),
                Pointwise(IsNear(), expected([&](int64_t block) { return reals.value(block); })));
    // Zero points of a column are whole bytes.
    const int64_t row = (2 * bits + 7) / 8;
    std::vector<uint8_t> zeros(static_cast<size_t>(kColumns * row));
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = static_cast<uint8_t>(0x53 + 0x2A * i);
    const auto zero = [&](int64_t block) {
      const int64_t place = block % 2 * bits;
      return zeros[static_cast<size_t>(block / 2 * row + place / 8)] >> place % 8 & ((1 << bits) - 1);
    };
    EXPECT_THAT(
        values(contrib("MatMulNBits", {x, w, scales, bytes8(zeros, {kColumns * row})}, attributes)[0]),
        Pointwise(IsNear(), expected(zero)));
  }
  // Groups whose numbers are no neighbours: as long as blocks, and not.
  constexpr int64_t kDepth = 32, kBlock = 16;
  for (const bool even : {true, false}) {
    SCOPED_TRACE(even);
    std::vector<int32_t> groups;
    for (int32_t k = 0; k < kDepth; ++k) groups.push_back(even ? k % 2 : k % 3 == 1);
    std::vector<int> numbers;
    for (int i = 0; i < kDepth; ++i) numbers.push_back(i * 37 % 101 % 16);
    const Tensor x = random({1, kDepth}, 1), scales = floats({0.5F, 2}, {2}), zeros = floats({3, 5.5F}, {2});
    const auto expected = [&](const Tensor& zero) {
      double sum = 0;
      for (size_t k = 0; k < groups.size(); ++k)
        sum +=
            x.value(static_cast<int64_t>(k)) * scales.value(groups[k]) * (numbers[k] - zero.value(groups[k]));
      return sum;
    };
    const auto ours = [&](const Tensor& zero) {
      return contrib("MatMulNBits", {x, packed(numbers, 4, {1, 2, 8}), scales, zero, ints32(groups)},
                     integer("K", kDepth) + integer("N", 1) + integer("block_size", kBlock))[0];
    };
    EXPECT_NEAR(ours(zeros).value(0), expected(zeros), 1e-4);
    EXPECT_NEAR(ours(bytes8({0x73}, {1})).value(0), expected(floats({3, 7}, {2})), 1e-4);
    EXPECT_NEAR(ours(Tensor()).value(0), expected(floats({8, 8}, {2})), 1e-4);
  }
  EXPECT_THAT(thrown_by([] {
                contrib("MatMulNBits", {random({2, 16}, 1), bytes8({1, 2}, {1, 1, 2}), one(1)},
                        integer("K", 16) + integer("N", 1) + integer("block_size", 16));
              }),
              HasSubstr("must be 1 rows of 8 bytes"));
}

TEST(OnnxContrib, RowsOfTablesOfFewBits) {
  const std::vector<int> numbers{1, 15, 7, 0, 9, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 14};
  const Tensor scales = floats({1, 2, 0.5F, 3}, {2, 2});
  const std::string attributes = integer("bits", 4) + integer("block_size", 4);
  const Tensor y =
      contrib("GatherBlockQuantized", {packed(numbers, 4, {2, 4}), longs({1, 0, 1}), scales}, attributes)[0];
  ASSERT_EQ(y.shape(), (Shape{3, 8}));
  EXPECT_THAT(values(y), Pointwise(IsNear(), each(y, [&](double, int64_t i) {
                                     const int64_t at = i / 8 == 1 ? i % 8 : 8 + i % 8;
                                     return (numbers[static_cast<size_t>(at)] - 8) * scales.value(at / 4);
                                   })));
  const Tensor zeros = packed({1, 2, 3, 4}, 4, {2, 1});
  EXPECT_THAT(values(contrib("GatherBlockQuantized",
                             {packed(numbers, 4, {2, 4}), longs({1, 0, 1}), scales, zeros}, attributes)[0]),
              Pointwise(IsNear(), each(y, [&](double, int64_t i) {
                          const int64_t at = i / 8 == 1 ? i % 8 : 8 + i % 8;
                          return (numbers[static_cast<size_t>(at)] - (at / 4 + 1)) * scales.value(at / 4);
                        })));
}

TEST(OnnxContrib, BitsandbytesWeights) {
  const Tensor x = floats({1, 0, 0, 1}, {2, 2}), largest = floats({2, 4}, {2}), w = bytes8({0x0F, 0x78}, {2});
  const std::string attributes = integer("K", 2) + integer("N", 2) + integer("block_size", 2);
  // (columns, k): the first column is 0, 15, the second 7, 8.
  EXPECT_THAT(values(contrib("MatMulBnb4", {x, w, largest}, attributes + integer("quant_type", 1))[0]),
              Pointwise(IsNear(), {-2.0, 0.0, 2.0, 4 * 0.0795803}));
  EXPECT_THAT(values(contrib("MatMulBnb4", {x, w, largest}, attributes + integer("quant_type", 0))[0]),
              Pointwise(IsNear(), {0.0, 1.0, -0.5, 0.0}));
}

/// (numbers - zero) * scale, f of it, and back.
double requantized(double value, double scale, double zero) {
  return std::clamp(std::nearbyint(value / scale) + zero, 0.0, 255.0);
}

TEST(OnnxContrib, QuantizedTensors) {
  const Tensor x = bytes8({0, 3, 100, 130, 200, 255}, {1, 1, 2, 3}),
               y = bytes8({9, 99, 199, 5, 55, 155}, {1, 1, 2, 3});
  const Tensor x_zero = bytes8({128}, {}), y_zero = bytes8({100}, {}), z_zero = bytes8({30}, {});
  const auto a = [&](int64_t i) { return (x.value(i) - 128) * 0.125; };
  const auto b = [&](int64_t i) { return (y.value(i) - 100) * 0.25; };
  const std::vector<Tensor> of_x{x, one(0.125F), x_zero}, of_y{y, one(0.25F), y_zero},
      of_z{one(0.5F), z_zero};
  const auto joined = [](std::vector<std::vector<Tensor>> parts) {
    std::vector<Tensor> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const auto expect = [&](const std::vector<Tensor>& result, const std::function<double(int64_t)>& f) {
    EXPECT_EQ(result[0].dtype(), kUInt8);
    EXPECT_THAT(values(result[0]), testing::ElementsAreArray(each(
                                       x, [&](double, int64_t i) { return requantized(f(i), 0.5, 30); })));
  };
  expect(contrib("QLinearAdd", joined({of_x, of_y, of_z})), [&](int64_t i) { return a(i) + b(i); });
  expect(contrib("QLinearMul", joined({of_x, of_y, of_z})), [&](int64_t i) { return a(i) * b(i); });
  expect(contrib("QLinearLeakyRelu", joined({of_x, of_z}), real("alpha", 0.25F)),
         [&](int64_t i) { return a(i) < 0 ? a(i) / 4 : a(i); });
  expect(contrib("QLinearSigmoid", joined({of_x, of_z})),
         [&](int64_t i) { return 1 / (1 + std::exp(-a(i))); });
  Tensor chooses({3}, kBool);
  for (int64_t i = 0; i < 3; ++i) chooses.set(i, i == 1);
  expect(contrib("QLinearWhere", joined({{chooses}, of_x, of_y, of_z})),
         [&](int64_t i) { return i % 3 == 1 ? a(i) : b(i); });
  const Tensor both = contrib("QLinearConcat", joined({of_z, of_x, of_y}), integer("axis", 2))[0];
  ASSERT_EQ(both.shape(), (Shape{1, 1, 4, 3}));
  EXPECT_EQ(both.value(4), requantized(a(4), 0.5, 30));
  EXPECT_EQ(both.value(7), requantized(b(1), 0.5, 30));
  double mean = 0;
  for (int64_t i = 0; i < 6; ++i) mean += a(i) / 6;
  EXPECT_THAT(values(contrib("QLinearGlobalAveragePool", joined({of_x, of_z}))[0]),
              ElementsAre(requantized(mean, 0.5, 30)));
  // Channels behind the image: three of them, of two places each.
  const Tensor last =
      contrib("QLinearGlobalAveragePool", joined({of_x, of_z}), integer("channels_last", 1))[0];
  ASSERT_EQ(last.shape(), (Shape{1, 1, 1, 3}));
  EXPECT_EQ(last.value(1), requantized((a(1) + a(4)) / 2, 0.5, 30));
  EXPECT_EQ(
      contrib("QLinearReduceMean", joined({of_x, of_z}), integers("axes", {3}) + integer("keepdims", 0))[0]
          .shape(),
      (Shape{1, 1, 2}));
  // Softmax is that of a version: until 13 all axes behind one are one row.
  const Tensor rows = contrib("QLinearSoftmax", joined({of_x, {one(1 / 256.0F), bytes8({0}, {})}}),
                              integer("axis", 1) + integer("opset", 11))[0];
  double sum = 0;
  for (double value : values(rows)) sum += value;
  EXPECT_NEAR(sum, 256, 3);
}

TEST(OnnxContrib, QuantizedProducts) {
  const Tensor x = random_tensor({3, 6}, kUInt8, 1), w = random_tensor({6, 2}, kInt8, 2),
               bias = random({2}, 3);
  const Tensor x_zero = bytes8({4}, {}), w_zero = tensor_of(std::vector<int8_t>{1}, {}, kInt8);
  const auto sum = [&](int64_t i) {
    double total = 0;
    for (int64_t k = 0; k < 6; ++k) total += (x.value(i / 2 * 6 + k) - 4) * (w.value(k * 2 + i % 2) - 1);
    return total;
  };
  const Tensor shape({3, 2}, kFloat32);
  const Tensor columns = floats({0.5F, 0.25F}, {2});
  EXPECT_THAT(values(contrib("MatMulIntegerToFloat", {x, w, one(0.125F), columns, x_zero, w_zero, bias})[0]),
              Pointwise(IsNear(), each(shape, [&](double, int64_t i) {
                          return sum(i) * 0.125 * columns.value(i % 2) + bias.value(i % 2);
                        })));
  const Tensor c = tensor_of(std::vector<int32_t>{10, -20}, {2}, kInt32);
  const std::vector<Tensor> gemm{x, one(0.125F), x_zero, w, one(0.5F), w_zero, c};
  EXPECT_THAT(values(contrib("QGemm", gemm)[0]), Pointwise(IsNear(), each(shape, [&](double, int64_t i) {
                                                             return (sum(i) + (i % 2 ? -20 : 10)) * 0.0625;
                                                           })));
  std::vector<Tensor> of_bytes = gemm;
  of_bytes.insert(of_bytes.end(), {one(0.25F), bytes8({128}, {})});
  EXPECT_THAT(values(contrib("QGemm", of_bytes, real("alpha", 2))[0]),
              testing::ElementsAreArray(each(shape, [&](double, int64_t i) {
                return requantized((sum(i) + (i % 2 ? -20 : 10)) * 0.125, 0.25, 128);
              })));
  // What is quantized by its own range is near what it was.
  const Tensor real_x = random({3, 6}, 4);
  EXPECT_THAT(values(contrib("DynamicQuantizeMatMul", {real_x, w, one(0.01F), w_zero, bias})[0]),
              Pointwise(testing::Truly([](const auto& pair) {
                          return std::fabs(std::get<0>(pair) - std::get<1>(pair)) < 5e-3;
                        }),
                        each(shape, [&](double, int64_t i) {
                          double total = bias.value(i % 2);
                          for (int64_t k = 0; k < 6; ++k)
                            total += real_x.value(i / 2 * 6 + k) * (w.value(k * 2 + i % 2) - 1) * 0.01;
                          return total;
                        })));
}

/// Products of bytes end in those of the standard's quantized operators.
TEST(OnnxContrib, QuantizedOperatorsMultiplyIntegers) {
  const std::string attributes = kContrib;
  const Tensor x = random_tensor({3, 6}, kUInt8, 1), w = random_tensor({6, 2}, kInt8, 2), scale = one(0.1F),
               zero = bytes8({4}, {});
  const Tensor signed_zero = tensor_of(std::vector<int8_t>{0}, {}, kInt8);
  for (const ImportedModel& model :
       {import_node("QGemm", {x, scale, zero, w, scale, signed_zero}, attributes),
        import_node("MatMulIntegerToFloat", {x, w, scale, scale, zero, signed_zero}, attributes),
        import_node("DynamicQuantizeMatMul", {random({3, 6}, 1), w, scale}, attributes),
        import_node("QAttention",
                    {random_tensor({1, 2, 4}, kUInt8, 1), random_tensor({4, 12}, kInt8, 2), random({12}, 3),
                     scale, scale, Tensor(), zero, signed_zero},
                    attributes + integer("num_heads", 2))})
    EXPECT_THAT(relay::print(model.module->functions.at("main")->body), HasSubstr("qnn.dense("));
}

TEST(OnnxContrib, QuantizedAttentionIsThatOfRealNumbers) {
  const Tensor x = random_tensor({2, 3, 4}, kUInt8, 1), w = random_tensor({4, 12}, kInt8, 2),
               bias = random({12}, 3);
  const Tensor zero = bytes8({5}, {}), w_zero = tensor_of(std::vector<int8_t>{0}, {}, kInt8);
  const Tensor real_x = run("DequantizeLinear", {x, one(0.125F), zero})[0],
               real_w = run("DequantizeLinear", {w, one(0.0625F)})[0];
  const std::string attributes = integer("num_heads", 2) + integer("unidirectional", 1);
  expect_equal(contrib("QAttention", {x, w, bias, one(0.125F), one(0.0625F), ints32({3, 2}), zero, w_zero},
                       attributes),
               contrib("Attention", {real_x, real_w, bias, ints32({3, 2})}, attributes));
}

TEST(OnnxContrib, OperatorsThatTheStandardHas) {
  expect_equal(contrib("Trilu", {random({3, 3}, 1)}, integer("upper", 0)),
               run("Trilu", {random({3, 3}, 1)}, integer("upper", 0)));
  EXPECT_EQ(contrib("ExpandDims", {random({3, 4}, 1), int32_scalar(-1)})[0].shape(), (Shape{3, 4, 1}));
  const Tensor bits16 = contrib("QuantizeLinear", {floats({1, -300}, {2}), one(0.5F),
                                                   tensor_of(std::vector<uint16_t>{500}, {}, kUInt16)})[0];
  EXPECT_EQ(bits16.dtype(), kUInt16);
  EXPECT_THAT(values(bits16), ElementsAre(502, 0));
  EXPECT_THAT(values(contrib("CDist", {floats({0, 0, 3, 0}, {2, 2}), floats({0, 4}, {1, 2})},
                             text("metric", "euclidean"))[0]),
              ElementsAre(4, 5));
}

TEST(OnnxContrib, InversesOfMatrices) {
  // The first needs another row than its own for a pivot.
  const Tensor x = floats({0, 2, 1, 1, 0, 3, 4, 1, 0, 2, 0, 0, 0, 4, 0, 0, 0, 8}, {2, 3, 3});
  ImportedModel model = import_node("Inverse", {x}, kContrib);
  const Tensor y = run(model, {})[0];
  const Tensor unit = onnx::run("MatMul", {x, y})[0];
  std::vector<double> expected;
  for (int64_t i = 0; i < 18; ++i) expected.push_back(i % 9 % 4 == 0);
  EXPECT_THAT(values(unit), Pointwise(IsNear(), expected));
  EXPECT_THAT(values(y).back(), 0.125);
}

/// Of an image of 2 x 3 pixels: 0 1 2 in the first row, 3 4 5 in the second.
TEST(OnnxContrib, CropsOfRegions) {
  const Tensor image = floats({0, 1, 2, 3, 4, 5}, {1, 1, 2, 3});
  const auto crop = [&](std::vector<float> region, int32_t rows, int32_t columns,
                        const std::string& more = "") {
    const auto count = static_cast<int64_t>(region.size()) / 4;
    return values(contrib("CropAndResize",
                          {image, floats(std::move(region), {count, 4}),
                           ints32(std::vector<int32_t>(static_cast<size_t>(count))), ints32({rows, columns})},
                          more)[0]);
  };
  EXPECT_THAT(crop({0, 0, 1, 1}, 2, 3), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(crop({0, 0, 0.5F, 1}, 2, 2), ElementsAre(0, 2, 1.5, 3.5));
  // One row alone is that of the middle.
  EXPECT_THAT(crop({0, 1, 1, 0}, 1, 3), ElementsAre(3.5, 2.5, 1.5));
  EXPECT_THAT(crop({0, 0, 1, 2}, 1, 3, real("extrapolation_value", -1)), ElementsAre(1.5, 3.5, -1));
  EXPECT_THAT(crop({0.3F, 0, 0.3F, 0.5F, 1, 1, 1, 1}, 1, 2, text("mode", "nearest")),
              ElementsAre(0, 1, 5, 5));
}

TEST(OnnxContrib, OthersAreRefusedByTheirFullNames) {
  const Tensor x = random({2, 2}, 1);
  EXPECT_EQ(thrown_by([&] { contrib("Relu", {x}); }), "m.onnx: unsupported operator: com.microsoft.Relu");
  EXPECT_EQ(thrown_by([&] { run("Gelu", {x}, field(7, std::string("com.other"))); }),
            "m.onnx: unsupported operator: com.other.Gelu");
  EXPECT_EQ(thrown_by([&] { run("FusedMatMul", {x, x}); }), "m.onnx: unsupported operator: FusedMatMul");
}

}  // namespace
}  // namespace lathe::onnx
