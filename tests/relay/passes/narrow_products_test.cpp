// Products of two tensors in fewer bits, as attention has them: which tensors are narrow, and that results
// are the float model's nearly. Sums of integers against their definition, in all orders of the operands.
#include <gtest/gtest.h>

#include <cmath>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/well_formed.h"
#include "core/relay/functor.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/pass.h"
#include "core/relay/passes/canonicalize_qnn.h"
#include "core/relay/passes/fake_quantization_to_integer.h"
#include "core/relay/passes/quantize.h"
#include "core/relay/passes/to_mixed_precision.h"
#include "core/relay/passes/widen_products.h"
#include "tests/relay/passes/closed.h"

namespace lathe::relay {
namespace {

DataType type_of(const Expr& e) { return e->checked_type.as<TensorType>()->dtype; }

/// All calls of `op`, operands first.
std::vector<Ref<Call>> calls_of(const Module& module, std::string_view op) {
  std::vector<Ref<Call>> calls;
  post_order(module->functions.at("main")->body, [&](const NodeRef& node) {
    const Call* call = node.as<Call>();
    if (call && call->callee.as<OpNode>() && call->callee.as<OpNode>()->name == op)
      calls.push_back(node.cast<Call>());
  });
  return calls;
}

Expr dense(const Expr& x, int64_t units, uint64_t seed) {
  int64_t k = int_value(x->checked_type.as<TensorType>()->shape.back());
  Expr y = typed_call("nn.dense",
                      {x, typed_constant(random_tensor({units, k}, kFloat32, seed, 1 / std::sqrt(k)))});
  return typed_call("add", {y, typed_constant(random_tensor({units}, kFloat32, seed + 50, 0.1))});
}

/// (tokens, heads * depth) as (heads, tokens, depth).
Expr heads_of(const Expr& x, int64_t heads) {
  const auto& shape = x->checked_type.as<TensorType>()->shape;
  Ints apart{int_value(shape[0]), heads, int_value(shape[1]) / heads};
  return typed_call("transpose", {typed_call("reshape", {x}, make<ReshapeAttrs>(apart))},
                    make<TransposeAttrs>(std::optional(Ints{1, 0, 2})));
}

/// x + projected softmax(q k^T) v of x, and what a norm makes of that.
Module attention(const Tensor& input) {
  Expr x = typed_call("tanh", {typed_constant(input)});
  Expr q = heads_of(dense(x, 10, 1), 2), k = heads_of(dense(x, 10, 2), 2), v = heads_of(dense(x, 10, 3), 2);
  Expr scores = typed_call("nn.batch_matmul", {q, k});
  Expr weights = typed_call("nn.softmax", {scores});
  Expr mixed = typed_call("nn.matmul", {weights, v});
  Expr joined = typed_call("transpose", {mixed}, make<TransposeAttrs>(std::optional(Ints{1, 0, 2})));
  joined = typed_call("reshape", {joined}, make<ReshapeAttrs>(Ints{7, 10}));
  return closed(typed_call("tanh", {typed_call("add", {dense(joined, 10, 4), x})}));
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

TEST(MixedPrecision, AttentionMultipliesBfloat16) {
  Module network = attention(random_tensor({7, 10}, kFloat32, 42));
  Module mixed = to_mixed_precision(network, NarrowCosts::none());
  for (const char* op : {"nn.dense", "nn.matmul", "nn.batch_matmul"})
    for (const Ref<Call>& product : calls_of(mixed, op)) {
      EXPECT_EQ(type_of(product->args[0]), kBFloat16) << op;
      EXPECT_EQ(type_of(product->args[1]), kBFloat16) << op;
      EXPECT_EQ(type_of(product), kFloat32) << op;
    }
  for (const Ref<Call>& move : calls_of(mixed, "transpose")) EXPECT_EQ(type_of(move), kBFloat16) << "a copy";
  EXPECT_EQ(type_of(calls_of(mixed, "nn.softmax")[0]->args[0]), kFloat32);
  double error = max_relative_error(value_of(mixed), value_of(network));
  EXPECT_LT(error, 0.02);
  EXPECT_GT(error, 0);
}

TEST(Quantization, AttentionMultipliesIntegers) {
  Module network = attention(random_tensor({7, 10}, kFloat32, 43));
  Module fake = quantize(network, NarrowCosts::none(), interpreted_ranges);
  EXPECT_LT(max_relative_error(value_of(fake), value_of(network)), 0.06);
  Module integers = fake_quantization_to_integer(fake);
  for (const char* op : {"nn.dense", "nn.matmul", "nn.batch_matmul"})
    EXPECT_EQ(calls_of(integers, op).size(), 0u) << op;
  ASSERT_EQ(calls_of(integers, "qnn.batch_matmul").size(), 1u);
  const Ref<Call> scores = calls_of(integers, "qnn.batch_matmul")[0];
  EXPECT_EQ(type_of(scores->args[0]), kUInt8);
  EXPECT_EQ(type_of(scores->args[1]), kInt8) << "the second operand is symmetric";
  for (const Ref<Call>& move : calls_of(integers, "transpose")) EXPECT_EQ(type_of(move).bits, 8);
  Module plain = canonicalize_qnn(integers);
  EXPECT_EQ(calls_of(plain, "qnn.batch_matmul").size(), 0u);
  EXPECT_LT(max_relative_error(value_of(plain), value_of(fake)), 0.02) << "a step here and there may differ";
}

/// Rows of 300 weights between 0 and 1, of which one row has a 1: a step of 1/255 would be all of the others.
TEST(Quantization, ProductsWhoseRowsAreLessThanAStepStayReal) {
  auto scores = [](float first) {
    Tensor x = zeros({4, 300}, kFloat32);
    x.set(0, first);
    return typed_call("nn.softmax", {typed_call("negative", {typed_constant(x)})});
  };
  auto product = [&](float first) {
    return closed(typed_call(
        "nn.matmul",
        {scores(first), typed_call("tanh", {typed_constant(random_tensor({300, 8}, kFloat32, 3))})}));
  };
  EXPECT_EQ(calls_of(quantize(product(-50), NarrowCosts::none(), interpreted_ranges), "qnn.quantize").size(),
            0u);
  Module even = quantize(product(0), NarrowCosts::none(), interpreted_ranges);
  EXPECT_EQ(calls_of(even, "qnn.quantize").size(), 2u) << "steps of 1/300/255 are fine enough";
  EXPECT_LT(max_relative_error(value_of(even), value_of(product(0))), 0.02);
}

/// What a norm reads, and a sum that it shares a tensor with, stays real: only a product insists.
TEST(Quantization, SumsOfTensorsThatANormReadsStayReal) {
  Expr x = typed_call("tanh", {typed_constant(random_tensor({4, 8}, kFloat32, 5))});
  Expr sum = typed_call("add", {dense(x, 8, 6), x});
  Expr norm = typed_call("nn.standardize", {sum}, make<StandardizeAttrs>(Ints{1}));
  Module fake =
      quantize(closed(typed_call("add", {sum, dense(norm, 8, 7)})), NarrowCosts::none(), interpreted_ranges);
  EXPECT_EQ(calls_of(fake, "qnn.quantize").size(), 3u) << "what products read, and what x is added to";
  Module mixed = to_mixed_precision(closed(typed_call("add", {sum, dense(norm, 8, 7)})), NarrowCosts::none());
  EXPECT_EQ(type_of(calls_of(mixed, "nn.standardize")[0]->args[0]), kFloat32);
}

/// A rotary embedding, say: its operands need not lie in memory.
TEST(Quantization, SumsBesideNoProductStayReal) {
  const auto elementwise = [](uint64_t seed) {
    return typed_call("tanh", {typed_constant(random_tensor({4, 8}, kFloat32, seed))});
  };
  const Expr sum = typed_call("add", {elementwise(5), elementwise(6)});
  const auto casts = [](const Expr& body) {
    return calls_of(to_mixed_precision(closed(body), NarrowCosts::none()), "cast").size();
  };
  EXPECT_EQ(casts(sum), 0u);
  EXPECT_EQ(calls_of(quantize(closed(sum), NarrowCosts::none(), interpreted_ranges), "qnn.quantize").size(),
            0u);
  EXPECT_EQ(casts(dense(sum, 8, 7)), 2u) << "what the product reads";
  EXPECT_GT(casts(typed_call("add", {sum, dense(sum, 8, 7)})), 2u) << "a residual is stored narrow";
}

struct ZeroPoints {
  DataType x, y;
  int64_t x_zero, y_zero;
};

/// 2 products of (5, 6) and (6, 4), either one stored transposed.
TEST(CanonicalizeQnn, MatrixProductsAreTheirDefinition) {
  const ZeroPoints kCases[] = {{kUInt8, kInt8, 0, 0},    {kUInt8, kInt8, 7, 0},  {kInt8, kInt8, -3, 2},
                               {kUInt8, kUInt8, 5, 128}, {kUInt8, kUInt8, 5, 9}, {kInt8, kUInt8, 0, 3}};
  for (const ZeroPoints& c : kCases)
    for (bool transpose_a : {false, true})
      for (bool transpose_b : {false, true}) {
        SCOPED_TRACE(fmt::format("{} - {} times {} - {}, transposed: {} {}", to_string(c.x), c.x_zero,
                                 to_string(c.y), c.y_zero, transpose_a, transpose_b));
        auto integers = [](std::vector<int64_t> shape, DataType type, uint64_t seed) {
          Tensor wide = random_tensor(std::move(shape), kFloat32, seed, 30.0), result(wide.shape(), type);
          for (int64_t i = 0; i < wide.size(); ++i)
            result.set_integer(i, static_cast<int64_t>(wide.value(i)) + (type == kUInt8 ? 128 : 0));
          return result;
        };
        Tensor x = integers(transpose_a ? Ints{2, 6, 5} : Ints{2, 5, 6}, c.x, 1);
        Tensor y = integers(transpose_b ? Ints{2, 4, 6} : Ints{2, 6, 4}, c.y, 2);
        auto zero = [](DataType type, int64_t value) {
          return typed_constant(full({}, type, static_cast<double>(value)));
        };
        Expr one = typed_constant(full({}, kFloat32, 1));
        Expr product = typed_call(
            "qnn.batch_matmul",
            {typed_constant(x), typed_constant(y), zero(c.x, c.x_zero), zero(c.y, c.y_zero), one, one},
            make<BatchMatmulAttrs>(std::optional(kInt32), transpose_a, transpose_b));
        Module plain = canonicalize_qnn(closed(product));
        const Ref<Call> real = calls_of(plain, "nn.batch_matmul")[0];
        EXPECT_EQ(type_of(real->args[0]), kUInt8) << "as one instruction multiplies them";
        EXPECT_EQ(type_of(real->args[1]).bits, 8);
        Tensor expected({2, 5, 4}, kInt32);
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t m = 0; m < 5; ++m)
            for (int64_t n = 0; n < 4; ++n) {
              int64_t sum = 0;
              for (int64_t k = 0; k < 6; ++k)
                sum += (x.integer(b * 30 + (transpose_a ? k * 5 + m : m * 6 + k)) - c.x_zero) *
                       (y.integer(b * 24 + (transpose_b ? n * 6 + k : k * 4 + n)) - c.y_zero);
              expected.set_integer((b * 5 + m) * 4 + n, sum);
            }
        EXPECT_EQ(max_relative_error(value_of(plain), expected), 0);
      }
}

/// A product without a form on quantized operands.
TEST(CanonicalizeQnn, LeavesTransposedConvolutionsReal) {
  Expr x = typed_constant(random_tensor({1, 2, 3, 3}, kFloat32, 1)),
       w = typed_constant(random_tensor({2, 3, 2, 2}, kFloat32, 2));
  Module given = closed(typed_call("tanh", {typed_call("nn.conv2d_transpose", {x, w})}));
  EXPECT_EQ(calls_of(quantize(given, NarrowCosts::none(), interpreted_ranges), "qnn.quantize").size(), 0u);
  Module plain = canonicalize_qnn(fake_quantization_to_integer(given));
  EXPECT_EQ(type_of(calls_of(plain, "nn.conv2d_transpose")[0]), kFloat32);
}

/// dense of tanh x, padded with `border` and put behind another tensor.
Module padded_and_joined(double border) {
  Expr x = typed_call("tanh", {typed_constant(random_tensor({6, 40}, kFloat32, 8))});
  Expr y = typed_call("sigmoid", {typed_constant(random_tensor({6, 3}, kFloat32, 9, 4.0))});
  Expr fill = typed_constant(full({}, kFloat32, border));
  Expr padded = typed_call("nn.pad", {x, fill}, make<PadAttrs>(std::vector<Ints>{{0, 0}, {2, 1}}));
  Expr joined = typed_call("concatenate", {typed_tuple({y, padded})}, make<ConcatenateAttrs>(int64_t{1}));
  return closed(dense(joined, 20, 10));
}

TEST(Quantization, PadsWithTheZeroPointAndJoinsAtOneScale) {
  Module given = padded_and_joined(0), fake = quantize(given, NarrowCosts::none(), interpreted_ranges);
  Module integers = fake_quantization_to_integer(fake);
  for (const char* op : {"nn.pad", "concatenate"})
    EXPECT_EQ(calls_of(integers, op)[0]->checked_type.as<TensorType>()->dtype.bits, 8) << op;
  EXPECT_EQ(calls_of(integers, "qnn.quantize").size(), 2u) << "one for each tensor";
  EXPECT_LT(max_relative_error(value_of(canonicalize_qnn(integers)), value_of(fake)), 1e-5);
  EXPECT_LT(max_relative_error(value_of(fake), value_of(given)), 0.05);
  integers =
      fake_quantization_to_integer(quantize(padded_and_joined(0.3), NarrowCosts::none(), interpreted_ranges));
  EXPECT_EQ(type_of(calls_of(integers, "nn.pad")[0]), kFloat32) << "0.3 is no element of x";
}

TEST(MixedPrecision, PadsBfloat16) {
  Module given = padded_and_joined(0);
  Module mixed = to_mixed_precision(given, NarrowCosts::none());
  EXPECT_EQ(type_of(calls_of(mixed, "nn.pad")[0]), kBFloat16);
  EXPECT_LT(max_relative_error(value_of(mixed), value_of(given)), 0.02);
}

Expr input_of(const char* name, const Ints& shape) {
  auto x = mutate(*make_var(name, tensor_type(shape, kFloat32)));
  x->checked_type = x->annotation;
  return Var(seal(std::move(x)));
}

/// Machines by LLVM's names, with and without dot products of bytes and bfloat16.
struct Machine {
  const char* cpu;
  int vector_bits;
};
constexpr Machine kZen4{"znver4", 512}, kHaswell{"haswell", 256};
NarrowCosts costs_of(const Machine& machine) {
  Target target;
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = machine.cpu;
  target.vector_bits = machine.vector_bits;
  return NarrowCosts(target);
}

/// The type of the data of op(x, weight) in mixed precision, where x is an input.
DataType data_type_of(const char* op, const Ints& data, const Ints& weight, const Attrs& attrs = nullptr) {
  Expr input = input_of("x", data);
  Expr constant = typed_constant(random_tensor(weight, kFloat32, 3));
  Module module = closed(typed_call(op, {input, constant}, attrs));
  module = to_mixed_precision(module, costs_of(kZen4));
  return type_of(calls_of(module, op)[0]->args[0]);
}

/// A kernel to narrow an input costs more than few products of each element save.
TEST(MixedPrecision, LeavesProductsThatDoNotPayForNarrowInputs) {
  EXPECT_EQ(data_type_of("nn.dense", {100, 32}, {8, 32}), kFloat32);
  EXPECT_EQ(data_type_of("nn.dense", {1, 32}, {40, 32}), kBFloat16);
  EXPECT_EQ(data_type_of("nn.dense", {2, 31}, {40, 31}), kFloat32) << "a row is no whole groups";
  EXPECT_EQ(data_type_of("nn.dense", {2, 31}, {60, 31}), kBFloat16);
}

/// Two tensors that the model does not hold are both put into groups in each run.
TEST(MixedPrecision, LeavesProductsOfTwoInputsThatDoNotPayForGrouping) {
  auto type_for = [](int64_t m, int64_t n) {
    Module module =
        closed(typed_call("nn.batch_matmul", {input_of("x", {8, m, 17}), input_of("y", {8, n, 17})}));
    module = to_mixed_precision(module, costs_of(kZen4));
    return type_of(calls_of(module, "nn.batch_matmul")[0]->args[0]);
  };
  EXPECT_EQ(type_for(40, 96), kFloat32) << "28 products of each element";
  EXPECT_EQ(type_for(200, 200), kBFloat16) << "100 products of each element";
}

/// Of an input that is a tuple, and a slice of one of unknown size: nobody counts their elements.
TEST(MixedPrecision, TakesInputsOfAnyKind) {
  const Type part = tensor_type(Ints{4, 8}, kFloat32);
  auto pair = mutate(*make_var("t", tuple_type({part, part})));
  pair->checked_type = pair->annotation;
  Expr joined = typed_call("concatenate", {Var(seal(std::move(pair)))}, make<ConcatenateAttrs>(int64_t{1}));
  Module module =
      closed(typed_call("nn.dense", {joined, typed_constant(random_tensor({64, 16}, kFloat32, 3))}));
  EXPECT_EQ(type_of(calls_of(to_mixed_precision(module, costs_of(kZen4)), "nn.dense")[0]), kFloat32);
  auto open = mutate(*make_var("x", tensor_type({lathe::Expr(var("n")), 16}, kFloat32)));
  open->checked_type = open->annotation;
  auto first = std::make_unique<StridedSliceAttrs>();
  first->begin = {0}, first->end = {4}, first->strides = {1}, first->axes = Ints{0};
  Expr slice = typed_call("strided_slice", {Var(seal(std::move(open)))}, seal(std::move(first)));
  module = closed(typed_call("nn.dense", {slice, typed_constant(random_tensor({64, 16}, kFloat32, 3))}));
  EXPECT_EQ(type_of(calls_of(to_mixed_precision(module, costs_of(kZen4)), "nn.dense")[0]), kFloat32);
}

/// A part of an input is narrowed by a kernel as the whole is.
TEST(MixedPrecision, LeavesProductsOfPartsOfInputs) {
  const auto type_of_half = [](int64_t results) {
    auto halves = std::make_unique<SplitAttrs>();
    halves->sections = 2, halves->axis = 0;
    const Expr both = typed_call("split", {input_of("x", {200, 32})}, seal(std::move(halves)));
    auto first = mutate(*project(both, 0).as<Projection>());
    first->checked_type = tensor_type(Ints{100, 32}, kFloat32);
    const Expr half = seal(std::move(first));
    Module module =
        closed(typed_call("nn.dense", {half, typed_constant(random_tensor({results, 32}, kFloat32, 3))}));
    module = to_mixed_precision(module, costs_of(kZen4));
    return type_of(calls_of(module, "nn.dense")[0]->args[0]);
  };
  EXPECT_EQ(type_of_half(8), kFloat32);
  EXPECT_EQ(type_of_half(40), kBFloat16);
}

/// Its vectors of bfloat16 are slower than those of float32, its tiles faster.
TEST(MixedPrecision, GoesByTilesWhereTheseAreFaster) {
  const auto type_for = [](const Ints& data, const Ints& weight, int64_t groups) {
    auto attrs = std::make_unique<ConvAttrs>();
    attrs->groups = groups;
    Module module = closed(
        typed_call("nn.conv2d", {input_of("x", data), typed_constant(random_tensor(weight, kFloat32, 3))},
                   seal(std::move(attrs))));
    module = to_mixed_precision(module, costs_of({"sapphirerapids", 512}));
    return type_of(calls_of(module, "nn.conv2d")[0]->args[0]);
  };
  EXPECT_EQ(type_for({1, 64, 20, 20}, {64, 64, 3, 3}, 1), kBFloat16);
  EXPECT_EQ(type_for({1, 64, 20, 20}, {40, 64, 3, 3}, 1), kBFloat16) << "the last vector is filled up";
  EXPECT_EQ(type_for({1, 64, 20, 20}, {8, 64, 3, 3}, 1), kFloat32) << "half a vector of results";
  EXPECT_EQ(type_for({1, 6, 20, 20}, {64, 6, 3, 3}, 1), kFloat32) << "three pairs behind each other";
  EXPECT_EQ(type_for({1, 64, 20, 20}, {64, 32, 3, 3}, 2), kBFloat16);
  EXPECT_EQ(type_for({1, 64, 20, 20}, {40, 32, 3, 3}, 2), kFloat32) << "groups of 20 results";
}

/// No instruction sums products of one channel.
TEST(MixedPrecision, LeavesChannelsByThemselves) {
  auto grouped = [](int64_t groups) {
    auto attrs = std::make_unique<ConvAttrs>();
    attrs->groups = groups;
    return data_type_of("nn.conv2d", {1, 8, 9, 9}, {16, 8 / groups, 5, 5}, seal(std::move(attrs)));
  };
  EXPECT_EQ(grouped(8), kFloat32);
  EXPECT_EQ(grouped(4), kBFloat16);
}

/// Vectors of few channels' results are of pixels, whatever makes the data.
TEST(MixedPrecision, LeavesConvolutionsOfFewChannels) {
  auto type_for = [](int64_t channels) {
    Expr x = typed_call("tanh", {input_of("x", {1, 8, 9, 9})});
    Module module =
        closed(typed_call("nn.conv2d", {x, typed_constant(random_tensor({channels, 8, 5, 5}, kFloat32, 3))},
                          make<ConvAttrs>()));
    module = to_mixed_precision(module, costs_of(kZen4));
    return type_of(calls_of(module, "nn.conv2d")[0]->args[0]);
  };
  EXPECT_EQ(type_for(1), kFloat32);
  EXPECT_EQ(type_for(4), kFloat32);
  EXPECT_EQ(type_for(5), kBFloat16);
}

/// Of tanh(x) and a constant weight, in mixed precision.
DataType bfloat16_or_not(const char* op, const Ints& data, const Ints& weight, const Machine& machine) {
  Expr x = typed_call("tanh", {input_of("x", data)});
  Module module = closed(typed_call(op, {x, typed_constant(random_tensor(weight, kFloat32, 3))}));
  return type_of(calls_of(to_mixed_precision(module, costs_of(machine)), op)[0]->args[0]);
}

/// Without an instruction, bfloat16 saves the way from memory alone.
TEST(MixedPrecision, LeavesArithmeticToFloat32WhereNothingMultipliesBfloat16) {
  EXPECT_EQ(bfloat16_or_not("nn.dense", {64, 256}, {256, 256}, kZen4), kBFloat16);
  EXPECT_EQ(bfloat16_or_not("nn.dense", {64, 256}, {256, 256}, kHaswell), kFloat32);
  EXPECT_EQ(bfloat16_or_not("nn.dense", {1, 2048}, {1024, 2048}, kHaswell), kBFloat16) << "8 MB of weights";
  EXPECT_EQ(bfloat16_or_not("nn.conv2d", {1, 64, 28, 28}, {64, 64, 1, 1}, kHaswell), kFloat32);
}

/// Of as many rows as there may be, nobody knows how often weights are read.
TEST(MixedPrecision, LeavesOpenSizesToFloat32WhereNothingMultipliesBfloat16) {
  auto data_type = [](const Machine& machine) {
    auto x = mutate(*make_var("x", tensor_type({lathe::Expr(var("n")), 256}, kFloat32)));
    x->checked_type = x->annotation;
    Expr y = typed_call("tanh", {Var(seal(std::move(x)))});
    Module module =
        closed(typed_call("nn.dense", {y, typed_constant(random_tensor({256, 256}, kFloat32, 3))}));
    return type_of(calls_of(to_mixed_precision(module, costs_of(machine)), "nn.dense")[0]->args[0]);
  };
  EXPECT_EQ(data_type(kZen4), kBFloat16);
  EXPECT_EQ(data_type(kHaswell), kFloat32);
}

/// A convolution of tanh(x) as `quantize` and the integer passes leave it for that machine.
Module integer_convolution(int64_t kernel, const Machine& machine) {
  auto attrs = std::make_unique<ConvAttrs>();
  attrs->padding = {kernel / 2, kernel / 2};
  Expr x = typed_call("tanh", {typed_constant(random_tensor({1, 64, 6, 6}, kFloat32, 2))});
  Expr weight = typed_constant(random_tensor({64, 64, kernel, kernel}, kFloat32, 3));
  Module module = closed(typed_call("nn.conv2d", {x, weight}, seal(std::move(attrs))));
  return quantize(module, costs_of(machine), interpreted_ranges);
}

/// Winograd's algorithm saves float32 more than pairs of int16 save.
TEST(Quantization, LeavesWhatFloat32TransformsWhereNothingMultipliesBytes) {
  auto is_quantized = [](int64_t kernel, const Machine& machine) {
    return !calls_of(integer_convolution(kernel, machine), "qnn.quantize").empty();
  };
  EXPECT_TRUE(is_quantized(1, kZen4));
  EXPECT_TRUE(is_quantized(3, kZen4));
  EXPECT_TRUE(is_quantized(1, kHaswell));
  EXPECT_FALSE(is_quantized(3, kHaswell));
  EXPECT_TRUE(is_quantized(5, kHaswell)) << "no transform of 5x5";
}

/// What products read is int16 where it is computed, wherever it is moved, and for who else reads it.
TEST(WidenProducts, StoresOperandsAsInt16) {
  Expr x = typed_call("cast", {typed_constant(random_tensor({1, 32, 8, 8}, kFloat32, 4, 40))},
                      make<CastAttrs>(kInt8));
  auto windows = std::make_unique<PoolAttrs>();
  windows->pool_size = {2, 2};
  Expr pooled = typed_call("nn.max_pool2d", {x}, seal(std::move(windows)));
  Expr joined =
      typed_call("concatenate", {typed_tuple({pooled, pooled})}, make<ConcatenateAttrs>(int64_t{1}));
  auto attrs = std::make_unique<ConvAttrs>();
  attrs->out_dtype = kInt32;
  Expr sums = typed_call("nn.conv2d", {joined, typed_constant(random_tensor({48, 64, 1, 1}, kInt8, 5))},
                         seal(std::move(attrs)));
  Expr other = typed_call("sum", {typed_call("cast", {joined}, make<CastAttrs>(kInt32))},
                          make<ReduceAttrs>(std::optional(Ints{1})));
  Module given =
      closed(typed_call("add", {sums, typed_call("expand_dims", {other}, make<ExpandDimsAttrs>(1, 1))}));
  const Module wide = widen_products(given, costs_of(kHaswell));
  EXPECT_TRUE(find_ill_formed(wide).empty());
  for (const Expr& arg : calls_of(wide, "nn.conv2d")[0]->args) EXPECT_EQ(type_of(arg), kInt16);
  EXPECT_EQ(type_of(calls_of(wide, "nn.max_pool2d")[0]), kInt16);
  EXPECT_EQ(type_of(calls_of(wide, "concatenate")[0]), kInt16);
  EXPECT_EQ(calls_of(wide, "concatenate").size(), 1u) << "for both readers";
  EXPECT_EQ(max_relative_error(value_of(wide), value_of(given)), 0);
  EXPECT_EQ(type_of(calls_of(widen_products(given, costs_of(kZen4)), "nn.conv2d")[0]->args[0]), kInt8);
}

/// One row reads its weights once: twice the bytes would take twice the time.
TEST(WidenProducts, LeavesWeightsThatComeFromMemory) {
  auto weight_type = [](int64_t rows) {
    Expr x = typed_call("cast", {input_of("x", {rows, 2048})}, make<CastAttrs>(kUInt8));
    auto attrs = std::make_unique<DenseAttrs>();
    attrs->out_dtype = kInt32;
    Module module = closed(typed_call("nn.dense", {x, typed_constant(random_tensor({1024, 2048}, kInt8, 6))},
                                      seal(std::move(attrs))));
    return type_of(calls_of(widen_products(module, costs_of(kHaswell)), "nn.dense")[0]->args[1]);
  };
  EXPECT_EQ(weight_type(1), kInt8);
  EXPECT_EQ(weight_type(64), kInt16);
}

/// A scale that was not folded before weights were rounded stays behind the convolution.
TEST(MixedPrecision, ScalesDoNotFoldIntoNarrowWeights) {
  Expr weight = typed_constant(random_tensor({8, 4, 3, 3}, kBFloat16, 3));
  auto attrs = std::make_unique<ConvAttrs>();
  attrs->out_dtype = kFloat32;
  Expr x = typed_call("cast", {input_of("x", {1, 4, 9, 9})}, make<CastAttrs>(kBFloat16));
  Expr y = typed_call("multiply", {typed_call("nn.conv2d", {x, weight}, seal(std::move(attrs))),
                                   typed_constant(random_tensor({8, 1, 1}, kFloat32, 4))});
  Module module = run_passes(closed(y), std::vector{PassId::kFoldScaleAxis, PassId::kInferType}, {});
  EXPECT_EQ(calls_of(module, "multiply").size(), 1u);
  EXPECT_EQ(type_of(calls_of(module, "nn.conv2d")[0]->args[1]), kBFloat16);
}

}  // namespace
}  // namespace lathe::relay
