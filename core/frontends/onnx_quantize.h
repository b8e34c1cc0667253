// Quantized tensors and products of integers, as operators of several domains compose them.
#pragma once

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

/// One number whatever the sizes are: a vector of an open one is none, though a run may give it one element.
bool is_one_number(const Value& value);
/// A scale or zero point: of no axes when it is one number.
Value parameter(const Value& value);
/// Input i as a zero point; a zero of type `otherwise` when it is missing.
Value zero_point(const Node& node, size_t i, DataType otherwise);

/// Integers and the real numbers (value - zero) * scale that they stand for, one scale for all.
struct QuantizedValue {
  Value value, scale, zero;
};
/// uint8 over the range of x, which is made to include 0.
QuantizedValue dynamically_quantized(const Value& x);

/// x (.., m, k) times w (.., k, n), less their zero points: int32. Nothing is folded.
Value integer_product(const Node& node, const Value& x, const Value& x_zero, Value w, const Value& w_zero);
/// The int32 `product`, of `scale`, whose channels are `axis`, at the scale of input `y_scale` and the zero
/// point behind it.
Value rescaled(const Node& node, const Value& product, size_t y_scale, const Value& scale, int64_t axis);
/// The product of two inputs that are scales.
Value product_of_scales(const Node& node, size_t a, size_t b);

}  // namespace lathe::onnx
