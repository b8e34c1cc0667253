// Convolution, pooling, normalisation, matrix products.
#include <numeric>

#include "core/frontends/onnx_converter.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;
using Values = std::vector<Value>;

/// auto_pad and pads as begins then ends, for windows of `kernel` over `input` (spatial sizes).
Ints window_padding(const Node& node, const Ints& input, const Ints& kernel, const Ints& strides,
                    const Ints& dilation) {
  size_t n = kernel.size();
  std::string mode = node.text("auto_pad", "NOTSET");
  Ints pads = node.ints("pads", Ints(2 * n, 0));
  if (mode == "VALID") return Ints(2 * n, 0);
  if (pads.size() != 2 * n) node.reject("pads has {} numbers, must have {}", pads.size(), 2 * n);
  if (mode == "NOTSET") return pads;
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") node.reject("auto_pad `{}` is unknown", mode);
  for (size_t d = 0; d < n; ++d) {
    int64_t out = (input[d] + strides[d] - 1) / strides[d];
    int64_t total =
        std::max<int64_t>(0, (out - 1) * strides[d] + (kernel[d] - 1) * dilation[d] + 1 - input[d]);
    pads[d] = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
    pads[n + d] = total - pads[d];
  }
  return pads;
}

/// Spatial dimensions of the data.
size_t window_rank(const Node& node) {
  int64_t rank = node.rank(0);
  if (rank < 3 || rank > 5) node.reject("data of rank {}, must be 3 to 5", rank);
  return static_cast<size_t>(rank) - 2;
}

struct Window {
  size_t rank;  // spatial
  Ints kernel, strides, dilation, padding;
};

/// The window of a node with a weight at input `weight`, whose kernel it then is unless kernel_shape says so,
/// or without one.
Window window_of(const Node& node, std::optional<size_t> weight) {
  Ints shape = node.shape(0);
  Window w;
  w.rank = window_rank(node);
  Ints of_weight = weight ? node.shape(*weight) : Ints{};
  if (of_weight.size() > 2) of_weight.erase(of_weight.begin(), of_weight.begin() + 2);
  w.kernel = node.ints("kernel_shape", of_weight);
  w.strides = node.ints("strides", Ints(w.rank, 1));
  w.dilation = node.ints("dilations", Ints(w.rank, 1));
  if (weight && node.rank(*weight) != static_cast<int64_t>(w.rank) + 2)
    node.reject("a weight of rank {} for data of rank {}", node.rank(*weight), w.rank + 2);
  if (w.kernel.size() != w.rank || w.strides.size() != w.rank || w.dilation.size() != w.rank)
    node.reject("kernel_shape, strides or dilations do not have {} numbers", w.rank);
  for (size_t d = 0; d < w.rank; ++d)
    if (w.kernel[d] < 1 || w.strides[d] < 1 || w.dilation[d] < 1)
      node.reject("kernel, strides and dilations must be positive");
  w.padding = window_padding(node, Ints(shape.begin() + 2, shape.end()), w.kernel, w.strides, w.dilation);
  return w;
}

}  // namespace

relay::Attrs conv_attrs(const Node& node, size_t weight, std::optional<DataType> out_dtype) {
  Window w = window_of(node, weight);
  auto attrs = std::make_unique<relay::ConvAttrs>();
  attrs->strides = w.strides, attrs->padding = w.padding, attrs->dilation = w.dilation;
  attrs->groups = node.integer("group", 1);
  attrs->channels = node.shape(weight)[0];
  attrs->kernel_size = w.kernel;
  attrs->out_dtype = out_dtype;
  return seal(std::move(attrs));
}

