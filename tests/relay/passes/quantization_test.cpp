// Graphs of low precision: bfloat16 against float32; quantized graphs through their passes: canonicalize_qnn
// against the definitions of its operators, and integer graphs against the float arithmetic of the QDQ graphs
// they came from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/pass.h"
#include "core/relay/passes/canonicalize_qnn.h"
#include "core/relay/passes/fake_quantization_to_integer.h"
#include "core/relay/passes/quantize.h"
#include "core/relay/passes/to_mixed_precision.h"
#include "core/relay/text.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

Expr number(DataType dtype, double value) { return typed_constant(full({}, dtype, value)); }

/// The same as no constant: a number that is known at run time alone, for a pass that folds nothing.
Expr computed(DataType dtype, double value) {
  return typed_call("maximum", {number(dtype, value), number(dtype, value)});
}

/// All values of an 8-bit type.
Tensor bytes(std::vector<int64_t> shape, DataType dtype, uint64_t seed) {
  Tensor result = random_tensor(std::move(shape), kInt64, seed), narrow(result.shape(), dtype);
  uint64_t state = seed * 2 + 1;
  for (int64_t i = 0; i < narrow.size(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    static_cast<uint8_t*>(narrow.data())[i] = static_cast<uint8_t>(state >> 40);
  }
  return narrow;
}

bool calls(const Module& module, const std::string& op) {
  return print(module, {.metadata = false}).find(op + "(") != std::string::npos;
}

struct Case {
  DataType data, weight;
  int64_t data_zero, weight_zero;
  bool multiplies_bytes;  // the convolution takes the operands as 8-bit integers
  bool computes_zero = false;
};

/// sum of (x - zx) * (w - zw), a 3x3 window padded with 1.
Tensor convolution(const Tensor& x, const Tensor& w, const Case& c) {
  int64_t channels = x.shape()[1], size = x.shape()[2], out = w.shape()[0];
  Tensor result({1, out, size, size}, kInt32);
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) {
        int64_t sum = 0;
        for (int64_t ch = 0; ch < channels; ++ch)
          for (int64_t a = 0; a < 9; ++a) {
            int64_t row = i + a / 3 - 1, column = j + a % 3 - 1;
            if (row < 0 || column < 0 || row >= size || column >= size) continue;
            sum += (x.integer((ch * size + row) * size + column) - c.data_zero) *
                   (w.integer((o * channels + ch) * 9 + a) - c.weight_zero);
          }
        result.set_integer((o * size + i) * size + j, sum);
      }
  return result;
}

TEST(CanonicalizeQnn, ConvolutionIsItsDefinition) {
  const Case kCases[] = {
      {kUInt8, kInt8, 0, 0, true},          {kUInt8, kInt8, 7, 0, true},
      {kInt8, kInt8, -3, 0, true},          {kUInt8, kUInt8, 5, 128, true},
      {kUInt8, kUInt8, 5, 100, true},       {kInt8, kInt8, 1, 2, true},
      {kUInt8, kInt8, 7, 0, true, true},    {kInt8, kInt8, -3, 0, true, true},
      {kUInt8, kUInt8, 5, 100, true, true},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{} - {} times {} - {}", to_string(c.data), c.data_zero, to_string(c.weight),
                             c.weight_zero));
    Tensor x = bytes({1, 4, 5, 5}, c.data, 1), w = bytes({3, 4, 3, 3}, c.weight, 2);
    auto attrs = make<ConvAttrs>(Ints{}, Ints{1, 1}, Ints{}, int64_t{1}, std::optional<int64_t>(), Ints{},
                                 std::string(), std::string(), std::string(), std::optional(kInt32));
    Expr conv = typed_call(
        "qnn.conv2d",
        {typed_constant(x), typed_constant(w),
         (c.computes_zero ? computed : number)(c.data, static_cast<double>(c.data_zero)),
         number(c.weight, static_cast<double>(c.weight_zero)), number(kFloat32, 1), number(kFloat32, 1)},
        attrs);
    Module plain = canonicalize_qnn(closed(conv));
    EXPECT_FALSE(calls(plain, "qnn.conv2d"));
    EXPECT_EQ(max_relative_error(value_of(plain), convolution(x, w, c)), 0);
    Expr found;
    post_order(plain->functions.at("main")->body, [&](const NodeRef& node) {
      const Call* call = node.as<Call>();
      const bool is_product = call && call->callee.as<OpNode>()->name == "nn.conv2d";
      // Another sums up windows, of all channels' sums.
      if (is_product && constant_shape(*call->args[1]->checked_type.as<TensorType>())[1] == 4)
        found = call->args[1];
    });
    EXPECT_EQ(found->checked_type.as<TensorType>()->dtype == kInt8, c.multiplies_bytes);
  }
}

