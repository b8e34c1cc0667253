// Operators of com.microsoft that are some of the standard's in one: products, convolutions and norms with
// what stands around them. (Microsoft's ContribOperators.md says what each computes.)
#include <cmath>
#include <numeric>

#include "core/frontends/onnx_activation.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_nn.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Dims = std::vector<Expr>;

/// Input i where it is given, else null.
Value maybe(const Node& node, size_t i) { return node.has(i) ? node.in(i) : Value(); }

/// An operand of a product, turned as the attributes for it say: the first of its batch's axes goes behind
/// the others, then rows and columns change places. A vector is neither.
Value product_operand(const Node& node, size_t i, const char* rows, const char* batch) {
  Value value = node.in(i);
  if (node.rank(i) < 2) return value;
  if (node.integer(batch, 0) != 0) {
    Ints axes(static_cast<size_t>(node.rank(i)));
    std::iota(axes.begin(), axes.end(), 0);
    std::rotate(axes.begin(), axes.begin() + 1, axes.end() - 1);
    value = transposed(value, axes);
  }
  return node.integer(rows, 0) != 0 ? transposed_last_two(value) : value;
}

Values fused_matmul(const Node& node) {
  const Value product = converted_as("MatMul", node,
                                     {product_operand(node, 0, "transA", "transBatchA"),
                                      product_operand(node, 1, "transB", "transBatchB")})[0];
  const double alpha = node.real("alpha", 1);
  return {alpha == 1 ? product : times(product, number(product, alpha))};
}

Values fused_gemm(const Node& node) {
  Activation fused = activation(node, node.text("activation", ""));
  fused.alpha = node.real("activation_alpha", fused.alpha);
  fused.beta = node.real("activation_beta", fused.beta);
  return {fused(converted_as("Gemm", node, {node.in(0), node.in(1), maybe(node, 2)})[0])};
}

/// activation(convolution + bias + input 3). The order of parameters is that of the activation's.
Values fused_conv(const Node& node) {
  Value result = converted_as("Conv", node, {node.in(0), node.in(1), maybe(node, 2)})[0];
  if (node.has(3)) result = plus(result, node.in(3));
  if (!node.has_attr("activation")) return {result};
  Activation fused = activation(node, node.text("activation", ""));
  const std::vector<double> given = node.reals("activation_params");
  if (!given.empty()) fused.alpha = given[0];
  if (given.size() > 1) fused.beta = given[1];
  return {fused(result)};
}

/// Of input 0, or with a bias that is input 1.
Value with_bias(const Node& node) { return node.has(1) ? plus(node.in(0), node.in(1)) : node.in(0); }

Values bias_gelu(const Node& node) { return converted_as("Gelu", node, {with_bias(node)}); }
Values fast_gelu(const Node& node) { return {tanh_gelu_of(with_bias(node))}; }
Values quick_gelu(const Node& node) {
  const Value& x = node.in(0);
  return {times(x, emit("sigmoid", {times(x, number(x, node.real("alpha", 1.702)))}))};
}

/// The skip's leading dimensions may be missing or 1.
Value with_skip(const Node& node, size_t bias) {
  const Value sum = plus(node.in(0), node.in(1));
  return node.has(bias) ? plus(sum, node.in(bias)) : sum;
}

Values skip_layer_normalization(const Node& node) {
  const Value sum = with_skip(node, 4);
  const Normalized n =
      layer_normalized(sum, axes_from(node, -1), node.real("epsilon", 1e-12), node.in(2), maybe(node, 3));
  return {n.result, n.mean, n.inverse, sum};
}

Values skip_rms_normalization(const Node& node) {
  const Value sum = with_skip(node, 3);
  const Normalized n = rms_normalized(sum, axes_from(node, -1), node.real("epsilon", 1e-12));
  return {times(n.result, node.in(2)), Value(), n.inverse, sum};
}

/// Rows of tables for words, positions and segments, added up and normalized. The second output is how many
/// places of each sequence a mask keeps.
Values embed_layer_normalization(const Node& node) {
  if (node.rank(0) != 2) node.reject("words of rank {}, must be 2", node.rank(0));
  const Dims words = node.dims(0);
  const Value places = node.has(8) ? node.in(8) : reshape_to(counted_to(words[1]), {1, words[1]});
  Value sum = plus(taken(node.in(2), node.in(0), 0), taken(node.in(3), places, 0));
  if (node.has(1) != node.has(4))
    node.reject("segments without a table for them, or a table without segments");
  if (node.has(1)) sum = plus(sum, taken(node.in(4), node.in(1), 0));
  const Normalized n = layer_normalized(sum, {2}, node.real("epsilon", 1e-12), node.in(5), node.in(6));
  // Of a mask its ones count; without one nothing does.
  const Value kept = node.has(7) ? cast_to(emit("equal", {node.in(7), number(node.in(7), 1)}), kInt32)
                                 : repeated_to(scalar(kInt32, 0), words);
  return {n.result, sum_over(kept, {1}, false), sum};
}

/// Distances of rows from rows, of (m, k) and (n, k): (m, n).
Values distances(const Node& node) {
  const std::string metric = node.text("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean") node.reject("metric `{}` is not supported", metric);
  const auto as_rows = [&](size_t i, int64_t axis) {
    return emit("expand_dims", {node.in(i)}, make<relay::ExpandDimsAttrs>(axis, int64_t{1}));
  };
  const Value apart = minus(as_rows(0, 1), as_rows(1, 0)),
              squares = sum_over(times(apart, apart), {2}, false);
  return {metric == "euclidean" ? emit("sqrt", {squares}) : squares};
}

constexpr Converter kConverters[] = {
    {"FusedMatMul", fused_matmul},
    {"TransposeMatMul", fused_matmul},
    {"FusedGemm", fused_gemm},
    {"FusedConv", fused_conv},
    {"BiasGelu", bias_gelu, Arithmetic::kWide},
    {"FastGelu", fast_gelu, Arithmetic::kWide},
    {"QuickGelu", quick_gelu, Arithmetic::kWide},
    {"SkipLayerNormalization", skip_layer_normalization, Arithmetic::kWide},
    {"SkipSimplifiedLayerNormalization", skip_rms_normalization, Arithmetic::kWide},
    {"EmbedLayerNormalization", embed_layer_normalization, Arithmetic::kWide},
    {"CDist", distances, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> contrib_fused_converters() { return kConverters; }

}  // namespace lathe::onnx
