#include "core/relay/passes/fake_quantization_to_integer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_tensors.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }
auto rank_of(const Expr& e) { return static_cast<int64_t>(type_of(e).shape.size()); }

/// What a call of qnn.dequantize with constant parameters stands for.
struct Quantized {
  Expr value;
  Tensor scale;
  Tensor zero;
  int64_t axis;  // of scales and zero points that differ by channel

  bool is_uniform() const { return scale.size() == 1 && zero.size() == 1; }
  bool has_zero(int64_t point) const {
    for (int64_t i = 0; i < zero.size(); ++i)
      if (zero.integer(i) != point) return false;
    return true;
  }
  bool is_8_bit() const { return type_of(value).dtype == kInt8 || type_of(value).dtype == kUInt8; }
};

/// Negative scales turn the order of numbers around.
bool is_positive(const Tensor& scale) {
  for (int64_t i = 0; i < scale.size(); ++i)
    if (!(scale.value(i) > 0)) return false;
  return true;
}

// With constant scales: others are no fake quantization but part of the model.
std::optional<Quantized> quantized(const Expr& e) {
  const Call* call = call_of(e, "qnn.dequantize");
  const auto* scale = call ? call->args[1].as<Constant>() : nullptr;
  const auto* zero = call ? call->args[2].as<Constant>() : nullptr;
  if (!scale || !zero || !is_positive(scale->value)) return std::nullopt;
  int64_t axis = ops::attrs_as<QuantizeAttrs>(call->attrs).axis;
  return Quantized{call->args[0], scale->value, zero->value, axis < 0 ? axis + rank_of(e) : axis};
}

Expr dequantized(const Expr& value, const Tensor& scale, const Tensor& zero, int64_t axis) {
  return typed_call("qnn.dequantize", {value, typed_constant(scale), typed_constant(zero)},
                    make<QuantizeAttrs>(kInt8, axis));
}
Tensor no_offset() { return full({}, kInt32, 0); }

/// Compared as numbers: (), (1) and other integer types may say the same.
bool equal_values(const Tensor& a, const Tensor& b) {
  if (a.size() != b.size()) return false;
  for (int64_t i = 0; i < a.size(); ++i)
    if (a.value(i) != b.value(i)) return false;
  return true;
}

/// a[i] * b[i], float32; `a` is one number.
Tensor product(const Tensor& a, const Tensor& b) {
  // In float32, as the model's own multiplication would round.
  Tensor result(b.size() == 1 ? Ints{} : Ints{b.size()}, kFloat32);
  for (int64_t i = 0; i < b.size(); ++i)
    result.set(i, static_cast<double>(static_cast<float>(a.value(0)) * static_cast<float>(b.value(i))));
  return result;
}

