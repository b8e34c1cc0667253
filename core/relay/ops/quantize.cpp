// Between floating point and 8-bit integers, and element-wise operators on quantized tensors. A quantized
// tensor x with a scale and a zero point stands for (x - zero_point) * scale. Those without a meaning here
// get theirs from canonicalize_qnn; qnn.conv2d and qnn.dense stand with their families.
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

bool is_one_number(const Shape& shape) { return shape.empty() || (shape.size() == 1 && is_int(shape[0], 1)); }

/// Scale and zero point (arguments 1 and 2) are one number, or one for each element along the axis.
Relation scaled_type(RelationContext& c, const QuantizeAttrs& a, DataType out) {
  const TensorType *x = c.tensor(0), *scale = c.tensor(1), *zero = c.tensor(2);
  if (!x || !scale || !zero) return Relation::kWaits;
  for (size_t arg : {size_t{1}, size_t{2}}) {
    const TensorType& type = *c.tensor(arg);
    if (is_one_number(type.shape)) continue;
    int64_t axis = front_axis(c, a.axis, static_cast<int64_t>(x->shape.size()));
    demand(c, arg, {x->shape[axis]}, type.dtype);
  }
  c.result(tensor_type(x->shape, out));
  return Relation::kSolved;
}

Relation quantize_type(RelationContext& c, const Attrs& attrs) {
  const QuantizeAttrs& a = attrs_as<QuantizeAttrs>(attrs);
  if (!a.out_dtype.is_int() || a.out_dtype.bits > 16)
    mismatch(c, "out_dtype is {}, must be an integer of 8 or 16 bits", to_string(a.out_dtype));
  if (const TensorType* x = c.tensor(0)) require_float(c, 0, *x);
  if (const TensorType* scale = c.tensor(1))
    if (const TensorType* x = c.tensor(0)) require_dtype(c, 1, *scale, x->dtype);
  return scaled_type(c, a, a.out_dtype);
}
Relation dequantize_type(RelationContext& c, const Attrs& attrs) {
  if (const TensorType* x = c.tensor(0)) require_integers(c, 0, *x);
  if (const TensorType* scale = c.tensor(1)) require_dtype(c, 1, *scale, kFloat32);
  return scaled_type(c, attrs_as<QuantizeAttrs>(attrs), kFloat32);
}

Relation requantize_type(RelationContext& c, const Attrs& attrs) {
  const QuantizeAttrs& a = attrs_as<QuantizeAttrs>(attrs);
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  require_integers(c, 0, *x);
  if (!a.out_dtype.is_int() || a.out_dtype.bits > 16)
    mismatch(c, "out_dtype is {}, must be an integer of 8 or 16 bits", to_string(a.out_dtype));
  return scaled_type(c, a, a.out_dtype);
}

/// lhs, rhs, and scale and zero point of lhs, rhs and output.
Relation quantized_binary_type(RelationContext& c, const Attrs& attrs) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  require_integers(c, 0, *x);
  for (size_t arg = 2; arg < 8; ++arg)
    if (const TensorType* type = c.tensor(arg); type && !is_one_number(type->shape))
      mismatch(c, "argument {} has shape {}, must be one number", arg + 1, describe(type->shape));
  return broadcast(c, attrs);
}

/// A parameter's element for output index i: the scalar, or the one of its channel.
Expr of_channel(const Buffer& parameter, int64_t axis, Vars i) {
  if (parameter->shape.empty()) return load(parameter, {});
  if (is_int(parameter->shape[0], 1)) return load(parameter, {0});
  return load(parameter, {i[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(i.size()) : axis)]});
}

/// clamp(round(x / scale) + zero_point)
Buffers quantize(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const QuantizeAttrs& a = attrs_as<QuantizeAttrs>(attrs);
  DataType out = a.out_dtype;
  double low = out.code == TypeCode::kUInt ? 0 : -static_cast<double>(int64_t{1} << (out.bits - 1));
  double high = low + static_cast<double>((int64_t{1} << out.bits) - 1);
  return {f.compute("quantize", in[0]->shape, [&](Vars i) {
    Expr x = at(in[0], i);
    Expr value = intrinsic(Intrinsic::kRound, div(x, of_channel(in[1], a.axis, i))) +
                 cast(x.dtype(), of_channel(in[2], a.axis, i));
    return cast(out, min(max(value, real(x, low)), real(x, high)));
  })};
}

/// (x - zero_point) * scale
Buffers dequantize(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type&) {
  const QuantizeAttrs& a = attrs_as<QuantizeAttrs>(attrs);
  return {f.compute("dequantize", in[0]->shape, [&](Vars i) {
    Expr difference = cast(kInt32, at(in[0], i)) - cast(kInt32, of_channel(in[2], a.axis, i));
    return cast(kFloat32, difference) * of_channel(in[1], a.axis, i);
  })};
}

constexpr Op row(const char* name, const char* doc, int args, const NodeType* attrs, InferType infer) {
  return {
      .name = name, .doc = doc, .args = args, .attrs = attrs, .infer = infer, .fusion = Fusion::kBroadcast};
}

constexpr Op kQuantizeOps[] = {
    row("qnn.requantize", "Quantized anew from data, scale, zero_point, output_scale, output_zero_point.", 5,
        &QuantizeAttrs::kType, requantize_type),
    row("qnn.add",
        "Sum of lhs and rhs, each with scale and zero_point, as the output's scale and zero_point.", 8,
        nullptr, quantized_binary_type),
    row("qnn.mul",
        "Product of lhs and rhs, each with scale and zero_point, as the output's scale and zero_point.", 8,
        nullptr, quantized_binary_type),
    {.name = "qnn.quantize",
     .doc = "clamp(round(x / scale) + zero_point) from data, scale, zero_point.",
     .args = 3,
     .attrs = &QuantizeAttrs::kType,
     .infer = quantize_type,
     .compute = quantize,
     .fusion = Fusion::kBroadcast},
    {.name = "qnn.dequantize",
     .doc = "(x - zero_point) * scale from data, scale, zero_point.",
     .args = 3,
     .attrs = &QuantizeAttrs::kType,
     .infer = dequantize_type,
     .compute = dequantize,
     .fusion = Fusion::kBroadcast},
};
}  // namespace

std::span<const Op> quantize_ops() { return kQuantizeOps; }

}  // namespace lathe::relay::ops
