// Convolution, normalisation, matrix products.
#include "core/frontends/onnx_nn.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_window.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
using relay::Ints;

ConvOperands conv_operands(const Node& node, size_t weight, const Value& zero,
                           std::optional<DataType> out_dtype) {
  Window w = window_of(node, weight);
  auto attrs = std::make_unique<relay::ConvAttrs>();
  attrs->strides = w.strides, attrs->padding = w.padding, attrs->dilation = w.dilation;
  attrs->groups = node.integer("group", 1);
  attrs->channels = node.shape(weight)[0];
  attrs->kernel_size = w.kernel;
  attrs->out_dtype = out_dtype;
  // Kernels are made for few rows and for many: channels that they took for open would be as few.
  const Value data = of_extent(node.in(0), 1, node.shape(weight)[1] * attrs->groups);
  return {framed(data, w, zero), seal(std::move(attrs))};
}

namespace {
Value with_bias(const Node& node, Value value, size_t input) {
  return node.has(input) ? emit("nn.bias_add", {value, node.in(input)}, make<relay::ChannelAttrs>(1)) : value;
}

/// What products of a type are summed in: more than 16 bits.
std::optional<DataType> sum_dtype(DataType dtype) {
  return dtype.is_float() && dtype.bits < 32 ? std::optional(kFloat32) : std::nullopt;
}

Values conv(const Node& node) {
  const char* op = by_rank(window_rank(node), {"nn.conv1d", "nn.conv2d", "nn.conv3d"});
  // Rounded to the data's type once, before the bias, which has that type.
  const ConvOperands given = conv_operands(node, 1, scalar(node.dtype(0), 0), sum_dtype(node.dtype(0)));
  Value result = emit(op, {given.data, node.in(1)}, given.attrs);
  return {with_bias(node, cast_to(result, node.dtype(0)), 2)};
}

Values conv_transpose(const Node& node) {
  Ints weight = node.shape(1);
  Window w = window_of(node, 1);
  Ints output_padding = node.ints("output_padding", Ints(w.rank, 0));
  Ints wanted = node.ints("output_shape", {});
  std::string mode = node.text("auto_pad", "NOTSET");
  if (output_padding.size() != w.rank || (!wanted.empty() && wanted.size() < w.rank))
    node.reject("output_padding or output_shape does not have {} numbers", w.rank);
  const bool same = wanted.empty() && mode.starts_with("SAME");
  // The padding follows from the output's size. Where even none leaves too few elements, the output is padded
  // at its end instead.
  for (size_t d = 0; d < w.rank && (same || !wanted.empty()); ++d) {
    // Elements of the output without padding, less those wanted: SAME is a stride's for each of the data's.
    int64_t total = output_padding[d] + w.reach(d) - w.strides[d];
    if (!same)
      total += w.strides[d] * node.dim(0, static_cast<int64_t>(d) + 2) - wanted[wanted.size() - w.rank + d];
    if (total < 0) output_padding[d] -= total, total = 0;
    int64_t less = total / 2, more = total - less;
    w.padding[d] = mode == "SAME_UPPER" ? less : more;
    w.padding[w.rank + d] = total - w.padding[d];
  }
  int64_t groups = node.integer("group", 1);
  auto attrs = make<relay::ConvTransposeAttrs>(w.strides, w.padding, output_padding, w.dilation, groups,
                                               weight[1] * groups, w.kernel);
  const char* op = by_rank(w.rank, {"nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"});
  return {with_bias(node, emit(op, {of_extent(node.in(0), 1, weight[0]), node.in(1)}, attrs), 2)};
}

/// By the mean and variance of the batch, which also move the running ones. These may be of another type than
/// the data, and keep it.
Values batch_normalization_in_training(const Node& node, const Value& data) {
  const size_t rank = type_of(data).shape.size();
  Ints axes(rank - 1), channels(rank, 1);
  std::iota(axes.begin(), axes.end(), 1);
  // All axes but the channels.
  axes[0] = 0;
  channels[1] = node.rank(0) == 1 ? 1 : node.dim(0, 1);
  auto mean_of = [&](const Value& x) { return emit("mean", {x}, make<relay::ReduceAttrs>(axes, true)); };
  const DataType dtype = node.dtype(0), sums = sum_dtype(dtype).value_or(dtype);
  auto channel = [&](size_t i) { return cast_to(reshape(node.in(i), channels), sums); };
  const Value x = cast_to(data, sums), mean = mean_of(x), centred = minus(x, mean),
              variance = mean_of(times(centred, centred));
  Value inverse = emit("rsqrt", {plus(variance, number(variance, node.real("epsilon", 1e-5)))});
  double kept = node.real("momentum", 0.9);
  // Running statistic i, moved towards the batch's.
  auto moved = [&](size_t i, const Value& current) {
    Value fresh = reshape(current, {channels[1]}), old = cast_to(node.in(i), type_of(fresh).dtype);
    return cast_to(plus(times(old, number(old, kept)), times(fresh, number(fresh, 1 - kept))), node.dtype(i));
  };
  const Value result = plus(times(times(centred, inverse), channel(1)), channel(2));
  return {cast_to(result, dtype), moved(3, mean), moved(4, variance)};
}

/// `data` is (batch, channels, ..).
Values batch_normalization_of(const Node& node, const Value& data) {
  if (node.integer("training_mode", 0) != 0) return batch_normalization_in_training(node, data);
  auto attrs = make<relay::NormAttrs>(int64_t{0}, int64_t{1}, node.real("epsilon", 1e-5));
  const DataType dtype = node.dtype(0), sums = sum_dtype(dtype).value_or(dtype);
  Values args;
  for (size_t i = 0; i < 5; ++i) args.push_back(cast_to(i == 0 ? data : node.in(i), sums));
  return {cast_to(field_of(emit("nn.batch_norm", args, attrs), 0), dtype)};
}

Values batch_normalization(const Node& node) {
  if (node.rank(0) == 0) node.reject("a scalar, must have a batch");
  if (node.rank(0) > 1) return batch_normalization_of(node, node.in(0));
  // A vector has one channel.
  const std::vector<Expr> shape = node.dims(0);
  Values results = batch_normalization_of(node, reshape_to(node.in(0), {shape[0], 1}));
  results[0] = reshape_to(results[0], shape);
  return results;
}

Values instance_normalization(const Node& node) {
  return {emit("nn.instance_norm", {node.in(0), node.in(1), node.in(2)},
               make<relay::NormAttrs>(int64_t{0}, int64_t{1}, node.real("epsilon", 1e-5)))};
}

/// Normalises each group of channels; until opset 21 scale and bias are those of a group. That an open number
/// of channels makes whole groups is checked by the run.
Values group_normalization(const Node& node) {
  const int64_t groups = node.integer("num_groups", 0);
  const Expr channels = node.rank(0) < 2 ? Expr(0) : node.dims(0)[1];
  if (groups < 1 || (as_int(channels) && int_value(channels) % groups != 0))
    node.reject("{} groups of {} channels", groups, relay::print(channels));
  auto parameter = [&](size_t i) {
    if (node.opset() >= 21) return node.in(i);
    // (groups) -> (channels), each as often as a group has channels.
    const Expr each = simplify(floordiv(channels, Expr(groups)));
    return reshape_to(repeated_to(reshape(node.in(i), {groups, 1}), {groups, each}), {channels});
  };
  return {emit("nn.group_norm", {node.in(0), parameter(1), parameter(2)},
               make<relay::NormAttrs>(groups, int64_t{1}, node.real("epsilon", 1e-5)))};
}

}  // namespace