namespace {
const char* by_rank(size_t rank, std::array<const char*, 3> names) { return names[rank - 1]; }

Value with_bias(const Node& node, Value value, size_t input) {
  return node.has(input) ? emit("nn.bias_add", {value, node.in(input)}, make<relay::ChannelAttrs>(1)) : value;
}

Values conv(const Node& node) {
  const char* op = by_rank(window_rank(node), {"nn.conv1d", "nn.conv2d", "nn.conv3d"});
  return {with_bias(node, emit(op, {node.in(0), node.in(1)}, conv_attrs(node, 1)), 2)};
}

Values conv_transpose(const Node& node) {
  Ints weight = node.shape(1), shape = node.shape(0);
  Window w = window_of(node, 1);
  Ints output_padding = node.ints("output_padding", Ints(w.rank, 0));
  Ints wanted = node.ints("output_shape", {});
  std::string mode = node.text("auto_pad", "NOTSET");
  if (output_padding.size() != w.rank || (!wanted.empty() && wanted.size() < w.rank))
    node.reject("output_padding or output_shape does not have {} numbers", w.rank);
  if (wanted.empty() && mode.starts_with("SAME"))
    for (size_t d = 0; d < w.rank; ++d) wanted.push_back(shape[2 + d] * w.strides[d]);
  for (size_t d = 0; d < w.rank && !wanted.empty(); ++d) {
    int64_t total = w.strides[d] * (shape[2 + d] - 1) + output_padding[d] +
                    (w.kernel[d] - 1) * w.dilation[d] + 1 - wanted[wanted.size() - w.rank + d];
    if (total < 0) output_padding[d] -= total, total = 0;
    int64_t less = total / 2, more = total - less;
    w.padding[d] = mode == "SAME_UPPER" ? less : more;
    w.padding[w.rank + d] = total - w.padding[d];
  }
  int64_t groups = node.integer("group", 1);
  auto attrs = make<relay::ConvTransposeAttrs>(w.strides, w.padding, output_padding, w.dilation, groups,
                                               weight[1] * groups, w.kernel);
  const char* op = by_rank(w.rank, {"nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"});
  return {with_bias(node, emit(op, {node.in(0), node.in(1)}, attrs), 2)};
}

Values pool(const Node& node) {
  bool average = node.op() == "AveragePool";
  if (node.outputs() > 1) node.reject("the second output (indices) is not supported");
  Window w = window_of(node, std::nullopt);
  auto attrs =
      make<relay::PoolAttrs>(w.kernel, w.strides, w.padding, w.dilation, std::string(), std::string(),
                             node.integer("ceil_mode", 0) != 0, node.integer("count_include_pad", 0) != 0);
  const char* op = average ? by_rank(w.rank, {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"})
                           : by_rank(w.rank, {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"});
  return {emit(op, {node.in(0)}, attrs)};
}

Values global_pool(const Node& node) {
  if (node.rank(0) < 3) node.reject("data of rank {}, must be 3 or more", node.rank(0));
  Ints axes(static_cast<size_t>(node.rank(0) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  bool average = node.op() == "GlobalAveragePool";
  if (axes.size() == 2)
    return {emit(average ? "nn.global_avg_pool2d" : "nn.global_max_pool2d", {node.in(0)})};
  return {emit(average ? "mean" : "max", {node.in(0)}, make<relay::ReduceAttrs>(axes, true))};
}

Values batch_normalization(const Node& node) {
  if (node.integer("training_mode", 0) != 0) node.reject("training_mode is not supported");
  auto attrs = make<relay::NormAttrs>(int64_t{0}, int64_t{1}, node.real("epsilon", 1e-5));
  Value result = emit("nn.batch_norm", {node.in(0), node.in(1), node.in(2), node.in(3), node.in(4)}, attrs);
  return {field_of(result, 0)};
}

Values instance_normalization(const Node& node) {
  return {emit("nn.instance_norm", {node.in(0), node.in(1), node.in(2)},
               make<relay::NormAttrs>(int64_t{0}, int64_t{1}, node.real("epsilon", 1e-5)))};
}

/// Normalises over axes [axis, rank), then scale and bias. Mean and 1/deviation are outputs too.
Values layer_normalization(const Node& node) {
  int64_t rank = node.rank(0), first = node.axis(node.integer("axis", -1), rank);
  Ints axes;
  for (int64_t d = first; d < rank; ++d) axes.push_back(d);
  auto over = make<relay::ReduceAttrs>(axes, true);
  DataType dtype = node.dtype(0);
  Value mean = emit("mean", {node.in(0)}, over), centred = emit("subtract", {node.in(0), mean});
  Value variance = emit("mean", {emit("multiply", {centred, centred})}, over);
  Value inverse = emit("rsqrt", {emit("add", {variance, scalar(dtype, node.real("epsilon", 1e-5))})});
  Value result = emit("multiply", {emit("multiply", {centred, inverse}), node.in(1)});
  if (node.has(2)) result = emit("add", {result, node.in(2)});
  return {result, mean, inverse};
}

/// Divides by the root of the mean square over axes [axis, rank), then scales.
Values rms_normalization(const Node& node) {
  Ints axes;
  for (int64_t d = node.axis(node.integer("axis", -1), node.rank(0)); d < node.rank(0); ++d)
    axes.push_back(d);
  DataType dtype = node.dtype(0);
  Value x = cast_to(node.in(0), kFloat32);
  Value mean = emit("mean", {emit("multiply", {x, x})}, make<relay::ReduceAttrs>(axes, true));
  Value inverse = emit("rsqrt", {emit("add", {mean, scalar(kFloat32, node.real("epsilon", 1e-5))})});
  return {emit("multiply", {cast_to(emit("multiply", {x, inverse}), dtype), node.in(1)})};
}

/// Divides by the 1- or 2-norm along the axis; zeros stay zeros.
Values lp_normalization(const Node& node) {
  auto over = make<relay::ReduceAttrs>(Ints{node.axis(node.integer("axis", -1), node.rank(0))}, true);
  int64_t p = node.integer("p", 2);
  if (p != 1 && p != 2) node.reject("p is {}, must be 1 or 2", p);
  Value x = node.in(0), zero = scalar(node.dtype(0), 0);
  Value sum = emit("sum", {p == 1 ? emit("abs", {x}) : emit("multiply", {x, x})}, over);
  Value norm = p == 1 ? sum : emit("sqrt", {sum});
  return {
      emit("where", {emit("equal", {norm, zero}), emit("multiply", {x, zero}), emit("divide", {x, norm})})};
}

Values lrn(const Node& node) {
  return {emit("nn.lrn", {node.in(0)},
               make<relay::LrnAttrs>(node.integer("size", 1), int64_t{1}, node.real("bias", 1.0),
                                     node.real("alpha", 1e-4), node.real("beta", 0.75)))};
}

Value transposed_last_two(const Value& value) {
  Ints axes(shape_of(value).size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return emit("transpose", {value}, make<relay::TransposeAttrs>(axes));
}

Values matmul(const Node& node) {
  return {matrix_product(node, node.in(0), node.in(1), [](const Value& rows, const Value& weight) {
    return emit("nn.dense", {rows, weight});
  })};
}
}  // namespace

Value matrix_product(const Node& node, Value a, Value b,
                     FunctionRef<Value(const Value&, const Value&)> dense) {
  Ints sa = shape_of(a), sb = shape_of(b);
  if (sa.empty() || sb.empty()) node.reject("a scalar operand");
  bool vector_a = sa.size() == 1, vector_b = sb.size() == 1;
  if (vector_a) sa.insert(sa.begin(), 1);
  if (vector_b) sb.push_back(1);
  int64_t m = sa[sa.size() - 2], k = sa.back(), n = sb.back();
  if (sb[sb.size() - 2] != k) node.reject("shapes {} and {} do not fit", shape_text(sa), shape_text(sb));
  a = reshape(a, sa), b = reshape(b, sb);
  Ints batch;
  Value result;
  size_t rank = std::max(sa.size(), sb.size());
  for (size_t d = 0; d + 2 < rank; ++d) {
    auto dim = [&](const Ints& s) { return d + s.size() < rank ? 1 : s[d + s.size() - rank]; };
    if (dim(sa) != dim(sb) && dim(sa) != 1 && dim(sb) != 1)
      node.reject("shapes {} and {} do not broadcast", shape_text(sa), shape_text(sb));
    batch.push_back(dim(sa) == 1 ? dim(sb) : dim(sa));
  }
  if (sb.size() == 2) {  // one weight for all rows
    result = dense(reshape(a, {shape_size(sa) / std::max<int64_t>(k, 1), k}), transposed_last_two(b));
  } else {
    result = emit("nn.matmul", {a, b}, make<relay::MatmulAttrs>());
  }
  Ints shape = batch;
  if (!vector_a) shape.push_back(m);
  if (!vector_b) shape.push_back(n);
  return reshape(result, shape);
}

namespace {

Values gemm(const Node& node) {
  Value a = node.in(0), b = node.in(1);
  DataType dtype = node.dtype(0);
  if (node.rank(0) != 2 || node.rank(1) != 2)
    node.reject("operands of shapes {} and {} are not matrices", shape_text(node.shape(0)),
                shape_text(node.shape(1)));
  if (node.integer("transA", 0)) a = transposed_last_two(a);
  if (!node.integer("transB", 0)) b = transposed_last_two(b);
  Value result = emit("nn.dense", {a, b});
  double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  if (alpha != 1) result = emit("multiply", {result, scalar(dtype, alpha)});
  if (!node.has(2)) return {result};
  Value c = beta == 1 ? node.in(2) : emit("multiply", {node.in(2), scalar(dtype, beta)});
  return {emit("add", {result, c})};
}

constexpr Converter kConverters[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"GlobalAveragePool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"BatchNormalization", batch_normalization},
    {"InstanceNormalization", instance_normalization},
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", rms_normalization},
    {"LpNormalization", lp_normalization},
    {"LRN", lrn},
    {"MatMul", matmul},
    {"Gemm", gemm},
};
}  // namespace

std::span<const Converter> nn_converters() { return kConverters; }

}  // namespace lathe::onnx
