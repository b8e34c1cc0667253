#include "core/relay/passes/canonicalize_qnn.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/closed.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }

Expr add(const Expr& a, const Expr& b) { return typed_call("add", {a, b}); }
Expr subtract(const Expr& a, const Expr& b) { return typed_call("subtract", {a, b}); }
Expr multiply(const Expr& a, const Expr& b) { return typed_call("multiply", {a, b}); }
Expr number(DataType dtype, double value) { return typed_constant(full({}, dtype, value)); }

/// The value of a constant of one element, or nothing.
std::optional<double> one_number(const Expr& e) {
  const auto* c = e.as<Constant>();
  return c && c->value.size() == 1 ? std::optional(c->value.value(0)) : std::nullopt;
}

bool is_zero(const Expr& e) {
  const auto* c = e.as<Constant>();
  for (int64_t i = 0; c && i < c->value.size(); ++i)
    if (c->value.value(i) != 0) return false;
  return c != nullptr;
}

/// A parameter of one number, or one a channel, as broadcasting against a tensor of rank `rank` aligns it.
Expr along(const Expr& parameter, int64_t axis, size_t rank) {
  if (type_of(parameter).shape.empty()) return parameter;
  if (const auto* c = parameter.as<Constant>(); c && c->value.size() == 1)
    return typed_constant(c->value.reshaped({}));
  auto dims = static_cast<int64_t>(rank);
  // Broadcasting aligns at the last axis: (c) becomes (c, 1, 1) for axis 1 of NCHW.
  int64_t after = dims - 1 - (axis < 0 ? axis + dims : axis);
  return after == 0 ? parameter
                    : typed_call("expand_dims", {parameter}, make<ExpandDimsAttrs>(int64_t{1}, after));
}

/// How deep to look into an expression: scales lie near, and sums of shared sums would be looked at again and
/// again.
constexpr int kDepth = 8;

/// The least and the largest integer of a type.
struct Range {
  double low, high;
};
Range range_of(DataType dtype) {
  double low = dtype.code == TypeCode::kUInt ? 0 : -static_cast<double>(int64_t{1} << (dtype.bits - 1));
  // In double, which holds all of 32 bits.
  return {low, low + static_cast<double>((int64_t{1} << dtype.bits) - 1)};
}

class Canonicalizer final : public ExprMutator {
  /// Null: the call stays.
  using Handler = Expr (Canonicalizer::*)(const Call& call);

  Expr visit_call(const Ref<Call>& e) override {
    static const std::pair<const char*, Handler> kHandlers[] = {
        {"qnn.dequantize", &Canonicalizer::dequantize}, {"qnn.quantize", &Canonicalizer::quantize},
        {"qnn.requantize", &Canonicalizer::requantize}, {"qnn.add", &Canonicalizer::combination},
        {"qnn.mul", &Canonicalizer::combination},       {"add", &Canonicalizer::sum},
    };
    // Operands first: sum() asks whether its operand came from a product.
    Expr rebuilt = visit_default(e);
    const auto* op = e->callee.as<OpNode>();
    const ProductRule* rule = op ? op->row().product : nullptr;
    // By the operator's own row, so that a new product needs no line here.
    if (rule && rule->quantized && op->name == rule->quantized) return product(*rebuilt.as<Call>(), *rule);
    for (const auto& [name, handler] : kHandlers)
      if (op && op->name == name)
        if (Expr plain = (this->*handler)(*rebuilt.as<Call>())) return plain;
    return rebuilt;
  }

  /// Operands of an integer product as the product takes them, and the int32 numbers that stand for 0 there;
  /// of the weight perhaps one a channel, (O).
  struct Operands {
    Expr x, w;
    Expr x_zero = number(kInt32, 0), w_zero = number(kInt32, 0);
  };

