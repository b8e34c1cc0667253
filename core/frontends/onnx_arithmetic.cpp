#include "core/frontends/onnx_arithmetic.h"

#include <cmath>
#include <numeric>

#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
using relay::Ints;

Value elu_of(const Value& x, double alpha) {
  // Of min(x, 0): both sides of the choice are computed, and exp of a large x would overflow.
  const Value below = minus(emit("exp", {emit("minimum", {x, number(x, 0)})}), number(x, 1));
  return choose(less(x, number(x, 0)), times(number(x, alpha), below), x);
}

Value softplus_of(const Value& x) {  // max(x, 0) + log(1 + exp(-|x|)): no overflow
  const Value tail = emit("log", {plus(number(x, 1), emit("exp", {emit("negative", {emit("abs", {x})})}))});
  return plus(emit("maximum", {x, number(x, 0)}), tail);
}

Value softsign_of(const Value& x) { return over(x, plus(number(x, 1), emit("abs", {x}))); }

Value tanh_gelu_of(const Value& x) {
  const Value cube = times(times(x, x), times(x, number(x, 0.044715)));
  const Value share = emit("tanh", {times(plus(x, cube), number(x, std::sqrt(2 / M_PI)))});
  return times(times(x, number(x, 0.5)), plus(share, number(x, 1)));
}

Value hard_sigmoid_of(const Value& x, double alpha, double beta) {
  return clamped(plus(times(x, number(x, alpha)), number(x, beta)), 0, 1);
}

Value transposed(const Value& value, const Ints& axes) {
  return emit("transpose", {value}, make<relay::TransposeAttrs>(axes));
}

Value sliced(const Value& value, int64_t axis, int64_t begin, int64_t end) {
  const std::vector<Expr> shape = dims_of(value);
  const int64_t* extent = axis >= 0 && axis < static_cast<int64_t>(shape.size())
                              ? as_int(shape[static_cast<size_t>(axis)])
                              : nullptr;
  if (!extent || begin < 0 || begin > end || end > *extent)
    fail("elements {} to {} of axis {} of a tensor of type {}", begin, end, axis,
         relay::print(value->checked_type));
  if (begin == 0 && end == *extent) return value;
  return emit("strided_slice", {value},
              make<relay::StridedSliceAttrs>(Ints{begin}, Ints{end}, Ints{1}, std::string("end"),
                                             std::optional<Ints>(Ints{axis})));
}

Value taken(const Value& from, const Value& places, int64_t axis) {
  return emit("take", {from, places},
              make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("clip")));
}

Value concatenated(const std::vector<Value>& parts, int64_t axis) {
  if (parts.size() == 1) return parts[0];
  return emit("concatenate", {tuple_of(parts)}, make<relay::ConcatenateAttrs>(axis));
}

Value broadcast_to(const Value& value, const Ints& shape) {
  const bool is_it = !has_open_dims(value) && shape_of(value) == shape;
  return is_it ? value : emit("broadcast_to", {value}, make<relay::InitAttrs>(shape));
}

Value sum_over(const Value& value, const Ints& axes, bool keepdims) {
  return emit("sum", {value}, make<relay::ReduceAttrs>(axes, keepdims));
}

Value counted(int64_t count, const Ints& shape) {
  // Positions are constants made at import: a hostile extent must not become gigabytes.
  constexpr int64_t kMost = int64_t{1} << 24;
  if (count < 0 || count > kMost) fail("{} positions along an axis, at most {} are supported", count, kMost);
  Ints numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return reshape(int_constant(numbers), shape);
}

Value batched_product(const Value& rows, const Value& columns) {
  std::vector<Expr> a = dims_of(rows), b = dims_of(columns);
  const Expr m = a[a.size() - 2], n = b[b.size() - 2], k = a.back();
  std::vector<Expr> result(a.begin(), a.end() - 2);
  const Expr count = elements_of(result);
  result.insert(result.end(), {m, n});
  return reshape_to(
      emit("nn.batch_matmul", {reshape_to(rows, {count, m, k}), reshape_to(columns, {count, n, k})}), result);
}

}  // namespace lathe::onnx
