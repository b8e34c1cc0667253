// Operators of com.microsoft on 8-bit integers: those of the standard on what the integers stand for, as a
// graph has them that quantizes by itself, so that both end in the same kernels; and products of integers.
#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_contrib_attention.h"
#include "core/frontends/onnx_nn.h"
#include "core/frontends/onnx_program.h"
#include "core/frontends/onnx_quantize.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// What input i stands for, of the scale and the zero point that are these inputs.
Value real_of(const Node& node, size_t i, size_t scale, size_t zero) {
  return relay::typed_call(
      "qnn.dequantize",
      {node.in(i), cast_to(parameter(node.in(scale)), kFloat32), zero_point(node, zero, node.dtype(i))},
      make<relay::QuantizeAttrs>(kInt8, int64_t{0}));
}
/// The two behind it.
Value real_of(const Node& node, size_t i) { return real_of(node, i, i + 1, i + 2); }

/// At the scale of input `scale` and the zero point behind it; without one of type `dtype`.
Value quantized(const Node& node, const Value& real, size_t scale, DataType dtype) {
  const Value zero = zero_point(node, scale + 1, dtype);
  return relay::typed_call("qnn.quantize", {real, cast_to(parameter(node.in(scale)), kFloat32), zero},
                           make<relay::QuantizeAttrs>(type_of(zero).dtype, int64_t{0}));
}

/// f of the data with channels as the standard has them, behind the batch, and back: an attribute says that
/// they are last here.
Value of_channels_first(const Value& data, bool are_last, FunctionRef<Value(const Value&)> f) {
  const auto rank = static_cast<int64_t>(type_of(data).shape.size());
  if (!are_last || rank < 3) return f(data);
  Ints first{0, rank - 1}, last{0};
  for (int64_t d = 1; d + 1 < rank; ++d) first.push_back(d), last.push_back(d + 1);
  last.push_back(1);
  return transposed(f(transposed(data, first)), last);
}

/// The operator of the standard that is called so without the QLinear before it.
std::string plain_name(const Node& node) { return node.op().substr(std::string("QLinear").size()); }

/// Of one tensor.
Values of_one(const Node& node) {
  // Softmax is that of the version that an attribute tells.
  const int64_t opset = node.integer("opset", Node::kNewest);
  const Value result = of_channels_first(
      real_of(node, 0), node.integer("channels_last", 0) != 0,
      [&](const Value& x) { return converted_as(plain_name(node).c_str(), node, {x}, opset)[0]; });
  return {quantized(node, result, 3, node.dtype(0))};
}

/// Of two.
Values of_two(const Node& node) {
  const Value result = converted_as(plain_name(node).c_str(), node, {real_of(node, 0), real_of(node, 3)})[0];
  return {quantized(node, result, 6, node.dtype(0))};
}

Values concat(const Node& node) {
  if (node.inputs() < 5 || node.inputs() % 3 != 2) node.reject("{} inputs", node.inputs());
  Values parts;
  for (size_t i = 2; i < node.inputs(); i += 3) parts.push_back(real_of(node, i));
  return {quantized(node, converted_as("Concat", node, parts)[0], 0, node.dtype(2))};
}

Values where(const Node& node) {
  const Value chosen = choose(node.in(0), real_of(node, 1), real_of(node, 4));
  return {quantized(node, chosen, 7, node.dtype(1))};
}

/// The standard's, whose data may have channels last.
Values conv(const Node& node) {
  return {of_channels_first(node.in(0), node.integer("channels_last", 0) != 0, [&](const Value& x) {
    Values inputs = {x};
    for (size_t i = 1; i < node.inputs(); ++i) inputs.push_back(node.has(i) ? node.in(i) : Value());
    return converted_as("QLinearConv", node, inputs)[0];
  })};
}

Values max_pool_of_channels_last(const Node& node) {
  return {of_channels_first(node.in(0), true,
                            [&](const Value& x) { return converted_as("MaxPool", node, {x})[0]; })};
}

/// An int32 product as the real numbers that it stands for, plus input `bias` where there is one.
Value real_product(const Node& node, const Value& product, const Value& scale, size_t bias) {
  const Value real = times(cast_to(product, kFloat32), scale);
  return node.has(bias) ? plus(real, node.in(bias)) : real;
}