  /// A zero point that is one number as int32, perhaps known at run time alone; null where there are several.
  static Expr as_number(const Expr& zero) {
    if (is_zero(zero)) return number(kInt32, 0);
    if (const std::optional<double> value = one_number(zero)) return number(kInt32, *value);
    return type_of(zero).shape.empty() ? cast(zero, kInt32) : Expr();
  }
  /// The same, or one a channel.
  static Expr as_numbers(const Expr& zero) {
    const Expr one = as_number(zero);
    return !one && rank_of(zero) == 1 ? cast(zero, kInt32) : one;
  }
  static Expr moved(const Expr& zero, double by) {
    if (const std::optional<double> value = one_number(zero)) return number(kInt32, *value + by);
    return add(zero, number(kInt32, by));
  }

  /// 8 bits each, data unsigned and weight signed, which a dot product takes; moved by 128 where they are
  /// not. Nothing where what a zero point contributes is no sum over rows or columns.
  static std::optional<Operands> in_8_bits(const Call& call, const std::optional<ProductAxes>& axes) {
    // Arguments of a quantized product: data, weight, their zero points, their scales.
    Operands o{call.args[0], call.args[1], as_number(call.args[2]), as_numbers(call.args[3])};
    // Without axes nobody knows over what to sum.
    if (!o.x_zero || !o.w_zero || (!axes && !(is_zero(o.x_zero) && is_zero(o.w_zero)))) return std::nullopt;
    // Added to values and zero point alike, 128 leaves each difference from the zero point as it was.
    // vpdpbusd and its kin take unsigned data and signed weights, and are worth the sums that a weight
    // without a zero point gets by it.
    const bool counts = axes && counts_terms(call, *axes), moves_x = axes && type_of(o.x).dtype == kInt8,
               moves_w = type_of(o.w).dtype == kUInt8 && (counts || !is_zero(o.w_zero));
    if (moves_x)
      o.x = cast(add(cast(o.x, kInt32), number(kInt32, 128)), kUInt8), o.x_zero = moved(o.x_zero, 128);
    if (moves_w)
      o.w = cast(subtract(cast(o.w, kInt32), number(kInt32, 128)), kInt8), o.w_zero = moved(o.w_zero, -128);
    return is_zero(o.w_zero) || counts ? std::optional(o) : std::nullopt;
  }

  /// Whether the sums over the data that each result sees, which a weight's zero point takes, are known to
  /// have so many terms, and are less work than they save.
  static bool counts_terms(const Call& call, const ProductAxes& axes) {
    // A dot product of bytes takes four at once. Of as few channels the sums are as much work as products.
    constexpr int64_t kFewestChannels = 4;
    const TensorType &x = type_of(call.args[0]), &w = type_of(call.args[1]);
    if (axes.of_data) return as_int(x.shape[static_cast<size_t>(*axes.of_data)]) != nullptr;
    return call.attrs.as<ConvAttrs>() && as_int(x.shape[1]) && has_constant_shape(w) &&
           int_value(w.shape[1]) >= kFewestChannels;
  }

  /// The same in differences of int32.
  /// Always right, but products of int32, which no dot product of bytes computes.
  static Operands differences(const Call& call) {
    size_t rank = type_of(call.args[1]).shape.size();
    return {.x = subtract(cast(call.args[0], kInt32), cast(along(call.args[2], 0, 0), kInt32)),
            .w = subtract(cast(call.args[1], kInt32), cast(along(call.args[3], 0, rank), kInt32))};
  }

