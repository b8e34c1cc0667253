// Quantized tensors: QuantizeLinear and DequantizeLinear around float operators (QDQ models), and operators
// on integers. Nothing is folded here: constants that are dequantized are weights, which are to stay
// integers.
#include "core/frontends/onnx_quantize.h"

#include <cmath>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_program.h"
#include "core/frontends/onnx_window.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {

Value call(const char* op, std::vector<Value> args, relay::Attrs attrs = nullptr) {
  return with_named_sizes(relay::typed_call(op, std::move(args), std::move(attrs)));
}

}  // namespace

bool is_one_number(const Value& value) { return !has_open_dims(value) && shape_size(shape_of(value)) == 1; }

Value parameter(const Value& value) { return is_one_number(value) ? reshape(value, {}) : value; }

Value zero_point(const Node& node, size_t i, DataType otherwise) {
  return node.has(i) ? parameter(node.in(i)) : scalar(otherwise, 0);
}

namespace {

/// Numbers for blocks of elements along an axis, as one for each element.
Value of_elements(const Node& node, const Value& value) {
  const int64_t block = node.integer("block_size", 0),
                axis = node.axis(node.integer("axis", 1), node.rank(0));
  relay::Ints blocks = node.shape(0);
  const int64_t extent = blocks[static_cast<size_t>(axis)];
  if (block < 1) node.reject("a block_size of {}", block);
  blocks[static_cast<size_t>(axis)] = (extent + block - 1) / block;
  if (shape_of(value) != blocks)
    node.reject("a scale or zero point of shape {}, must be {}", shape_text(shape_of(value)),
                shape_text(blocks));
  return sliced(emit("repeat", {value}, make<relay::RepeatAttrs>(block, axis)), axis, 0, extent);
}

/// x / scale + zero, by blocks.
Value quantized_by_blocks(const Node& node, const Value& x, DataType dtype) {
  const Value steps = call("round", {call("divide", {x, cast_to(of_elements(node, node.in(1)), kFloat32)})});
  const Value place =
      node.has(2) ? call("add", {steps, cast_to(of_elements(node, node.in(2)), kFloat32)}) : steps;
  const bool with_sign = dtype.code == TypeCode::kInt;
  const double values = std::ldexp(1, dtype.bits), least = with_sign ? -values / 2 : 0;
  return cast_to(call("clip", {place}, make<relay::ClipAttrs>(least, least + values - 1)), dtype);
}

/// (x - zero) * scale, by blocks.
Value dequantized_by_blocks(const Node& node) {
  Value steps = cast_to(node.in(0), kFloat32);
  if (node.has(2)) steps = call("subtract", {steps, cast_to(of_elements(node, node.in(2)), kFloat32)});
  return call("multiply", {steps, cast_to(of_elements(node, node.in(1)), kFloat32)});
}

/// The attributes of a node that takes a scale, and perhaps a zero point, for each element along an axis.
relay::Attrs scale_attrs(const Node& node, DataType out_dtype) {
  int64_t rank = node.rank(0), axis = node.integer("axis", 1);
  // One number needs no axis, and the default may not exist in a vector.
  if (is_one_number(node.in(1))) axis = 0;
  if (node.rank(1) > 1)
    node.reject("a scale of type {}, must be a number or a vector",
                relay::print(relay::Type(&type_of(node.in(1)))));
  return make<relay::QuantizeAttrs>(out_dtype, rank == 0 ? 0 : node.axis(axis, rank));
}

/// Input 0, whose axis is as long as the scale where that has a number for each element.
Value scaled_input(const Node& node) {
  if (node.rank(0) == 0 || is_one_number(node.in(1)) || node.rank(1) != 1) return node.in(0);
  const int64_t* extent = as_int(node.dims(1)[0]);
  return extent ? of_extent(node.in(0), node.axis(node.integer("axis", 1), node.rank(0)), *extent)
                : node.in(0);
}

/// A scale or zero point with a number for each channel of x: of an open length, it has as many as x has.
Value of_channels(const Value& parameter, const Value& x, int64_t axis) {
  if (dims_of(parameter).size() != 1 || !has_open_dims(parameter)) return parameter;
  // Operators that are taken apart into others that broadcast no longer say that the two are one number.
  return with_dims(parameter, {dims_of(x).at(static_cast<size_t>(axis))});
}
Value of_channels(const Node& node, const Value& parameter, const Value& x) {
  if (!has_open_dims(parameter)) return parameter;
  return of_channels(parameter, x, node.axis(node.integer("axis", 1), node.rank(0)));
}

Values quantize_linear(const Node& node) {
  Value zero = zero_point(node, 2, kUInt8);
  Value x = cast_to(scaled_input(node), kFloat32), scale = cast_to(parameter(node.in(1)), kFloat32);
  DataType dtype = type_of(zero).dtype;
  if (!node.has(2) && node.integer("output_dtype", 0) != 0)
    dtype = dtype_from(static_cast<int32_t>(node.integer("output_dtype", 0)));
  if (!dtype.is_int() || dtype.bits > 16)
    node.reject("quantization to {} is not supported", to_string(dtype));
  if (node.integer("block_size", 0) != 0) return {quantized_by_blocks(node, x, dtype)};
  return {call("qnn.quantize", {x, of_channels(node, scale, x), of_channels(node, zero, x)},
               scale_attrs(node, dtype))};
}

/// Input i, a number or a vector along the node's axis, against input 0.
Value along_its_axis(const Node& node, size_t i) {
  const Value value = cast_to(parameter(node.in(i)), kFloat32);
  if (type_of(value).shape.empty()) return value;
  relay::Ints shape(static_cast<size_t>(node.rank(0)), 1);
  shape[static_cast<size_t>(node.axis(node.integer("axis", 1), node.rank(0)))] = node.dim(i, 0);
  return reshape(value, shape);
}

Values dequantize_linear(const Node& node) {
  // Floats are constants of 8 bits.
  const bool floats = node.dtype(0).is_float();
  if ((floats && !known(node.in(0))) || node.dtype(0) == kBool)
    node.reject("dequantization of {} is not supported", to_string(node.dtype(0)));
  if (node.integer("block_size", 0) != 0)
    return {cast_to(dequantized_by_blocks(node), type_of(node.in(1)).dtype)};
  if (floats) {
    Value real = cast_to(node.in(0), kFloat32);
    if (node.has(2)) real = call("subtract", {real, along_its_axis(node, 2)});
    return {cast_to(call("multiply", {real, along_its_axis(node, 1)}), type_of(node.in(1)).dtype)};
  }
  Value x = scaled_input(node), zero = zero_point(node, 2, node.dtype(0)), scale = parameter(node.in(1));
  Value real =
      call("qnn.dequantize", {x, of_channels(node, cast_to(scale, kFloat32), x), of_channels(node, zero, x)},
           scale_attrs(node, kInt8));
  return {cast_to(real, type_of(scale).dtype)};
}

/// x - zero in int32.
Value centred(const Value& x, const Value& zero) {
  return call("subtract", {cast_to(x, kInt32), cast_to(zero, kInt32)});
}

/// A vector of one number a channel, or one number, against an axis that `after` others follow.
Value along(const Value& value, int64_t after) {
  if (type_of(value).shape.empty() || after == 0) return value;
  return call("expand_dims", {value}, make<relay::ExpandDimsAttrs>(int64_t{1}, after));
}

/// Where the operands of an integer product stand among the inputs.
struct Places {
  size_t x, x_zero, w, w_zero;
};

Value integer_conv(const Node& node, const Places& at) {
  Value x = node.in(at.x), w = node.in(at.w);
  Value x_zero = zero_point(node, at.x_zero, type_of(x).dtype),
        w_zero = zero_point(node, at.w_zero, type_of(w).dtype);
  const std::vector<Expr>&of_x = type_of(x_zero).shape, &of_w = type_of(w_zero).shape;
  if (!of_x.empty() || of_w.size() > 1 || (of_w.size() == 1 && shape_of(w_zero)[0] != node.dim(at.w, 0)))
    node.reject("zero points of shapes {} and {}, must be a number, and one or one for each channel",
                shape_text(shape_of(x_zero)), shape_text(shape_of(w_zero)));
  const auto [data, attrs] = conv_operands(node, at.w, x_zero, kInt32);
  const char* op = by_rank(node.rank(at.x) - 2, {"qnn.conv1d", "qnn.conv2d", "qnn.conv3d"});
  // Scales are 1: the product itself does not depend on them.
  return call(op, {data, w, x_zero, w_zero, scalar(kFloat32, 1), scalar(kFloat32, 1)}, attrs);
}

}  // namespace