/// Inputs: a, b, their scales, their zero points, bias.
Values matmul_integer_to_float(const Node& node) {
  const Value product = integer_product(node, node.in(0), zero_point(node, 4, node.dtype(0)), node.in(1),
                                        zero_point(node, 5, node.dtype(1)));
  return {real_product(node, product, product_of_scales(node, 2, 3), 6)};
}

/// Inputs: a of real numbers, b, its scale and zero point, bias.
Values dynamic_quantize_matmul(const Node& node) {
  const QuantizedValue a = dynamically_quantized(node.in(0));
  const Value product =
      integer_product(node, a.value, a.zero, node.in(1), zero_point(node, 3, node.dtype(1)));
  return {real_product(node, product, times(a.scale, cast_to(parameter(node.in(2)), kFloat32)), 4)};
}

/// Inputs: a, b, each with scale and zero point, an int32 bias at the product's scale, scale and zero point
/// of the result, which is of real numbers without them.
Values gemm(const Node& node) {
  if (node.rank(0) != 2 || node.rank(3) != 2) node.reject("operands that are no matrices");
  const auto operand = [&](size_t i, const char* turned) {
    return node.integer(turned, 0) != 0 ? transposed_last_two(node.in(i)) : node.in(i);
  };
  Value product = integer_product(node, operand(0, "transA"), zero_point(node, 2, node.dtype(0)),
                                  operand(3, "transB"), zero_point(node, 5, node.dtype(3)));
  if (node.has(6)) product = with_named_sizes(relay::typed_call("add", {product, node.in(6)}));
  Value scale = product_of_scales(node, 1, 4);
  if (const double alpha = node.real("alpha", 1); alpha != 1) scale = times(scale, number(scale, alpha));
  if (node.has(7)) return {rescaled(node, product, 7, scale, 1)};
  return {times(cast_to(product, kFloat32), scale)};
}

/// Inputs: data, weight, a bias of real numbers, the scales of the two, mask, their zero points, past.
Values attention(const Node& node) {
  const Value product = integer_product(node, node.in(0), zero_point(node, 6, node.dtype(0)), node.in(1),
                                        zero_point(node, 7, node.dtype(1)));
  Projections of = split_projections(node, real_product(node, product, product_of_scales(node, 3, 4), 2));
  of.mask = 5;
  if (node.has(8)) of.past = node.in(8);
  return attention_of_projections(node, of);
}

/// Inputs: words, segments, tables of words, positions and segments, scale and bias of the norm, mask; then
/// the scales of the five that are quantized, and their zero points.
Values embed_layer_normalization(const Node& node) {
  constexpr size_t kFirst = 2, kQuantized = 5, kScales = 8, kZeros = kScales + kQuantized;
  Values inputs;
  for (size_t i = 0; i < kScales; ++i) {
    const bool is_quantized = i >= kFirst && i < kFirst + kQuantized;
    inputs.push_back(!node.has(i)   ? Value()
                     : is_quantized ? real_of(node, i, i - kFirst + kScales, i - kFirst + kZeros)
                                    : node.in(i));
  }
  return converted_as("com.microsoft.EmbedLayerNormalization", node, inputs);
}

constexpr Converter kConverters[] = {
    {"QEmbedLayerNormalization", embed_layer_normalization},
    {"QLinearSigmoid", of_one},
    {"QLinearLeakyRelu", of_one},
    {"QLinearSoftmax", of_one},
    {"QLinearAveragePool", of_one},
    {"QLinearGlobalAveragePool", of_one},
    {"QLinearReduceMean", of_one},
    {"QLinearAdd", of_two},
    {"QLinearMul", of_two},
    {"QLinearConcat", concat},
    {"QLinearWhere", where},
    {"QLinearConv", conv},
    {"NhwcMaxPool", max_pool_of_channels_last},
    {"MatMulIntegerToFloat", matmul_integer_to_float},
    {"DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"QGemm", gemm},
    {"QAttention", attention},
};
}  // namespace

std::span<const Converter> contrib_quantized_converters() { return kConverters; }

}  // namespace lathe::onnx