  /// A convolution's attributes where padding stands for the real number 0. With this, all windows sum over n
  /// terms and the weight's sums are the same everywhere.
  static Attrs padded_with_zero(const ConvAttrs& conv, Operands& o) {
    auto padded = mutate(conv);
    if (const std::optional<double> value = one_number(o.x_zero)) {
      padded->pad_value = static_cast<int64_t>(*value);
    } else if (std::any_of(conv.padding.begin(), conv.padding.end(), [](int64_t n) { return n != 0; })) {
      // The operator's own is a number that is known.
      const auto rank = static_cast<int>(rank_of(o.x)) - 2;
      const ops::Window window = ops::window_of(conv.strides, conv.dilation, conv.padding, rank);
      std::vector<Ints> pads(2, Ints{0, 0});
      for (size_t d = 0; d < window.before.size(); ++d) pads.push_back({window.before[d], window.after[d]});
      o.x = typed_call("nn.pad", {o.x, cast(o.x_zero, type_of(o.x).dtype)}, make<PadAttrs>(std::move(pads)));
      padded->padding = {};
    }
    return seal(std::move(padded));
  }

  /// Sums of int32 over `axes`.
  static Expr sums(const Expr& e, const Ints& axes) {
    return typed_call("sum", {cast(e, kInt32)}, make<ReduceAttrs>(std::optional(axes)));
  }
  /// With `count` dimensions of 1 from `axis` on.
  static Expr expanded(const Expr& e, int64_t axis, int64_t count) {
    return count > 0 ? typed_call("expand_dims", {e}, make<ExpandDimsAttrs>(axis, count)) : e;
  }
  static int64_t rank_of(const Expr& e) { return static_cast<int64_t>(type_of(e).shape.size()); }

  /// The weight's sums as they broadcast against a result of rank `rank`.
  static Expr channel_sums(const Operands& o, const ProductAxes& axes, int64_t rank) {
    Expr all = sums(o.w, axes.summed);
    if (rank_of(all) > 1) all = expanded(all, rank_of(all) - 1, 1);  // of each matrix: for all its rows
    return expanded(all, 1, rank - 1 - axes.result);
  }

  /// sum (x - zx) (w - zw) = sum x w - zx sum w - zw (sum x - zx n), over n terms
  Expr product(const Call& call, const ProductRule& rule) {
    size_t x_rank = type_of(call.args[0]).shape.size(), w_rank = type_of(call.args[1]).shape.size();
    std::optional<ProductAxes> axes = rule.axes(call.attrs, x_rank, w_rank);
    std::optional<Operands> bytes = in_8_bits(call, axes);
    Operands o = bytes ? *bytes : differences(call);
    const auto* conv = call.attrs.as<ConvAttrs>();
    Attrs attrs = conv ? padded_with_zero(*conv, o) : call.attrs;
    Expr result = typed_call(rule.real, {o.x, o.w}, attrs);
    int64_t rank = rank_of(result);
    if (!is_zero(o.w_zero))
      result = subtract(result, axes->of_data ? row_offset(o, *axes, rank) : window_offset(o, rule, attrs));
    if (is_zero(o.x_zero)) return result;
    Expr offset = multiply(channel_sums(o, *axes, rank), o.x_zero);
    Expr without = subtract(result, offset);
    // `without` is kept by its own entry, so that its address stays its own.
    offsets_[without.get()] = {without, result, offset};
    return without;
  }

  /// zw (sum x - zx n) of each row of x, as it broadcasts against the result of rank `rank`.
  static Expr row_offset(const Operands& o, const ProductAxes& axes, int64_t rank) {
    const lathe::Expr& extent = type_of(o.x).shape[static_cast<size_t>(*axes.of_data)];
    Expr rows = sums(o.x, {*axes.of_data});
    return offset_of_sums(expanded(rows, rank_of(rows), 1), int_value(extent), o,
                          along(o.w_zero, axes.result, static_cast<size_t>(rank)));
  }

  /// zw (sum x - zx n), of sums of n terms; zw: the weight's zero points as they broadcast against the sums.
  static Expr offset_of_sums(const Expr& sums, int64_t terms, const Operands& o, const Expr& w_zero) {
    const auto count = static_cast<double>(terms);
    const std::optional<double> zero = one_number(o.x_zero);
    const Expr of_zeros = zero ? number(kInt32, *zero * count) : multiply(o.x_zero, number(kInt32, count));
    return multiply(subtract(sums, of_zeros), w_zero);
  }

