// Convolutions, pooling, products and normalisations as ONNX nodes.
#include <algorithm>
#include <numeric>

#include "core/frontends/onnx_exporter.h"
#include "core/relay/ops/window.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// All begins then all ends, from one number, one an axis, or all.
Ints pads_of(const Ints& padding, size_t axes) {
  if (padding.empty()) return Ints(2 * axes, 0);
  if (padding.size() == 1) return Ints(2 * axes, padding[0]);
  Ints pads = padding;
  if (pads.size() == axes) pads.insert(pads.end(), padding.begin(), padding.end());
  return pads;
}
Ints each_axis(const Ints& values, size_t axes, int64_t otherwise) {
  if (values.empty()) return Ints(axes, otherwise);
  return values.size() == 1 ? Ints(axes, values[0]) : values;
}

size_t spatial_axes(const Written& w) { return static_cast<size_t>(w.rank(0)) - 2; }

/// ONNX knows one layout: channels second, of a kernel those of the result first.
void require_layout(const Written& w, const std::string& layout, const char* where = "in",
                    const char* channels = "NC") {
  const auto axes = static_cast<int>(std::min<size_t>(spatial_axes(w), 3));
  if (!layout.empty() && layout != channels + relay::ops::spatial_letters(axes))
    w.reject("{} layout {}", where, layout);
}
void require_layouts(const Written& w, const relay::ConvAttrs& a) {
  require_layout(w, a.data_layout);
  require_layout(w, a.kernel_layout, "by kernels in", "OI");
  require_layout(w, a.out_layout, "to");
}

template <typename A>
void set_window(::onnx::NodeProto* node, const A& a, size_t axes) {
  set_ints(node, "strides", each_axis(a.strides, axes, 1));
  set_ints(node, "pads", pads_of(a.padding, axes));
  set_ints(node, "dilations", each_axis(a.dilation, axes, 1));
}

/// The first two arguments in the type of the result, which products are summed in.
Names operands(Exporter& e, const Written& w) {
  Names names{w.args[0], w.args[1]};
  for (std::string& name : names)
    if (w.dtype(0) != w.type().dtype) name = e.cast(name, w.type().dtype);
  return names;
}

void conv(Exporter& e, const Written& w) { write_conv(e, w, ""); }

void conv_transpose(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ConvTransposeAttrs>();
  require_layout(w, a.data_layout);
  auto* node = e.node("ConvTranspose", operands(e, w), w.output());
  set_window(node, a, spatial_axes(w));
  set_ints(node, "output_padding", each_axis(a.output_padding, spatial_axes(w), 0));
  set_int(node, "group", a.groups);
}

/// Of 8-bit integers whose zero points are arguments 2 and 3, summed in int32.
void quantized_conv(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ConvAttrs>();
  require_layouts(w, a);
  auto* node = e.node("ConvInteger", {w.args[0], w.args[1], w.args[2], w.args[3]}, w.output());
  set_window(node, a, spatial_axes(w));
  set_int(node, "group", a.groups);
}
void quantized_dense(Exporter& e, const Written& w) {
  e.node("MatMulInteger", {w.args[0], e.transposed(w.args[1], {1, 0}), w.args[2], w.args[3]}, w.output());
}

void pool(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::PoolAttrs>();
  require_layout(w, a.layout);
  const std::string op = find_export(w.op())->onnx;
  size_t axes = spatial_axes(w);
  bool dilated = std::any_of(a.dilation.begin(), a.dilation.end(), [](int64_t d) { return d != 1; });
  if (op == "AveragePool" && dilated) e.need_opset(19);
  auto* node = e.node(op.c_str(), w.args, w.output());
  set_ints(node, "kernel_shape", each_axis(a.pool_size, axes, 1));
  set_ints(node, "strides", each_axis(a.strides, axes, 1));
  set_ints(node, "pads", pads_of(a.padding, axes));
  if (dilated) set_ints(node, "dilations", each_axis(a.dilation, axes, 1));
  set_int(node, "ceil_mode", a.ceil_mode);
  if (op == "AveragePool") set_int(node, "count_include_pad", a.count_include_pad);
}

