// Element-wise operators as ONNX nodes.
#include <cmath>

#include "core/frontends/onnx_exporter.h"
#include "core/relay/ops/rule.h"

namespace lathe::onnx {
namespace {

/// Not(op(args)).
template <const char* kOp()>
void negated(Exporter& e, const Written& w) {
  e.node("Not", {e.add(kOp(), w.args)}, w.output());
}
constexpr const char* kEqual() { return "Equal"; }

void rsqrt(Exporter& e, const Written& w) { e.node("Reciprocal", {e.add("Sqrt", w.args)}, w.output()); }

/// log(x) / log(base)
void logarithm(Exporter& e, const Written& w) {
  double base = w.op() == "log2" ? 2 : 10;
  e.node("Mul", {e.add("Log", w.args), e.number(w.dtype(0), 1 / std::log(base))}, w.output());
}

/// sign(x) * floor(|x|)
std::string truncated(Exporter& e, const std::string& x) {
  return e.add("Mul", {e.add("Sign", {x}), e.add("Floor", {e.add("Abs", {x})})});
}
void trunc(Exporter& e, const Written& w) {
  std::string result = w.dtype(0).is_float() ? truncated(e, w.args[0]) : w.args[0];
  // ONNX has no truncation; integers have no fraction.
  e.node("Identity", {result}, w.output());
}

void is_finite(Exporter& e, const Written& w) {
  e.node("Not", {e.add("Or", {e.add("IsInf", w.args), e.add("IsNaN", w.args)})}, w.output());
}

/// Integers are round already.
void rounding(Exporter& e, const Written& w) {
  if (w.dtype(0).is_float()) return plain(e, w);
  e.node("Identity", w.args, w.output());
}

void cast(Exporter& e, const Written& w) {
  set_int(e.node("Cast", {w.args[0]}, w.output()), "to", onnx_dtype(w.type().dtype));
}

void clip(Exporter& e, const Written& w) {
  const auto& a = w.attrs<relay::ClipAttrs>();
  const DataType dtype = w.dtype(0);
  const auto bound = [&](double value, bool upper) {
    if (dtype.is_float()) return e.number(dtype, value);
    Tensor integer({}, dtype);
    integer.set_integer(0, relay::ops::integer_bound(dtype, value, upper));
    return e.initializer(integer);
  };
  const std::string low = bound(a.a_min, false), high = bound(a.a_max, true);
  e.node("Clip", {w.args[0], low, high}, w.output());
}

/// A scalar spread over the result: zeros, ones, full and their relatives.
void filled(Exporter& e, const Written& w, const std::string& scalar) {
  e.node("Expand", {scalar, e.ints(w.result_shape())}, w.output());
}
template <int kValue>
void constant_fill(Exporter& e, const Written& w) {
  filled(e, w, e.number(w.type().dtype, kValue));
}
void full(Exporter& e, const Written& w) {
  const std::string& value = w.op() == "full_like" ? w.args[1] : w.args[0];
  filled(e, w, e.reshaped(e.cast(value, w.type().dtype), {}));
}

/// The remainder with the sign of a.
void remainder_of_trunc(Exporter& e, const Written& w) {
  set_int(e.node("Mod", w.args, w.output()), "fmod", 1);
}
/// The remainder with the sign of b.
void floor_mod(Exporter& e, const Written& w) {
  if (!w.dtype(0).is_float()) return (void)e.node("Mod", w.args, w.output());
  // Mod of floats has the sign of the dividend; this one must have the divisor's.
  const std::string rest = e.fresh(), zero = e.number(w.dtype(0), 0);
  set_int(e.node("Mod", w.args, rest), "fmod", 1);
  const std::string differ = e.add("Xor", {e.add("Less", {rest, zero}), e.add("Less", {w.args[1], zero})});
  const std::string is_whole = e.add("Equal", {rest, zero});
  const std::string moves = e.add("And", {differ, e.add("Not", {is_whole})});
  e.node("Where", {moves, e.add("Add", {rest, w.args[1]}), rest}, w.output());
}
void floor_divide(Exporter& e, const Written& w) {
  if (w.dtype(0).is_float()) return (void)e.node("Floor", {e.add("Div", w.args)}, w.output());
  // Integer Div rounds toward zero. Less its remainder by floor, the dividend divides evenly.
  std::string rest = e.add("Mod", w.args);
  e.node("Div", {e.add("Sub", {w.args[0], rest}), w.args[1]}, w.output());
}
void trunc_divide(Exporter& e, const Written& w) {
  std::string quotient = e.add("Div", w.args);
  e.node("Identity", {w.dtype(0).is_float() ? truncated(e, quotient) : quotient}, w.output());
}

void shift(Exporter& e, const Written& w) {
  // BitShift is of unsigned integers.
  if (w.dtype(0).code != TypeCode::kUInt) w.reject("of {}", to_string(w.dtype(0)));
  set_text(e.node("BitShift", w.args, w.output()), "direction", w.op() == "left_shift" ? "LEFT" : "RIGHT");
}

void bitwise(Exporter& e, const Written& w) {
  e.need_opset(18);
  plain(e, w);
}

void where(Exporter& e, const Written& w) {
  std::string condition = w.dtype(0) == kBool ? w.args[0] : e.cast(w.args[0], kBool);
  e.node("Where", {condition, w.args[1], w.args[2]}, w.output());
}

void logical_not(Exporter& e, const Written& w) {
  e.node("Not", {w.dtype(0) == kBool ? w.args[0] : e.cast(w.args[0], kBool)}, w.output());
}

void leaky_relu(Exporter& e, const Written& w) {
  set_float(e.node("LeakyRelu", w.args, w.output()), "alpha", w.attrs<relay::LeakyReluAttrs>().alpha);
}

/// Slopes of channels against the axes after theirs.
void prelu(Exporter& e, const Written& w) {
  int64_t axis = w.front(w.attrs<relay::ChannelAttrs>().axis);
  std::vector<int64_t> shape(static_cast<size_t>(w.rank(0) - axis), 1);
  shape[0] = -1;
  e.node("PRelu", {w.args[0], e.reshaped(w.args[1], shape)}, w.output());
}

/// Argument `arg` in the type that ONNX wants there.
std::string as(Exporter& e, const Written& w, size_t arg, DataType dtype) {
  return w.dtype(arg) == dtype ? w.args[arg] : e.cast(w.args[arg], dtype);
}

/// Scale and zero point of one number, or of one a channel. The zero point has the integers' type.
void quantization(Exporter& e, const Written& w) {
  DataType integers = w.op() == "qnn.quantize" ? w.type().dtype : w.dtype(0);
  auto* node = e.node(find_export(w.op())->onnx, {w.args[0], w.args[1], as(e, w, 2, integers)}, w.output());
  if (w.rank(1) == 1) set_int(node, "axis", w.front(w.attrs<relay::QuantizeAttrs>().axis));
}

/// Back to real numbers and to integers of another scale.
void requantize(Exporter& e, const Written& w) {
  std::string real = e.fresh();
  auto* node = e.node("DequantizeLinear", {w.args[0], w.args[1], as(e, w, 2, w.dtype(0))}, real);
  if (w.rank(1) == 1) set_int(node, "axis", w.front(w.attrs<relay::QuantizeAttrs>().axis));
  e.node("QuantizeLinear", {real, w.args[3], as(e, w, 4, w.type().dtype)}, w.output());
}

constexpr ExportRow kRows[] = {
    {"abs", plain, "Abs"},
    {"acos", plain, "Acos"},
    {"acosh", plain, "Acosh"},
    {"asin", plain, "Asin"},
    {"asinh", plain, "Asinh"},
    {"atan", plain, "Atan"},
    {"atanh", plain, "Atanh"},
    {"ceil", rounding, "Ceil"},
    {"copy", plain, "Identity"},
    {"cos", plain, "Cos"},
    {"cosh", plain, "Cosh"},
    {"erf", plain, "Erf"},
    {"exp", plain, "Exp"},
    {"floor", rounding, "Floor"},
    {"isinf", plain, "IsInf"},
    {"isnan", plain, "IsNaN"},
    {"isfinite", is_finite},
    {"log", plain, "Log"},
    {"log2", logarithm},
    {"log10", logarithm},
    {"logical_not", logical_not},
    {"negative", plain, "Neg"},
    {"round", rounding, "Round"},
    {"rsqrt", rsqrt},
    {"sigmoid", plain, "Sigmoid"},
    {"sign", plain, "Sign"},
    {"sin", plain, "Sin"},
    {"sinh", plain, "Sinh"},
    {"sqrt", plain, "Sqrt"},
    {"tan", plain, "Tan"},
    {"tanh", plain, "Tanh"},
    {"trunc", trunc},
    {"cast", cast},
    {"cast_like", cast},
    {"clip", clip},
    {"zeros", constant_fill<0>},
    {"ones", constant_fill<1>},
    {"zeros_like", constant_fill<0>},
    {"ones_like", constant_fill<1>},
    {"full", full},
    {"full_like", full},
    {"add", plain, "Add"},
    {"subtract", plain, "Sub"},
    {"multiply", plain, "Mul"},
    {"divide", plain, "Div"},
    {"minimum", plain, "Min"},
    {"maximum", plain, "Max"},
    {"power", plain, "Pow"},
    {"mod", remainder_of_trunc},
    {"trunc_mod", remainder_of_trunc},
    {"floor_mod", floor_mod},
    {"floor_divide", floor_divide},
    {"trunc_divide", trunc_divide},
    {"left_shift", shift},
    {"right_shift", shift},
    {"bitwise_and", bitwise, "BitwiseAnd"},
    {"bitwise_or", bitwise, "BitwiseOr"},
    {"bitwise_xor", bitwise, "BitwiseXor"},
    {"bitwise_not", bitwise, "BitwiseNot"},
    {"logical_and", plain, "And"},
    {"logical_or", plain, "Or"},
    {"logical_xor", plain, "Xor"},
    {"equal", plain, "Equal"},
    {"not_equal", negated<kEqual>},
    {"less", plain, "Less"},
    {"less_equal", plain, "LessOrEqual"},
    {"greater", plain, "Greater"},
    {"greater_equal", plain, "GreaterOrEqual"},
    {"where", where},
    {"nn.relu", plain, "Relu"},
    {"nn.leaky_relu", leaky_relu},
    {"nn.prelu", prelu},
    {"nn.dropout", plain, "Identity"},
    {"qnn.quantize", quantization, "QuantizeLinear"},
    {"qnn.dequantize", quantization, "DequantizeLinear"},
    {"qnn.requantize", requantize},
};
}  // namespace

std::span<const ExportRow> elementwise_exports() { return kRows; }

}  // namespace lathe::onnx