/// Zero points of a weight (O, I, ...): none, one, and one for each channel.
std::vector<Expr> weight_zeros(int64_t channels) {
  Tensor each({channels}, kUInt8);
  for (int64_t i = 0; i < channels; ++i) each.set_integer(i, i * 37 % 256);
  return {number(kUInt8, 0), number(kUInt8, 100), typed_constant(each)};
}

/// e - zero in int32; of several zeros one for each element along the first axis.
Expr less_zero(const Expr& e, const Expr& zero) {
  const auto rank = static_cast<int64_t>(e->checked_type.as<TensorType>()->shape.size());
  const bool one = zero->checked_type.as<TensorType>()->shape.empty();
  const Expr along =
      one ? zero : typed_call("expand_dims", {zero}, make<ExpandDimsAttrs>(int64_t{1}, rank - 1));
  return typed_call("subtract", {cast(e, kInt32), cast(along, kInt32)});
}

// The weight's zero points take sums over windows of the data, of a group's channels.
TEST(CanonicalizeQnn, ConvolutionsOfWeightsWithAZeroPointMultiplyBytes) {
  struct Shape {
    Ints data, weight, strides, padding, dilation;
    int64_t groups;
    bool multiplies_bytes = true;
  };
  const Shape kShapes[] = {
      {{2, 8, 6, 5}, {6, 8, 3, 2}, {2, 1}, {1, 0, 2, 1}, {1, 2}, 1},
      {{2, 8, 6, 5}, {6, 4, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {{1, 12, 5, 5}, {3, 4, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 3},
      {{1, 5, 6, 6}, {4, 5, 1, 1}, {2, 2}, {0, 0, 0, 0}, {1, 1}, 1},
      {{1, 5, 3, 3}, {4, 5, 1, 1}, {1, 1}, {1, 0, 0, 1}, {1, 1}, 1},
      {{2, 4, 9}, {6, 4, 3}, {2}, {1, 2}, {1}, 1},
      {{1, 4, 3, 4, 5}, {2, 4, 2, 2, 2}, {1, 1, 1}, {0, 1, 0, 1, 0, 1}, {1, 1, 1}, 1},
      // Of as few channels the sums are as much work as the products.
      {{1, 6, 5, 5}, {6, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 6, false},
  };
  for (const Shape& s : kShapes)
    for (const Expr& w_zero : weight_zeros(s.weight[0]))
      for (auto zero_of : {number, computed}) {
        const DataType data = zero_of == number ? kUInt8 : kInt8;
        const std::string real = fmt::format("nn.conv{}d", s.data.size() - 2);
        SCOPED_TRACE(fmt::format("{} {} {} by {}, {}", real, to_string(data), s.data.size(), s.groups,
                                 print(w_zero->checked_type)));
        const Expr x = typed_constant(bytes(s.data, data, 1)), w = typed_constant(bytes(s.weight, kUInt8, 2));
        const Attrs attrs =
            make<ConvAttrs>(s.strides, s.padding, s.dilation, s.groups, std::optional<int64_t>(), Ints{},
                            std::string(), std::string(), std::string(), std::optional(kInt32));
        const Module plain = canonicalize_qnn(closed(typed_call(
            "q" + real, {x, w, zero_of(data, 11), w_zero, number(kFloat32, 1), number(kFloat32, 1)}, attrs)));
        const Module expected =
            closed(typed_call(real, {less_zero(x, number(data, 11)), less_zero(w, w_zero)}, attrs));
        EXPECT_EQ(max_relative_error(value_of(plain), value_of(expected)), 0);
        bool multiplies_bytes = false;
        post_order(plain->functions.at("main")->body, [&](const NodeRef& node) {
          const Call* call = node.as<Call>();
          multiplies_bytes |= call && call->callee.as<OpNode>() && call->callee.as<OpNode>()->name == real &&
                              call->args[1]->checked_type.as<TensorType>()->dtype == kInt8;
        });
        EXPECT_EQ(multiplies_bytes, s.multiplies_bytes);
      }
}

// What dynamic quantization asks for: both zero points, or one, are results.
TEST(CanonicalizeQnn, ProductsOfBytesWhoseZeroPointsAreComputed) {
  for (const auto& [data, weight] : {std::pair{kUInt8, kInt8}, {kInt8, kUInt8}, {kUInt8, kUInt8}}) {
    for (auto data_zero : {number, computed}) {
      SCOPED_TRACE(fmt::format("{} {}", to_string(data), to_string(weight)));
      Tensor x = bytes({5, 6}, data, 1), w = bytes({7, 6}, weight, 2);
      Module plain = canonicalize_qnn(
          closed(typed_call("qnn.dense",
                            {typed_constant(x), typed_constant(w), data_zero(data, 11), computed(weight, 100),
                             number(kFloat32, 1), number(kFloat32, 1)},
                            make<DenseAttrs>(std::optional<int64_t>(), std::optional(kInt32)))));
      Tensor expected({5, 7}, kInt32);
      for (int64_t i = 0; i < 5; ++i)
        for (int64_t j = 0; j < 7; ++j) {
          int64_t sum = 0;
          for (int64_t k = 0; k < 6; ++k) sum += (x.integer(i * 6 + k) - 11) * (w.integer(j * 6 + k) - 100);
          expected.set_integer(i * 7 + j, sum);
        }
      EXPECT_EQ(max_relative_error(value_of(plain), expected), 0);
      post_order(plain->functions.at("main")->body, [&](const NodeRef& node) {
        const Call* call = node.as<Call>();
        if (!call || call->callee.as<OpNode>()->name != "nn.dense") return;
        EXPECT_EQ(call->args[0]->checked_type.as<TensorType>()->dtype, kUInt8);
        EXPECT_EQ(call->args[1]->checked_type.as<TensorType>()->dtype, kInt8);
      });
    }
  }
}

TEST(CanonicalizeQnn, ProductsOfBytesWhoseColumnsHaveTheirOwnZeroPoints) {
  const Expr x = typed_constant(bytes({5, 6}, kInt8, 1)), w = typed_constant(bytes({7, 6}, kUInt8, 2));
  const Attrs attrs = make<DenseAttrs>(std::optional<int64_t>(), std::optional(kInt32));
  for (const Expr& zero : weight_zeros(7)) {
    SCOPED_TRACE(print(zero->checked_type));
    const Module plain = canonicalize_qnn(closed(typed_call(
        "qnn.dense", {x, w, number(kInt8, -11), zero, number(kFloat32, 1), number(kFloat32, 1)}, attrs)));
    const Module expected =
        closed(typed_call("nn.dense", {less_zero(x, number(kInt8, -11)), less_zero(w, zero)}, attrs));
    EXPECT_EQ(max_relative_error(value_of(plain), value_of(expected)), 0);
    post_order(plain->functions.at("main")->body, [&](const NodeRef& node) {
      const Call* call = node.as<Call>();
      if (call && call->callee.as<OpNode>()->name == "nn.dense") {
        EXPECT_EQ(call->args[1]->checked_type.as<TensorType>()->dtype, kInt8);
      }
    });
  }
}

TEST(CanonicalizeQnn, RequantizeAndAddRoundToTheNearestStep) {
  Tensor sums = tensor_of<int32_t>({-1000, -3, 0, 3, 5, 100, 20000, 77}, {8}, kInt32);
  Expr requantized = typed_call("qnn.requantize",
                                {typed_constant(sums), number(kFloat32, 0.5), number(kInt32, 1),
                                 number(kFloat32, 2), number(kUInt8, 10)},
                                make<QuantizeAttrs>(kUInt8, int64_t{0}));
  Tensor result = value_of(canonicalize_qnn(closed(requantized)));
  for (int64_t i = 0; i < sums.size(); ++i)
    EXPECT_EQ(result.value(i), std::clamp(std::nearbyint((sums.value(i) - 1) * 0.25) + 10, 0.0, 255.0));
  Tensor a = bytes({64}, kInt8, 3), b = bytes({64}, kInt8, 4);
  Expr sum = typed_call("qnn.add",
                        {typed_constant(a), typed_constant(b), number(kFloat32, 0.25), number(kInt8, 3),
                         number(kFloat32, 0.5), number(kInt8, -7), number(kFloat32, 1), number(kInt8, 2)});
  result = value_of(canonicalize_qnn(closed(sum)));
  for (int64_t i = 0; i < a.size(); ++i)
    EXPECT_EQ(
        result.value(i),
        std::clamp(std::nearbyint((a.value(i) - 3) * 0.25 + (b.value(i) + 7) * 0.5) + 2, -128.0, 127.0));
}

/// Sums of shared sums: looking for scales must not take for ever.
TEST(CanonicalizeQnn, EndsOnSharedSums) {
  Expr x = typed_call("multiply", {typed_call("negative", {number(kFloat32, 1)}), number(kFloat32, 3)});
  for (int i = 0; i < 60; ++i) x = typed_call("add", {x, x});
  Expr quantized = typed_call("qnn.quantize", {x, number(kFloat32, 2), number(kUInt8, 0)},
                              make<QuantizeAttrs>(kUInt8, int64_t{0}));
  EXPECT_FALSE(calls(canonicalize_qnn(closed(quantized)), "qnn.quantize"));
}

/// A residual block between a convolution, a pooling and a dense layer, in float32.
Module float_network(const Tensor& input) {
  auto conv = [](const Expr& x, int64_t out, uint64_t seed) {
    int64_t in = int_value(x->checked_type.as<TensorType>()->shape[1]);
    auto attrs =
        make<ConvAttrs>(Ints{1, 1}, Ints{1, 1}, Ints{1, 1}, int64_t{1}, std::optional(out), Ints{3, 3});
    Expr weight = typed_constant(random_tensor({out, in, 3, 3}, kFloat32, seed, 0.2));
    Expr bias = typed_constant(random_tensor({out, 1, 1}, kFloat32, seed + 100, 0.2));
    return typed_call("add", {typed_call("nn.conv2d", {x, weight}, attrs), bias});
  };
  Expr first = typed_call("nn.relu", {conv(typed_call("negative", {typed_constant(input)}), 8, 1)});
  Expr pooled = typed_call("nn.max_pool2d", {first}, make<PoolAttrs>(Ints{2, 2}, Ints{2, 2}));
  Expr branch = conv(typed_call("nn.relu", {conv(pooled, 8, 2)}), 8, 3);
  Expr joined = typed_call("nn.relu", {typed_call("add", {branch, pooled})});
  Expr mean = typed_call("nn.batch_flatten", {typed_call("nn.global_avg_pool2d", {joined})});
  Expr weight = typed_constant(random_tensor({5, 8}, kFloat32, 9, 0.3));
  return closed(typed_call(
      "add", {typed_call("nn.dense", {mean, weight}), typed_constant(random_tensor({5}, kFloat32, 10))}));
}

std::vector<ValueRange> interpreted_ranges(const Ref<Function>&, const std::vector<Expr>& tensors) {
  std::vector<ValueRange> ranges;
  for (const Tensor& value : interpret_closed(tensors)) {
    ValueRange range{value.value(0), value.value(0)};
    for (int64_t i = 0; i < value.size(); ++i) {
      range.low = std::min(range.low, value.value(i));
      range.high = std::max(range.high, value.value(i));
    }
    ranges.push_back(range);
  }
  return ranges;
}

TEST(Quantization, KeepsTheNetworksResultNearly) {
  Module network = float_network(random_tensor({1, 3, 8, 8}, kFloat32, 42));
  Module fake = quantize(network, NarrowCosts::none(), interpreted_ranges);
  EXPECT_TRUE(calls(fake, "qnn.quantize"));
  EXPECT_LT(max_relative_error(value_of(fake), value_of(network)), 0.05);
  Module integers = fake_quantization_to_integer(fake);
  EXPECT_FALSE(calls(integers, "nn.conv2d") && !calls(integers, "qnn.conv2d"));
  EXPECT_FALSE(calls(integers, "nn.global_avg_pool2d")) << "sums integers instead";
  Module plain = canonicalize_qnn(integers);
  for (const char* op : {"qnn.conv2d", "qnn.dense", "qnn.quantize", "qnn.dequantize", "qnn.requantize"})
    EXPECT_FALSE(calls(plain, op)) << op;
  EXPECT_LT(max_relative_error(value_of(plain), value_of(fake)), 0.02) << "a step here and there may differ";
}

TEST(MixedPrecision, StoresBfloat16AndKeepsTheResultNearly) {
  Module network = float_network(random_tensor({1, 3, 8, 8}, kFloat32, 43));
  Module mixed = to_mixed_precision(network, NarrowCosts::none());
  int products = 0;
  post_order(mixed->functions.at("main")->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    const auto& name = call ? call->callee.as<OpNode>()->name : "";
    auto type = [&](const Expr& e) { return e->checked_type.as<TensorType>()->dtype; };
    if (name == "nn.max_pool2d") {
      EXPECT_EQ(type(call->args[0]), kBFloat16);
    }
    if (name != "nn.conv2d" && name != "nn.dense") return;
    ++products;
    EXPECT_EQ(type(call->args[0]), kBFloat16);
    EXPECT_EQ(type(call->args[1]), kBFloat16);
    EXPECT_EQ(call->checked_type.as<TensorType>()->dtype, kFloat32) << "sums";
  });
  EXPECT_EQ(products, 4);
  EXPECT_LT(max_relative_error(value_of(mixed), value_of(network)), 0.02);
  EXPECT_GT(max_relative_error(value_of(mixed), value_of(network)), 0);
}

TEST(Quantization, EqualInputAndOutputScalesVanish) {
  Expr x = typed_constant(bytes({1, 2, 4, 4}, kUInt8, 5)), scale = number(kFloat32, 0.5),
       zero = number(kUInt8, 3);
  auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
  auto pooled = [&](const Expr& scale_after) {
    Expr real = typed_call("nn.max_pool2d", {typed_call("qnn.dequantize", {x, scale, zero}, attrs)},
                           make<PoolAttrs>(Ints{2, 2}, Ints{2, 2}));
    return fake_quantization_to_integer(closed(typed_call("qnn.quantize", {real, scale_after, zero}, attrs)));
  };
  EXPECT_FALSE(calls(pooled(scale), "qnn.quantize"));
  EXPECT_FALSE(calls(pooled(scale), "qnn.dequantize"));
  EXPECT_TRUE(calls(pooled(number(kFloat32, 0.25)), "qnn.quantize"));
}

/// The largest number is the smallest integer.
TEST(Quantization, NegativeScalesTurnTheOrderAround) {
  const Tensor given = bytes({1, 1, 1, 8}, kUInt8, 5);
  const auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
  const Expr scale = number(kFloat32, -0.5), zero = number(kUInt8, 100);
  const auto by_integers = [&](const char* op, const Attrs& of_op) {
    const Expr real = typed_call("qnn.dequantize", {typed_constant(given), scale, zero}, attrs);
    const Expr result = typed_call("qnn.quantize", {typed_call(op, {real}, of_op), scale, zero}, attrs);
    return value_of(canonicalize_qnn(fake_quantization_to_integer(closed(result))));
  };
  const Tensor pooled = by_integers("nn.max_pool2d", make<PoolAttrs>(Ints{1, 2}, Ints{1, 2})),
               rectified = by_integers("nn.relu", {});
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(rectified.integer(i), std::min<int64_t>(given.integer(i), 100));
  for (int64_t i = 0; i < 4; ++i)
    EXPECT_EQ(pooled.integer(i), std::min(given.integer(2 * i), given.integer(2 * i + 1)));
}

TEST(Quantization, BiasesThatAreNotWholeStayFloat) {
  Expr x = typed_constant(bytes({1, 4, 3, 3}, kUInt8, 6)), w = typed_constant(bytes({2, 4, 1, 1}, kInt8, 7));
  auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
  Expr real = typed_call("qnn.dequantize", {x, number(kFloat32, 0.5), number(kUInt8, 0)}, attrs);
  Expr weight = typed_call("qnn.dequantize", {w, number(kFloat32, 0.5), number(kInt8, 0)}, attrs);
  Expr conv = typed_call("nn.conv2d", {real, weight});
  auto with_bias = [&](std::vector<float> bias) {
    Expr sum = typed_call("nn.bias_add", {conv, typed_constant(tensor_of(bias, {2}, kFloat32))},
                          make<ChannelAttrs>(int64_t{1}));
    return fake_quantization_to_integer(closed(sum));
  };
  EXPECT_FALSE(calls(with_bias({0.25f, -1.5f}), "nn.bias_add"));
  EXPECT_TRUE(calls(with_bias({0.3f, 1}), "nn.bias_add"));
}

TEST(Quantization, ABiasOfOneNumberIsDividedByTheScaleOfEachChannel) {
  auto constant = [](std::vector<float> values) {
    return typed_constant(tensor_of(values, {static_cast<int64_t>(values.size())}, kFloat32));
  };
  auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
  Expr x = typed_constant(bytes({2, 4}, kUInt8, 8)), w = typed_constant(bytes({2, 4}, kInt8, 9));
  Expr real = typed_call("qnn.dequantize", {x, number(kFloat32, 1), number(kUInt8, 0)}, attrs);
  Expr weight =
      typed_call("qnn.dequantize", {w, constant({1, 0.5}), typed_constant(zeros({2}, kInt8))}, attrs);
  Expr product = typed_call("nn.dense", {real, weight});
  Module network = closed(typed_call("add", {product, constant({3})}));
  Module integers = fake_quantization_to_integer(network);
  EXPECT_TRUE(calls(integers, "qnn.dense"));
  EXPECT_EQ(max_relative_error(value_of(canonicalize_qnn(integers)), value_of(network)), 0);
}

/// 255 times more elements than int32 counts: their sum would wrap around.
TEST(Quantization, AMeanOfTooManyElementsStaysReal) {
  const auto attrs = make<QuantizeAttrs>(kUInt8, int64_t{0});
  const auto mean = [&](int64_t rows) {
    Expr x = typed_constant(zeros({1, 1, rows, 4096}, kUInt8));
    Expr real = typed_call("qnn.dequantize", {x, number(kFloat32, 1), number(kUInt8, 0)}, attrs);
    return fake_quantization_to_integer(closed(typed_call("nn.global_avg_pool2d", {real})));
  };
  EXPECT_TRUE(calls(mean(64), "sum"));
  EXPECT_FALSE(calls(mean(2100), "sum"));
}

TEST(Quantization, RefusesAModuleWithoutMain) {
  try {
    quantize(make<ModuleNode>(), NarrowCosts::none(), interpreted_ranges);
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "quantize: the module has no function @main");
  }
}

}  // namespace
}  // namespace lathe::relay