/// Global, or windows side by side where the sizes divide.
void adaptive_pool(Exporter& e, const Written& w) {
  require_layout(w, w.attrs<relay::AdaptivePoolAttrs>().layout);
  std::string op = find_export(w.op())->onnx;
  Ints from = w.shape(0), to = w.result_shape(), kernel;
  for (size_t d = 2; d < from.size(); ++d) {
    if (to[d] < 1 || from[d] % to[d]) w.reject("from {} to {}", shape_text(from), shape_text(to));
    kernel.push_back(from[d] / to[d]);
  }
  if (std::all_of(to.begin() + 2, to.end(), [](int64_t extent) { return extent == 1; }))
    return (void)e.node(("Global" + op).c_str(), w.args, w.output());
  auto* node = e.node(op.c_str(), w.args, w.output());
  set_ints(node, "kernel_shape", kernel);
  set_ints(node, "strides", kernel);
}

std::string last_two_swapped(Exporter& e, const std::string& value, int64_t rank) {
  Ints axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  return e.transposed(value, axes);
}

void dense(Exporter& e, const Written& w) { write_dense(e, w, ""); }

template <typename A>
void matmul(Exporter& e, const Written& w) {
  const A& a = w.attrs<A>();
  Names names = operands(e, w);
  if (a.transpose_a) names[0] = last_two_swapped(e, names[0], w.rank(0));
  if (a.transpose_b) names[1] = last_two_swapped(e, names[1], w.rank(1));
  e.node("MatMul", names, w.output());
}

template <typename A>
void quantized_matmul(Exporter& e, const Written& w) {
  const A& a = w.attrs<A>();
  Names names{w.args[0], w.args[1], w.args[2], w.args[3]};
  if (a.transpose_a) names[0] = last_two_swapped(e, names[0], w.rank(0));
  if (a.transpose_b) names[1] = last_two_swapped(e, names[1], w.rank(1));
  e.node("MatMulInteger", names, w.output());
}

/// By real weights: the standard has products of integers that are given scales by blocks in no operator.
void block_dense(Exporter& e, const Written& w) {
  const std::string weight = e.add("Mul", {e.cast(w.args[1], w.dtype(0)), e.reshaped(w.args[2], {0, 0, 1})});
  e.node("MatMul", {w.args[0], e.transposed(e.reshaped(weight, {0, -1}), {1, 0})}, w.output());
}

/// A vector along an axis, shaped to broadcast against the first argument.
std::string along(Exporter& e, const Written& w, size_t arg, int64_t axis) {
  Ints shape(static_cast<size_t>(w.rank(0) - axis), 1);
  shape[0] = -1;
  return e.reshaped(w.args[arg], shape);
}

void bias_add(Exporter& e, const Written& w) {
  if (e.takes_bias(w.call.args[0])) {
    const auto& product = *w.call.args[0].as<relay::Call>();
    Written inner{product, e.names_of_args(product), w.outputs};
    return inner.op() == "nn.dense" ? write_dense(e, inner, w.args[1]) : write_conv(e, inner, w.args[1]);
  }
  // Of no product, along other axes, or of a product that others read: an Add of its own.
  int64_t axis = w.front(w.attrs<relay::ChannelAttrs>().axis);
  e.node("Add", {w.args[0], along(e, w, 1, axis)}, w.output());
}

std::string mean_over(Exporter& e, const std::string& x, const Ints& axes) {
  std::string mean = e.fresh();
  set_ints(e.node("ReduceMean", {x}, mean), "axes", axes);
  return mean;
}

/// (x - mean) / sqrt(variance + epsilon)
std::string standardized(Exporter& e, const Written& w, const Names& x_mean_variance, double epsilon) {
  // Names are of x, its mean and its variance.
  std::string deviation = e.add("Sqrt", {e.add("Add", {x_mean_variance[2], e.number(w.dtype(0), epsilon)})});
  return e.add("Div", {e.add("Sub", {x_mean_variance[0], x_mean_variance[1]}), deviation});
}
std::string standardized_over(Exporter& e, const Written& w, const std::string& x, const Ints& axes,
                              double epsilon) {
  std::string mean = mean_over(e, x, axes), difference = e.add("Sub", {x, mean});
  return standardized(e, w, {x, mean, mean_over(e, e.add("Mul", {difference, difference}), axes)}, epsilon);
}

