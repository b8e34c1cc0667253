// Arithmetic on values, for converters that compose an operator from others.
#pragma once

#include "core/frontends/onnx_converter.h"

namespace lathe::onnx {

inline Value plus(const Value& a, const Value& b) { return emit("add", {a, b}); }
inline Value minus(const Value& a, const Value& b) { return emit("subtract", {a, b}); }
inline Value times(const Value& a, const Value& b) { return emit("multiply", {a, b}); }
inline Value over(const Value& a, const Value& b) { return emit("divide", {a, b}); }
inline Value less(const Value& a, const Value& b) { return emit("less", {a, b}); }
/// condition ? a : b, element by element.
inline Value choose(const Value& condition, const Value& a, const Value& b) {
  return emit("where", {condition, a, b});
}
inline Value integer(int64_t value) { return scalar(kInt64, static_cast<double>(value)); }
/// A scalar of the element type of `like`.
inline Value number(const Value& like, double value) { return scalar(type_of(like).dtype, value); }
/// max(x, low), then min(x, high).
inline Value clamped(const Value& x, double low, double high) {
  return emit("minimum", {emit("maximum", {x, number(x, low)}), number(x, high)});
}

// Activations, of operators and of recurrences.
/// alpha * (exp(x) - 1) below 0, x from there on.
Value elu_of(const Value& x, double alpha);
/// log(1 + exp(x)).
Value softplus_of(const Value& x);
/// x / (1 + |x|).
Value softsign_of(const Value& x);
/// The approximation of Hendrycks and Gimpel 2016: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
Value tanh_gelu_of(const Value& x);
/// alpha * x + beta within 0..1.
Value hard_sigmoid_of(const Value& x, double alpha, double beta);

Value transposed(const Value& value, const std::vector<int64_t>& axes);
/// Elements [begin, end) along one axis. Throws Error when they are not all there.
Value sliced(const Value& value, int64_t axis, int64_t begin, int64_t end);
/// The elements at `places` along one axis; of places beyond its ends those at the ends.
Value taken(const Value& from, const Value& places, int64_t axis);
Value concatenated(const std::vector<Value>& parts, int64_t axis);
Value broadcast_to(const Value& value, const std::vector<int64_t>& shape);
Value sum_over(const Value& value, const std::vector<int64_t>& axes, bool keepdims);
/// 0, 1, ... count-1 as int64, of `shape`, which has one dimension of `count` and else ones. Throws Error
/// beyond 2^24.
Value counted(int64_t count, const std::vector<int64_t>& shape);
/// rows (.., m, k) times the transpose of columns (.., n, k), of equal leading dimensions: (.., m, n).
Value batched_product(const Value& rows, const Value& columns);

}  // namespace lathe::onnx