Value integer_product(const Node& node, const Value& x, const Value& x_zero, Value w, const Value& w_zero) {
  auto attrs = make<relay::DenseAttrs>(std::optional<int64_t>(), std::optional(kInt32));
  const std::vector<Expr> of_w = dims_of(w), w_zeros = dims_of(w_zero), x_zeros = dims_of(x_zero);
  // As many columns as there are zero points of them, where one of the two is open.
  if (of_w.size() == 2 && w_zeros.size() == 1) w = with_dims(w, {of_w[0], w_zeros[0]});
  // qnn.dense takes one zero point for the data and one for each column of the weight; the rest is
  // differences.
  if (of_w.size() == 2 && x_zeros.empty() && w_zeros.size() < 2)
    return matrix_product(node, x, w, [&](const Value& rows, const Value& weight) {
      return call("qnn.dense", {rows, weight, x_zero, w_zero, scalar(kFloat32, 1), scalar(kFloat32, 1)},
                  attrs);
    });
  // The left operand's zero points are those of its rows.
  return matrix_product(node, centred(x, along(x_zero, x_zeros.size() == 1 ? 1 : 0)), centred(w, w_zero),
                        [&](const Value& rows, const Value& weight) {
                          return call("nn.dense", {rows, weight}, attrs);
                        });
}