void standardize(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::StandardizeAttrs>();
  Ints axes = a.axes;
  for (int64_t& axis : axes) axis = w.front(axis);
  const std::string& x = w.args[0];
  if (a.center) return (void)e.node("Identity", {standardized_over(e, w, x, axes, a.epsilon)}, w.output());
  // Not centred: the root of the mean square.
  std::string squares = mean_over(e, e.add("Mul", {x, x}), axes);
  std::string root = e.add("Sqrt", {e.add("Add", {squares, e.number(w.dtype(0), a.epsilon)})});
  e.node("Div", {x, root}, w.output());
}

/// gamma * x + beta, arguments 1 and 2, as far as wanted.
template <typename A>
void affine(Exporter& e, const Written& w, std::string x, const A& a, int64_t axis) {
  if (a.scale) x = e.add("Mul", {x, along(e, w, 1, axis)});
  if (a.center) x = e.add("Add", {x, along(e, w, 2, axis)});
  e.node("Identity", {x}, w.output());
}

void batch_norm(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::NormAttrs>();
  int64_t axis = w.front(a.axis);
  if (axis == 1 && a.scale && a.center)
    return set_float(e.node("BatchNormalization", w.args, w.output()), "epsilon", a.epsilon);
  affine(e, w, standardized(e, w, {w.args[0], along(e, w, 3, axis), along(e, w, 4, axis)}, a.epsilon), a,
         axis);
}

void layer_norm(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::LayerNormAttrs>();
  int64_t axis = w.front(a.axis);
  // The standard's operator has scale and bias, and normalizes all axes from its own on: the last one alone.
  if (axis == w.rank(0) - 1 && a.scale && a.center) {
    auto* node = e.node("LayerNormalization", w.args, w.output());
    set_int(node, "axis", axis);
    return set_float(node, "epsilon", a.epsilon);
  }
  affine(e, w, standardized_over(e, w, w.args[0], {axis}, a.epsilon), a, axis);
}

void instance_norm(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::NormAttrs>();
  int64_t axis = w.front(a.axis);
  if (axis == 1 && a.scale && a.center)
    return set_float(e.node("InstanceNormalization", w.args, w.output()), "epsilon", a.epsilon);
  Ints axes;
  for (int64_t d = 1; d < w.rank(0); ++d)
    if (d != axis) axes.push_back(d);
  affine(e, w, standardized_over(e, w, w.args[0], axes, a.epsilon), a, axis);
}

void group_norm(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::NormAttrs>();
  Ints shape = w.shape(0);
  if (w.front(a.axis) != 1) w.reject("along axis {}", a.axis);
  // ONNX has the operator from opset 18 on.
  std::string groups = e.reshaped(w.args[0], {shape[0], a.num_groups, -1});
  affine(e, w, e.reshaped(standardized_over(e, w, groups, {2}, a.epsilon), shape), a, 1);
}

void lrn(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::LrnAttrs>();
  if (w.front(a.axis) != 1) w.reject("along axis {}", a.axis);
  auto* node = e.node("LRN", w.args, w.output());
  set_int(node, "size", a.size);
  set_float(node, "alpha", a.alpha);
  set_float(node, "beta", a.beta);
  set_float(node, "bias", a.bias);
}