Ints axes_from(const Node& node, int64_t axis) {
  Ints axes;
  for (int64_t d = node.axis(axis, node.rank(0)); d < node.rank(0); ++d) axes.push_back(d);
  return axes;
}

Normalized layer_normalized(const Value& x, const Ints& axes, double epsilon, const Value& scale,
                            const Value& bias) {
  auto over = make<relay::ReduceAttrs>(axes, true);
  Normalized n;
  n.mean = emit("mean", {x}, over);
  const Value centred = minus(x, n.mean), variance = emit("mean", {times(centred, centred)}, over);
  n.inverse = emit("rsqrt", {plus(variance, number(variance, epsilon))});
  n.result = times(times(centred, n.inverse), scale);
  if (bias) n.result = plus(n.result, bias);
  return n;
}

Normalized rms_normalized(const Value& x, const Ints& axes, double epsilon) {
  Normalized n;
  const Value mean = emit("mean", {times(x, x)}, make<relay::ReduceAttrs>(axes, true));
  n.inverse = emit("rsqrt", {plus(mean, number(mean, epsilon))});
  n.result = times(x, n.inverse);
  return n;
}

namespace {

/// Normalises over axes [axis, rank), then scale and bias. Mean and 1/deviation are outputs too.
Values layer_normalization(const Node& node) {
  // Mean and deviation are outputs of a type of their own, so the row is kGiven and widens by itself.
  const DataType dtype = node.dtype(0), sums = sum_dtype(dtype).value_or(dtype);
  const Normalized n = layer_normalized(cast_to(node.in(0), sums), axes_from(node, node.integer("axis", -1)),
                                        node.real("epsilon", 1e-5), cast_to(node.in(1), sums),
                                        node.has(2) ? cast_to(node.in(2), sums) : Value());
  // As the operator says, and not as they were computed.
  const DataType told = node.integer("stash_type", 1) == 16 ? kBFloat16 : kFloat32;
  return {cast_to(n.result, dtype), cast_to(n.mean, told), cast_to(n.inverse, told)};
}

/// Divides by the root of the mean square over axes [axis, rank), then scales. One of the two names tells
/// what it multiplied by.
Values rms_normalization(const Node& node) {
  const Normalized n = rms_normalized(cast_to(node.in(0), kFloat32),
                                      axes_from(node, node.integer("axis", -1)), node.real("epsilon", 1e-5));
  // Rounded before the scale, as the standard's function body has it.
  return {times(cast_to(n.result, node.dtype(1)), node.in(1)), n.inverse};
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

}  // namespace

Value transposed_last_two(const Value& value) {
  Ints axes(type_of(value).shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return transposed(value, axes);
}

namespace {

/// rows times the transpose of weight, in the sum's type.
Value dense(const Value& rows, const Value& weight) {
  return emit("nn.dense", {rows, weight},
              make<relay::DenseAttrs>(std::optional<int64_t>(), sum_dtype(type_of(rows).dtype)));
}

Values matmul(const Node& node) {
  Value product = matrix_product(node, node.in(0), node.in(1),
                                 [](const Value& rows, const Value& weight) { return dense(rows, weight); });
  return {cast_to(product, node.dtype(0))};
}
}  // namespace

Value matrix_product(const Node& node, Value a, Value b,
                     FunctionRef<Value(const Value&, const Value&)> dense) {
  if (has_open_dims(a) || has_open_dims(b)) {
    const size_t rows = dims_of(a).size(), columns = dims_of(b).size();
    if (rows < 1 || columns < 1) node.reject("a scalar operand");
    // Vectors become a row and a column; their dimension vanishes from the result.
    Ints dropped;
    auto as_matrix = [&](const Value& vector, int64_t axis, int64_t of_result) {
      dropped.push_back(of_result);
      return emit("expand_dims", {vector}, make<relay::ExpandDimsAttrs>(axis, int64_t{1}));
    };
    if (rows == 1) a = as_matrix(a, 0, -2);
    if (columns == 1) b = as_matrix(b, 1, -1);
    Value product = columns <= 2 ? dense(a, transposed_last_two(b))
                                 : emit("nn.matmul", {a, b},
                                        make<relay::MatmulAttrs>(std::nullopt, sum_dtype(type_of(a).dtype)));
    if (dropped.empty()) return product;
    return emit("squeeze", {product}, make<relay::SqueezeAttrs>(std::optional<Ints>(dropped)));
  }
  Ints sa = shape_of(a), sb = shape_of(b);
  if (sa.empty() || sb.empty()) node.reject("a scalar operand");
  // Vectors become a row and a column; their dimension vanishes from the result.
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
    // Dimension d of the result as `s` has it, aligned at the end.
    auto dim = [&](const Ints& s) { return d + s.size() < rank ? 1 : s[d + s.size() - rank]; };
    if (dim(sa) != dim(sb) && dim(sa) != 1 && dim(sb) != 1)
      node.reject("shapes {} and {} do not broadcast", shape_text(sa), shape_text(sb));
    batch.push_back(dim(sa) == 1 ? dim(sb) : dim(sa));
  }
  if (sb.size() == 2) {  // one weight for all rows
    // Rows of all batches are one matrix, and constant weights can be packed ahead.
    result = dense(reshape(a, {shape_size(std::span(sa).first(sa.size() - 1)), k}), transposed_last_two(b));
  } else {
    result = emit("nn.matmul", {a, b}, make<relay::MatmulAttrs>(std::nullopt, sum_dtype(type_of(a).dtype)));
  }
  Ints shape = batch;
  if (!vector_a) shape.push_back(m);
  if (!vector_b) shape.push_back(n);
  return reshape(result, shape);
}

namespace {

Values gemm(const Node& node) {
  Value a = node.in(0), b = node.in(1);
  if (node.rank(0) != 2 || node.rank(1) != 2)
    node.reject("operands of shapes {} and {} are not matrices", shape_text(node.shape(0)),
                shape_text(node.shape(1)));
  if (node.integer("transA", 0)) a = transposed_last_two(a);
  if (!node.integer("transB", 0)) b = transposed_last_two(b);
  Value result = dense(a, b);
  double alpha = node.real("alpha", 1), beta = node.real("beta", 1);
  if (alpha != 1) result = times(result, number(result, alpha));
  if (!node.has(2)) return {cast_to(result, node.dtype(0))};
  Value c = cast_to(node.in(2), type_of(result).dtype);
  return {cast_to(plus(result, beta == 1 ? c : times(c, number(c, beta))), node.dtype(0))};
}

Values determinant(const Node& node) { return {emit("linalg.det", {node.in(0)})}; }

constexpr Converter kConverters[] = {
    {"Conv", conv},
    {"ConvTranspose", conv_transpose, Arithmetic::kWide},
    {"BatchNormalization", batch_normalization},
    {"InstanceNormalization", instance_normalization, Arithmetic::kWide},
    {"GroupNormalization", group_normalization, Arithmetic::kWide},
    {"LayerNormalization", layer_normalization},
    {"RMSNormalization", rms_normalization},
    {"SimplifiedLayerNormalization", rms_normalization},  // no standard has it, exporters do
    {"LpNormalization", lp_normalization, Arithmetic::kWide},
    {"LRN", lrn, Arithmetic::kWide},
    {"MatMul", matmul},
    {"Gemm", gemm},
    {"Det", determinant, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> nn_converters() { return kConverters; }

}  // namespace lathe::onnx