class ToInteger final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    // Operands first: the dequantize that one call leaves behind is what the next one takes.
    Expr rebuilt = visit_default(e);
    const auto* op = e->callee.as<OpNode>();
    Expr integer = op ? on_integers(*rebuilt.as<Call>(), op->row()) : Expr();
    return integer ? integer : rebuilt;
  }

  /// Null: the call stays as it is.
  Expr on_integers(const Call& call, const Op& op) {
    if (call_of(Expr(&call), "qnn.quantize")) return quantize(call);
    if (op.layout == LayoutRule::kBias) return bias_add(call);
    switch (op.narrow) {
      case NarrowRule::kReal:
        return {};
      case NarrowRule::kProduct:
        return product(call, *op.product);
      case NarrowRule::kChoice:
        if (!is_choice(call)) return {};
        if (call.attrs.as<TransposeAttrs>()) return transpose(call);
        return call.args[0].as<Tuple>() ? joined(call) : chosen(call);
      case NarrowRule::kMean:
        return mean(call, op);
      case NarrowRule::kSum:
        return biased(call.args[0], call.args[1], rank_of(call.args[0]) - 1);
    }
    CHECK(false, "rule {}", static_cast<int>(op.narrow));
  }

  /// The product of the integers. Scales of the weight may differ by its channels.
  static Expr product(const Call& call, const ProductRule& rule) {
    if (!rule.quantized) return {};
    auto x = quantized(call.args[0]), w = quantized(call.args[1]);
    if (!x || !w || !x->is_uniform() || !x->is_8_bit() || !w->is_8_bit()) return {};
    auto axes = rule.axes(call.attrs, type_of(call.args[0]).shape.size(), type_of(call.args[1]).shape.size());
    // Scales that differ along a summed axis can't be taken out of the sum.
    if (!axes || (!w->is_uniform() && w->axis != axes->weight)) return {};
    std::vector<Expr> args{x->value,
                           w->value,
                           typed_constant(x->zero),
                           typed_constant(w->zero),
                           typed_constant(x->scale),
                           typed_constant(w->scale)};
    Expr sums = typed_call(rule.quantized, args, rule.with_sums_of(call.attrs, kInt32));
    // No zero point: the quantized product subtracts those of its operands.
    return dequantized(sums, lathe::relay::product(x->scale, w->scale), no_offset(), axes->result);
  }

  Expr bias_add(const Call& call) {
    int64_t axis = ops::attrs_as<ChannelAttrs>(call.attrs).axis;
    return biased(call.args[0], call.args[1], axis < 0 ? axis + rank_of(call.args[0]) : axis);
  }

  /// sum + bias (a vector along `axis`) for a dequantized int32 sum, or null when the bias is not whole at
  /// its scale.
  static Expr biased(const Expr& sum, const Expr& bias, int64_t axis) {
    auto q = quantized(sum);
    if (!q || type_of(q->value).dtype != kInt32 || !q->has_zero(0) || rank_of(bias) != 1) return {};
    // Each channel's sum has that channel's scale.
    if (!q->is_uniform() && q->axis != axis) return {};
    std::optional<Tensor> whole = whole_at(bias, q->scale);
    if (!whole) return {};
    int64_t after = rank_of(sum) - 1 - axis;
    Expr vector = typed_constant(*whole);
    if (after > 0) vector = typed_call("expand_dims", {vector}, make<ExpandDimsAttrs>(int64_t{1}, after));
    return dequantized(typed_call("add", {q->value, vector}), q->scale, q->zero, q->axis);
  }

  /// The constant vector `bias` / scale as int32 when that is whole up to rounding of float32. Either may be
  /// one number that stands for all channels of the other.
  static std::optional<Tensor> whole_at(const Expr& bias, const Tensor& scale) {
    // In steps of the sum's scale: far finer than the 8 bits that the sum is rounded to later.
    constexpr double kTolerance = 1e-2;
    // A bias may be given as integers of their own scale, or as real numbers.
    auto q = quantized(bias);
    const auto* integers = q ? q->value.as<Constant>() : nullptr;
    const auto* reals = bias.as<Constant>();
    if (!integers && !reals) return std::nullopt;
    const Tensor& given = integers ? integers->value : reals->value;
    auto at = [](const Tensor& vector, int64_t i) { return vector.value(vector.size() == 1 ? 0 : i); };
    Tensor result({given.size() == 1 ? scale.size() : given.size()}, kInt32);
    for (int64_t i = 0; i < result.size(); ++i) {
      double value = at(given, i);
      if (integers) value = (value - at(q->zero, i)) * at(q->scale, i);
      value /= at(scale, i);
      double nearest = std::nearbyint(value);
      // The second term is for float32's own rounding of large values; up to 2^30 the bias leaves room in
      // int32 for the sum.
      if (std::abs(value - nearest) > kTolerance + std::abs(value) * 1e-6 || std::abs(nearest) > 1 << 30)
        return std::nullopt;
      result.set_integer(i, static_cast<int64_t>(nearest));
    }
    return result;
  }

  Expr quantize(const Call& call) {
    auto q = quantized(call.args[0]);
    const auto *scale = call.args[1].as<Constant>(), *zero = call.args[2].as<Constant>();
    if (!q || !scale || !zero) return {};
    const auto& a = ops::attrs_as<QuantizeAttrs>(call.attrs);
    // At another scale the pair is a requantization; dequantize and quantize say it as well.
    bool same = type_of(q->value).dtype == a.out_dtype && equal_values(q->scale, scale->value) &&
                equal_values(q->zero, zero->value);
    return same && q->is_uniform() ? q->value : Expr();
  }

  /// Elements moved, or the largest of some: scales are positive, so the order of integers is that of the
  /// numbers they stand for.
  Expr chosen(const Call& call) {
    auto q = quantized(call.args[0]);
    if (!q || !q->is_uniform() || !q->is_8_bit() || !call.checked_type.as<TensorType>()) return {};
    std::vector<Expr> args = call.args;
    args[0] = q->value;
    for (size_t i = 1; i < args.size(); ++i)
      if (is_real_tensor(args[i]))  // 0 between the elements
        args[i] = typed_constant(full(constant_shape(type_of(args[i])), type_of(q->value).dtype,
                                      static_cast<double>(q->zero.integer(0))));
    return dequantized(typed_call(call.callee.as<OpNode>()->name, args, call.attrs), q->scale, q->zero, 0);
  }

  Expr transpose(const Call& call) {
    auto q = quantized(call.args[0]);
    if (!q || !q->is_8_bit()) return {};
    // Where the axis of the scales goes.
    const Ints axes = ops::permutation(ops::attrs_as<TransposeAttrs>(call.attrs),
                                       static_cast<size_t>(rank_of(call.args[0])));
    const int64_t axis = std::ranges::find(axes, q->axis) - axes.begin();
    return dequantized(typed_call("transpose", {q->value}, call.attrs), q->scale, q->zero, axis);
  }

  /// The sum in int32; its zero point and scale make it the mean.
  Expr mean(const Call& call, const Op& op) {
    auto q = quantized(call.args[0]);
    Attrs attrs = op.mean(call.attrs, type_of(call.args[0]).shape.size());
    if (!q || !q->is_uniform() || !q->is_8_bit() || !attrs) return {};
    int64_t count = 1;
    for (int64_t axis : ops::attrs_as<ReduceAttrs>(attrs).axis.value()) {
      const lathe::Expr& extent = type_of(call.args[0]).shape[static_cast<size_t>(axis)];
      if (!as_int(extent)) return {};
      count *= int_value(extent);
    }
    // Of more elements than this the sum need not fit int32: 255 each.
    if (count > std::numeric_limits<int32_t>::max() / 255) return {};
    Expr wide = typed_call("cast", {q->value}, make<CastAttrs>(kInt32));
    Expr sum = typed_call("sum", {wide}, attrs);
    // sum (x - z) * s / n = (sum x - n z) * (s / n)
    Tensor scale = full({}, kFloat32, q->scale.value(0) / static_cast<double>(count));
    Tensor zero = full({}, kInt32, static_cast<double>(q->zero.integer(0) * count));
    return dequantized(sum, scale, zero, 0);
  }

  /// Of tensors of one scale.
  Expr joined(const Call& call) {
    const auto* parts = call.args[0].as<Tuple>();
    std::vector<Expr> values;
    std::optional<Quantized> first;
    for (const Expr& part : parts->items) {
      auto q = quantized(part);
      if (!q || !q->is_uniform() || !q->is_8_bit()) return {};
      if (!first) first = q;
      if (type_of(q->value).dtype != type_of(first->value).dtype || !equal_values(q->scale, first->scale) ||
          !equal_values(q->zero, first->zero))
        return {};
      values.push_back(q->value);
    }
    if (!first) return {};
    Expr joined = typed_call(call.callee.as<OpNode>()->name, {typed_tuple(values)}, call.attrs);
    return dequantized(joined, first->scale, first->zero, 0);
  }
};

}  // namespace

Module fake_quantization_to_integer(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) { return ToInteger().visit_as(function); });
}

}  // namespace lathe::relay