/// x / sqrt(max(sum of squares, eps))
void l2_normalize(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::L2NormalizeAttrs>();
  Ints axes = a.axis;
  for (int64_t& axis : axes) axis = w.front(axis);
  if (axes.empty()) {
    axes.resize(static_cast<size_t>(w.rank(0)));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::string squares = e.add("ReduceSum", {e.add("Mul", {w.args[0], w.args[0]}), e.ints(axes)});
  std::string norm = e.add("Sqrt", {e.add("Max", {squares, e.number(w.dtype(0), a.eps)})});
  e.node("Div", {w.args[0], norm}, w.output());
}

/// Rounding of places, as ONNX names it.
std::string nearest_mode(const std::string& rounding, const std::string& coordinates) {
  if (rounding.empty()) return coordinates == "align_corners" ? "round_prefer_ceil" : "floor";
  return rounding == "round" ? "round_prefer_ceil" : rounding;
}

/// Numbers for the spatial axes of an image as numbers for all axes, of which the others get `otherwise`.
std::vector<float> on_all_axes(const relay::Layout& layout, std::span<const double> values, float otherwise) {
  const std::string letters = relay::ops::spatial_letters(static_cast<int>(values.size()));
  std::vector<float> result(layout.rank(), otherwise);
  for (size_t k = 0; k < values.size(); ++k)
    result[static_cast<size_t>(layout.position(letters[k]))] = static_cast<float>(values[k]);
  return result;
}

void write_resize(Exporter& e, const Written& w, const relay::ResizeAttrs& a, int axes = 2) {
  const std::string& coordinates = a.coordinate_transformation_mode;
  if (coordinates == "tf_half_pixel_for_nn") w.reject("with coordinates {}", coordinates);
  if (coordinates == "half_pixel_symmetric") e.need_opset(19);
  if (a.antialias) e.need_opset(18);
  const relay::Layout layout = relay::ops::layout_or(a.layout, "NC", axes);
  Names inputs{w.args[0], "", ""};
  auto floats = [&](const std::vector<float>& values) {
    return e.initializer(tensor_of(values, {static_cast<int64_t>(values.size())}, kFloat32));
  };
  if (coordinates == "tf_crop_and_resize" && !a.roi.empty()) {
    // ONNX gives all axes: all starts, then all ends, in units of the whole extent.
    const std::span roi = a.roi;
    std::vector<float> all = on_all_axes(layout, roi.first(roi.size() / 2), 0);
    std::ranges::copy(on_all_axes(layout, roi.subspan(roi.size() / 2), 1), std::back_inserter(all));
    inputs[1] = floats(all);
  }
  if (!a.scales.empty())
    inputs[2] = floats(on_all_axes(layout, a.scales, 1));
  else
    inputs.push_back(e.ints(w.result_shape()));
  std::string resized = e.fresh();
  auto* node = e.node("Resize", inputs, resized);
  bool nearest = a.method.starts_with("nearest");
  set_text(node, "mode", nearest ? "nearest" : a.method.ends_with("cubic") ? "cubic" : "linear");
  set_text(node, "coordinate_transformation_mode", coordinates);
  if (nearest) set_text(node, "nearest_mode", nearest_mode(a.rounding_method, coordinates));
  if (a.antialias) set_int(node, "antialias", 1);
  set_float(node, "cubic_coeff_a", a.cubic_alpha);
  set_int(node, "exclude_outside", a.cubic_exclude);
  set_float(node, "extrapolation_value", a.extrapolation_value);
  // Relay's resize may give another type than its data's; ONNX's keeps it.
  set_int(e.node("Cast", {resized}, w.output()), "to", onnx_dtype(w.type().dtype));
}

template <int kAxes>
void resize(Exporter& e, const Written& w) {
  write_resize(e, w, w.attrs<relay::ResizeAttrs>(), kAxes);
}

void upsampling(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::UpsamplingAttrs>();
  relay::ResizeAttrs resize;
  resize.layout = a.layout;
  resize.method = a.method;
  resize.coordinate_transformation_mode = a.align_corners                   ? "align_corners"
                                          : a.method.starts_with("nearest") ? "asymmetric"
                                                                            : "half_pixel";
  write_resize(e, w, resize);
}

constexpr ExportRow kRows[] = {
    {"nn.conv1d", conv},
    {"nn.conv2d", conv},
    {"nn.conv3d", conv},
    {"nn.conv1d_transpose", conv_transpose},
    {"nn.conv2d_transpose", conv_transpose},
    {"nn.conv3d_transpose", conv_transpose},
    {"qnn.conv1d", quantized_conv},
    {"qnn.conv2d", quantized_conv},
    {"qnn.conv3d", quantized_conv},
    {"qnn.dense", quantized_dense},
    {"qnn.matmul", quantized_matmul<relay::MatmulAttrs>},
    {"qnn.batch_matmul", quantized_matmul<relay::BatchMatmulAttrs>},
    {"nn.max_pool1d", pool, "MaxPool"},
    {"nn.max_pool2d", pool, "MaxPool"},
    {"nn.max_pool3d", pool, "MaxPool"},
    {"nn.avg_pool1d", pool, "AveragePool"},
    {"nn.avg_pool2d", pool, "AveragePool"},
    {"nn.avg_pool3d", pool, "AveragePool"},
    {"nn.global_max_pool1d", adaptive_pool, "MaxPool"},
    {"nn.global_max_pool2d", adaptive_pool, "MaxPool"},
    {"nn.global_max_pool3d", adaptive_pool, "MaxPool"},
    {"nn.global_avg_pool1d", adaptive_pool, "AveragePool"},
    {"nn.global_avg_pool2d", adaptive_pool, "AveragePool"},
    {"nn.global_avg_pool3d", adaptive_pool, "AveragePool"},
    {"nn.adaptive_max_pool1d", adaptive_pool, "MaxPool"},
    {"nn.adaptive_max_pool2d", adaptive_pool, "MaxPool"},
    {"nn.adaptive_max_pool3d", adaptive_pool, "MaxPool"},
    {"nn.adaptive_avg_pool1d", adaptive_pool, "AveragePool"},
    {"nn.adaptive_avg_pool2d", adaptive_pool, "AveragePool"},
    {"nn.adaptive_avg_pool3d", adaptive_pool, "AveragePool"},
    {"nn.dense", dense},
    {"nn.block_dense", block_dense},
    {"linalg.det", plain, "Det"},
    {"nn.matmul", matmul<relay::MatmulAttrs>},
    {"nn.batch_matmul", matmul<relay::BatchMatmulAttrs>},
    {"nn.bias_add", bias_add},
    {"nn.batch_norm", batch_norm},
    {"nn.layer_norm", layer_norm},
    {"nn.instance_norm", instance_norm},
    {"nn.group_norm", group_norm},
    {"nn.standardize", standardize},
    {"nn.lrn", lrn},
    {"nn.l2_normalize", l2_normalize},
    {"image.resize1d", resize<1>},
    {"image.resize2d", resize<2>},
    {"image.resize3d", resize<3>},
    {"image.resize1d_like", resize<1>},
    {"image.resize2d_like", resize<2>},
    {"image.resize3d_like", resize<3>},
    {"nn.upsampling", upsampling},
};
}  // namespace