Value rescaled(const Node& node, const Value& product, size_t y_scale, const Value& scale, int64_t axis) {
  Value y_zero = zero_point(node, y_scale + 1, kUInt8);
  auto attrs = make<relay::QuantizeAttrs>(type_of(y_zero).dtype, axis);
  const int64_t* channels = dims_of(scale).size() == 1 ? as_int(dims_of(scale)[0]) : nullptr;
  const Value x = channels ? of_extent(product, axis, *channels) : product;
  return call("qnn.requantize",
              {x, of_channels(scale, x, axis), scalar(kInt32, 0),
               cast_to(parameter(node.in(y_scale)), kFloat32), y_zero},
              attrs);
}

Value product_of_scales(const Node& node, size_t a, size_t b) {
  return call("multiply",
              {cast_to(parameter(node.in(a)), kFloat32), cast_to(parameter(node.in(b)), kFloat32)});
}

namespace {

Value integer_matmul(const Node& node, const Places& at) {
  return integer_product(node, node.in(at.x), zero_point(node, at.x_zero, node.dtype(at.x)), node.in(at.w),
                         zero_point(node, at.w_zero, node.dtype(at.w)));
}

Values q_linear_conv(const Node& node) {
  Value product = integer_conv(node, {0, 2, 3, 5});
  if (node.has(8)) product = call("add", {product, along(node.in(8), node.rank(0) - 2)});
  return {rescaled(node, product, 6, product_of_scales(node, 1, 4), 1)};
}
Values q_linear_matmul(const Node& node) {
  if (!is_one_number(node.in(1))) node.reject("a scale for each row of the left operand is not supported");
  Value product = integer_matmul(node, {0, 2, 3, 5});
  return {rescaled(node, product, 6, product_of_scales(node, 1, 4),
                   static_cast<int64_t>(type_of(product).shape.size()) - 1)};
}
Values conv_integer(const Node& node) { return {integer_conv(node, {0, 2, 1, 3})}; }
Values matmul_integer(const Node& node) { return {integer_matmul(node, {0, 2, 1, 3})}; }

}  // namespace

QuantizedValue dynamically_quantized(const Value& x) {
  const Value zero = scalar(kFloat32, 0);
  auto all = make<relay::ReduceAttrs>(std::optional<relay::Ints>());
  Value most = call("maximum", {call("max", {x}, all), zero}),
        least = call("minimum", {call("min", {x}, all), zero});
  Value range = call("subtract", {most, least});
  // Of zeros alone any scale is right but 0, by which they would be divided.
  Value scale = choose(call("equal", {range, zero}), scalar(kFloat32, 1),
                       call("divide", {range, scalar(kFloat32, 255)}));
  Value point = call("clip", {call("round", {call("divide", {call("negative", {least}), scale})})},
                     make<relay::ClipAttrs>(0.0, 255.0));
  const Value point_as_byte = cast_to(point, kUInt8);
  return {call("qnn.quantize", {x, scale, point_as_byte}, make<relay::QuantizeAttrs>(kUInt8, int64_t{0})),
          scale, point_as_byte};
}

namespace {

Values dynamic_quantize_linear(const Node& node) {
  const QuantizedValue q = dynamically_quantized(node.in(0));
  return {q.value, q.scale, q.zero};
}

constexpr Converter kConverters[] = {
    {"QuantizeLinear", quantize_linear},
    {"DequantizeLinear", dequantize_linear},
    {"DynamicQuantizeLinear", dynamic_quantize_linear},
    {"QLinearConv", q_linear_conv},
    {"QLinearMatMul", q_linear_matmul},
    {"ConvInteger", conv_integer},
    {"MatMulInteger", matmul_integer},
};
}  // namespace

std::span<const Converter> quantize_converters() { return kConverters; }

}  // namespace lathe::onnx