  /// The same of each window, over its group's channels: (N, 1 or O, windows...). `attrs`: the convolution's,
  /// which pads with zx, so that all windows have as many terms.
  static Expr window_offset(const Operands& o, const ProductRule& rule, const Attrs& attrs) {
    const auto& conv = ops::attrs_as<ConvAttrs>(attrs);
    const Ints kernel = constant_shape(type_of(o.w));
    // The channels first, once for all windows that see them.
    Expr all = conv.groups == 1
                   ? typed_call("sum", {cast(o.x, kInt32)}, make<ReduceAttrs>(std::optional(Ints{1}), true))
                   : sums(reshape(o.x, {0, -4, conv.groups, kernel[1], -2}), {2});
    int64_t terms = kernel[1];
    Ints ones{conv.groups, 1};
    for (size_t d = 2; d < kernel.size(); ++d) terms *= kernel[d], ones.push_back(kernel[d]);
    auto windows = mutate(conv);
    windows->channels = conv.groups;
    windows->pad_value = conv.pad_value * kernel[1];
    const auto all_are = [](const Ints& values, int64_t value) {
      return std::all_of(values.begin(), values.end(), [&](int64_t n) { return n == value; });
    };
    // Windows of one place each are the places.
    if (terms > kernel[1] || !all_are(conv.strides, 1) || !all_are(conv.padding, 0))
      all = typed_call(rule.real, {all, typed_constant(full(ones, kInt32, 1))}, seal(std::move(windows)));
    if (conv.groups > 1)
      all = typed_call("repeat", {all}, make<RepeatAttrs>(kernel[0] / conv.groups, int64_t{1}));
    return offset_of_sums(all, terms, o, along(o.w_zero, 1, kernel.size()));
  }

  /// (product - offset) + bias -> product + (bias - offset), exact in integers.
  /// A bias and an offset that are both constants fold into one vector: one addition less for each result.
  Expr sum(const Call& call) {
    auto found = offsets_.find(call.args[0].get());
    if (found == offsets_.end()) return {};
    return add(found->second.product, subtract(call.args[1], found->second.offset));
  }

  Expr dequantize(const Call& call) {
    int64_t axis = ops::attrs_as<QuantizeAttrs>(call.attrs).axis;
    return scaled_difference(call.args[0], call.args[1], call.args[2], axis);
  }

  /// (x - zero) * scale. Differences of 8-bit integers are exact in float32 too.
  static Expr scaled_difference(const Expr& x, const Expr& scale, const Expr& zero, int64_t axis) {
    size_t rank = type_of(x).shape.size();
    Expr value = x;
    if (!is_zero(zero)) {
      // A float32 has 24 bits: differences of int32 need not fit, those of bytes do.
      DataType dtype = type_of(x).dtype.bits == 8 ? kFloat32 : kInt32;
      value = subtract(cast(value, dtype), cast(along(zero, axis, rank), dtype));
    }
    return multiply(cast(value, kFloat32), along(scale, axis, rank));
  }

  Expr quantize(const Call& call) {
    const auto& a = ops::attrs_as<QuantizeAttrs>(call.attrs);
    return quantized(call.args[0], call.args[1], call.args[2], a.axis, a.out_dtype);
  }