bool in_8_bits(const Written& w) { return w.dtype(0).is_int() && w.dtype(0).bits == 8; }

void write_conv(Exporter& e, const Written& w, const std::string& bias) {
  const auto& a = w.attrs<relay::ConvAttrs>();
  require_layouts(w, a);
  if (a.pad_value != 0) w.reject("with padding of {}", a.pad_value);
  bool integers = in_8_bits(w);
  Names inputs = integers ? Names{w.args[0], w.args[1]} : operands(e, w);
  if (!bias.empty()) inputs.push_back(bias);
  auto* node = e.node(integers ? "ConvInteger" : "Conv", inputs, w.output());
  set_window(node, a, spatial_axes(w));
  set_int(node, "group", a.groups);
}

void write_dense(Exporter& e, const Written& w, const std::string& bias) {
  if (in_8_bits(w))
    return (void)e.node("MatMulInteger", {w.args[0], e.transposed(w.args[1], {1, 0})}, w.output());
  Names inputs = operands(e, w);
  // Gemm takes matrices alone; find_biased() leaves the bias of others to an Add.
  if (w.rank(0) != 2) return (void)e.node("MatMul", {inputs[0], e.transposed(inputs[1], {1, 0})}, w.output());
  if (!bias.empty()) inputs.push_back(bias);
  set_int(e.node("Gemm", inputs, w.output()), "transB", 1);
}

std::span<const ExportRow> nn_exports() { return kRows; }

}  // namespace lathe::onnx