  Expr quantized(const Expr& x, const Expr& scale, const Expr& zero, int64_t axis, DataType dtype) {
    size_t rank = type_of(x).shape.size();
    Expr divisor = along(scale, axis, rank), quotient;
    // Only a single positive number may move through relu and clip as it is done here, and only constants are
    // worth it: they are multiplied when the model is built.
    if (one_number(divisor).value_or(0) > 0 && type_of(divisor).shape.empty())
      quotient = scaled(x, typed_call("divide", {number(type_of(divisor).dtype, 1), divisor}));
    if (!quotient) quotient = typed_call("divide", {x, divisor});
    // Saturation: values beyond the type's range become its ends.
    Range range = range_of(dtype);
    std::optional<double> point = one_number(zero);
    if (!point) {  // one a channel, or not known
      Expr moved = add(typed_call("round", {quotient}), cast(along(zero, axis, rank), type_of(x).dtype));
      return cast(typed_call("clip", {moved}, make<ClipAttrs>(range.low, range.high)), dtype);
    }
    // The bounds are whole, so clipping before rounding gives what clipping after it would.
    // Clipped before it is rounded, which is one instruction together with the conversion.
    double low = range.low - *point, high = range.high - *point;
    // Clipping from 0 or above does what the relu did.
    if (const Call* relu = call_of(quotient, "nn.relu"); relu && low >= 0) quotient = relu->args[0];
    Expr clipped = typed_call("clip", {quotient}, make<ClipAttrs>(low, high));
    Expr value = typed_call("round", {clipped});
    return *point == 0 ? cast(value, dtype) : cast(add(cast(value, kInt32), number(kInt32, *point)), dtype);
  }

  /// e * factor with the factor inside, or null when it can't move. `factor` is one positive number.
  /// Sums: both parts must take it. Relu and clip let a positive factor through; a clip's bounds are scaled
  /// with it. Nothing is built unless something below ends in a product with a constant.
  static Expr scaled(const Expr& e, const Expr& factor, int depth = kDepth) {
    const auto* call = e.as<Call>();
    const auto* op = call ? call->callee.as<OpNode>() : nullptr;
    if (!op || depth == 0) return {};
    // As scales stand after constant folding: on the right (fold_scale_axis and the importers write them so).
    if (op->name == "multiply" && is_closed(call->args[1]))
      return multiply(call->args[0], multiply(call->args[1], factor));
    if (op->name == "nn.relu") {
      Expr inner = scaled(call->args[0], factor, depth - 1);
      return inner ? typed_call("nn.relu", {inner}) : inner;
    }
    if (op->name == "add") {
      Expr a = scaled(call->args[0], factor, depth - 1);
      Expr b = is_closed(call->args[1]) ? multiply(call->args[1], factor)
                                        : scaled(call->args[1], factor, depth - 1);
      // Where one part cannot take it, dividing that part is as much work as dividing the sum.
      return a && b ? add(a, b) : Expr();
    }
    if (op->name != "clip") return {};
    const auto& a = *call->attrs.as<ClipAttrs>();
    Expr inner = scaled(call->args[0], factor, depth - 1);
    if (!inner) return {};
    DataType dtype = type_of(e).dtype;
    // As expressions, since `factor` may not be folded yet and clip takes numbers alone.
    Expr low = multiply(number(dtype, a.a_min), factor), high = multiply(number(dtype, a.a_max), factor);
    return typed_call("minimum", {typed_call("maximum", {inner, low}), high});
  }

  Expr requantize(const Call& call) {
    const auto& a = ops::attrs_as<QuantizeAttrs>(call.attrs);
    Expr real = scaled_difference(call.args[0], call.args[1], call.args[2], a.axis);
    return quantized(real, call.args[3], call.args[4], a.axis, a.out_dtype);
  }

  /// Arguments: a, b, then scale and zero point of each, then of the result.
  Expr combination(const Call& call) {
    auto operand = [&](size_t i) {
      return scaled_difference(call.args[i], call.args[2 + 2 * i], call.args[3 + 2 * i], -1);
    };
    bool adds = call.callee.as<OpNode>()->name == "qnn.add";
    Expr real = typed_call(adds ? "add" : "multiply", {operand(0), operand(1)});
    return quantized(real, call.args[6], call.args[7], -1, type_of(call.args[0]).dtype);
  }

  struct Offset {
    Expr result, product, offset;
  };
  std::unordered_map<const Node*, Offset> offsets_;  // by result
};

}  // namespace

Module canonicalize_qnn(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return Canonicalizer().visit_as(function); });
}

}  // namespace lathe::relay
