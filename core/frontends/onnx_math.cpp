// Element-wise operators.
#include <cmath>
#include <limits>

#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {

struct Name {
  const char* onnx;
  const char* relay;
};
constexpr Name kUnary[] = {
    {"Abs", "abs"},         {"Acos", "acos"},    {"Acosh", "acosh"},
    {"Asin", "asin"},       {"Asinh", "asinh"},  {"Atan", "atan"},
    {"Atanh", "atanh"},     {"Ceil", "ceil"},    {"Cos", "cos"},
    {"Cosh", "cosh"},       {"Erf", "erf"},      {"Exp", "exp"},
    {"Floor", "floor"},     {"Log", "log"},      {"Neg", "negative"},
    {"Not", "logical_not"}, {"Relu", "nn.relu"}, {"Round", "round"},
    {"Sigmoid", "sigmoid"}, {"Sign", "sign"},    {"Sin", "sin"},
    {"Sinh", "sinh"},       {"Sqrt", "sqrt"},    {"Tan", "tan"},
    {"Tanh", "tanh"},       {"IsNaN", "isnan"},  {"BitwiseNot", "bitwise_not"},
};
constexpr Name kBinary[] = {
    {"Add", "add"},
    {"Sub", "subtract"},
    {"Mul", "multiply"},
    {"Equal", "equal"},
    {"Greater", "greater"},
    {"GreaterOrEqual", "greater_equal"},
    {"Less", "less"},
    {"LessOrEqual", "less_equal"},
    {"And", "logical_and"},
    {"Or", "logical_or"},
    {"Xor", "logical_xor"},
    {"BitwiseAnd", "bitwise_and"},
    {"BitwiseOr", "bitwise_or"},
    {"BitwiseXor", "bitwise_xor"},
};

Values by_table(const Node& node, std::span<const Name> names) {
  for (const Name& name : names)
    if (node.op() == name.onnx) return {emit(name.relay, node.all())};
  CHECK(false, "{} is in the wrong table", node.op());
  return {};
}
Values unary_op(const Node& node) { return by_table(node, kUnary); }

/// Before opset 7, `broadcast` and `axis` place the second operand.
Value placed(const Node& node, const Value& b) {
  if (node.opset() >= 7 || !node.has_attr("axis")) return b;
  std::vector<int64_t> shape = shape_of(b);
  int64_t axis = node.integer("axis", 0), after = node.rank(0) - axis - node.rank(1);
  if (axis < 0 || after < 0) node.reject("axis {} for {} of {} dimensions", axis, node.rank(1), node.rank(0));
  // Aligned at `axis` by dimensions of 1 behind.
  shape.insert(shape.end(), static_cast<size_t>(after), 1);
  return reshape(b, shape);
}

Values binary_op(const Node& node) {
  Value b = placed(node, node.in(1));
  for (const Name& name : kBinary)
    if (node.op() == name.onnx) return {emit(name.relay, {node.in(0), b})};
  CHECK(false, "{} is in the wrong table", node.op());
  return {};
}

Values divide(const Node& node) { return {emit("divide", {node.in(0), placed(node, node.in(1))})}; }

/// In the base's type; of integers exactly, in the wider of both types, whose lowest bits are the base's.
Values power(const Node& node) {
  const Value &base = node.in(0), exponent = placed(node, node.in(1));
  const DataType dtype = node.dtype(0), of_exponent = node.dtype(1);
  if (dtype.is_float()) return {emit("power", {base, cast_to(exponent, dtype)})};
  const DataType wide = of_exponent.is_float()          ? kFloat64
                        : of_exponent.bits > dtype.bits ? of_exponent
                                                        : dtype;
  return {cast_to(emit("power", {cast_to(base, wide), cast_to(exponent, wide)}), dtype)};
}

Values modulo(const Node& node) {
  return {emit(node.integer("fmod", 0) ? "mod" : "floor_mod", {node.in(0), node.in(1)})};
}

/// Min, Max, Sum, Mean of any number of tensors.
Values variadic(const Node& node) {
  const char* op = node.op() == "Min" ? "minimum" : node.op() == "Max" ? "maximum" : "add";
  Value result = node.in(0);
  for (size_t i = 1; i < node.inputs(); ++i) result = emit(op, {result, node.in(i)});
  if (node.op() == "Mean")
    result = emit("divide", {result, scalar(node.dtype(0), static_cast<double>(node.inputs()))});
  return {result};
}

double largest_finite(DataType dtype) {
  if (dtype == kFloat64) return std::numeric_limits<double>::max();
  return dtype == kFloat16 ? 65504 : dtype == kBFloat16 ? 0x1.fep127 : std::numeric_limits<float>::max();
}

/// Without a bound it is the type's: an infinity becomes the largest finite number, as in ONNX Runtime. (The
/// function that the standard gives besides leaves it, which its text does not.)
Values clip(const Node& node) {
  const DataType dtype = node.dtype(0);
  const auto bound = [&](size_t i, const char* name, double otherwise) {
    if (node.opset() < 11) return scalar(dtype, node.has_attr(name) ? node.real(name, 0) : otherwise);
    if (node.has(i)) return node.in(i);
    // What holds all integers of the type.
    return dtype.is_float() ? scalar(dtype, otherwise) : Value();
  };
  const double most = largest_finite(dtype);
  const Value low = bound(1, "min", -most), high = bound(2, "max", most);
  const auto number_in = [](const Value& value) {
    const Tensor* tensor = value ? known(value) : nullptr;
    return tensor && tensor->size() == 1 ? std::optional(tensor->value(0)) : std::nullopt;
  };
  // Known numbers become attributes of one clip, which quantized graphs are looked through for; other bounds
  // are operands.
  if (const auto a = number_in(low), b = number_in(high); a && b && dtype == kFloat32)
    return {emit("clip", {node.in(0)}, make<relay::ClipAttrs>(*a, *b))};
  const Value result = low ? emit("maximum", {node.in(0), low}) : node.in(0);
  return {high ? emit("minimum", {result, high}) : result};
}

/// The standard leaves open what becomes of a real number that an integer does not hold. NumPy and ONNX
/// Runtime take the last bits of the 32 or 64 that processors convert to, so that -1 as uint8 is 255.
Value converted(const Value& value, DataType dtype) {
  if (!type_of(value).dtype.is_float() || !dtype.is_int()) return cast_to(value, dtype);
  if (dtype.bits < 32) return cast_to(cast_to(value, kInt32), dtype);
  if (dtype.code != TypeCode::kUInt) return cast_to(value, dtype);
  const Value wrapped = cast_to(cast_to(value, kInt64), dtype);
  if (dtype.bits == 32) return wrapped;
  return choose(less(value, number(value, 0)), wrapped, cast_to(value, dtype));
}

Values cast(const Node& node) {
  return {converted(node.in(0), dtype_from(static_cast<int32_t>(node.integer("to", 0))))};
}
Values cast_like(const Node& node) { return {converted(node.in(0), node.dtype(1))}; }
Values identity(const Node& node) { return {node.in(0)}; }

Values dropout(const Node& node) {
  // Input 1 is the ratio, input 2 says whether the model is in training.
  bool keeps_all = node.has(1) && known(node.in(1)) && node.real_in(1) == 0;
  if (!keeps_all && node.has(2) && (!known(node.in(2)) || node.int_in(2) != 0))
    node.reject("training mode with a ratio other than 0 is not supported");
  if (node.outputs() < 2) return {node.in(0)};
  return {node.in(0), repeated_to(scalar(kBool, 1), node.dims(0))};
}

Values where(const Node& node) { return {emit("where", {node.in(0), node.in(1), node.in(2)})}; }
Values reciprocal(const Node& node) { return {emit("divide", {scalar(node.dtype(0), 1), node.in(0)})}; }

Values is_inf(const Node& node) {
  Value infinite = emit("isinf", {node.in(0)});
  Value zero = scalar(node.dtype(0), 0);
  if (!node.integer("detect_negative", 1))
    infinite = emit("logical_and", {infinite, emit("greater", {node.in(0), zero})});
  if (!node.integer("detect_positive", 1))
    infinite = emit("logical_and", {infinite, emit("less", {node.in(0), zero})});
  return {infinite};
}

Values bit_shift(const Node& node) {
  return {
      emit(node.text("direction", "") == "LEFT" ? "left_shift" : "right_shift", {node.in(0), node.in(1)})};
}

// Activations.
Value number(const Node& node, double value) { return scalar(node.dtype(0), value); }

Values leaky_relu(const Node& node) {
  return {emit("nn.leaky_relu", {node.in(0)}, make<relay::LeakyReluAttrs>(node.real("alpha", 0.01)))};
}
Values prelu(const Node& node) {
  Value zero = number(node, 0), x = node.in(0), slope = node.in(1);
  // Before opset 7 a vector of slopes is one a channel.
  if (node.opset() < 7 && node.rank(1) == 1 && node.rank(0) > 2) {
    std::vector<int64_t> shape = shape_of(slope);
    shape.resize(static_cast<size_t>(node.rank(0)) - 1, 1);
    slope = reshape(slope, shape);
  }
  return {choose(emit("less", {x, zero}), times(x, slope), x)};
}
Values thresholded_relu(const Node& node) {
  Value x = node.in(0);
  return {choose(emit("greater", {x, number(node, node.real("alpha", 1))}), x, number(node, 0))};
}
Value exp_minus_one(const Node& node, const Value& x) {
  return emit("subtract", {emit("exp", {x}), number(node, 1)});
}
Values elu(const Node& node) { return {elu_of(node.in(0), node.real("alpha", 1))}; }
Values selu(const Node& node) {
  Value x = node.in(0), zero = number(node, 0);
  // The defaults of the standard, which are float32 numbers.
  double alpha = node.real("alpha", 1.67326319217681884765625),
         gamma = node.real("gamma", 1.05070102214813232421875);
  Value below = times(number(node, alpha), exp_minus_one(node, emit("minimum", {x, zero})));
  return {times(number(node, gamma), choose(emit("less", {x, zero}), below, x))};
}
Values celu(const Node& node) {
  Value x = node.in(0), zero = number(node, 0);
  double alpha = node.real("alpha", 1);
  Value below = times(number(node, alpha),
                      exp_minus_one(node, emit("minimum", {times(x, number(node, 1 / alpha)), zero})));
  return {choose(emit("less", {x, zero}), below, x)};
}
Values hard_sigmoid(const Node& node) {
  return {hard_sigmoid_of(node.in(0), node.real("alpha", 0.2), node.real("beta", 0.5))};
}
Values hard_swish(const Node& node) { return {times(node.in(0), hard_sigmoid_of(node.in(0), 1.0 / 6, 0.5))}; }
Values swish(const Node& node) {
  Value x = node.in(0);
  return {times(x, emit("sigmoid", {times(x, number(node, node.real("alpha", 1)))}))};
}
Values gelu(const Node& node) {
  const Value& x = node.in(0);
  if (node.text("approximate", "none") == "tanh") return {tanh_gelu_of(x)};
  const Value share = emit("erf", {times(x, number(node, std::sqrt(0.5)))});
  return {times(times(x, number(node, 0.5)), plus(share, number(node, 1)))};
}
Values softplus(const Node& node) { return {softplus_of(node.in(0))}; }
Values softsign(const Node& node) { return {softsign_of(node.in(0))}; }
Values mish(const Node& node) { return {times(node.in(0), emit("tanh", {softplus_of(node.in(0))}))}; }
/// Of integers in float64: the bias may be a fraction.
Values shrink(const Node& node) {
  const double lambda = node.real("lambd", 0.5), bias = node.real("bias", 0);
  const DataType dtype = node.dtype(0);
  const Value x = cast_to(node.in(0), dtype.is_float() ? dtype : kFloat64);
  auto of = [&](double value) { return lathe::onnx::number(x, value); };
  const Value low = choose(less(x, of(-lambda)), plus(x, of(bias)), of(0));
  return {cast_to(choose(emit("greater", {x, of(lambda)}), minus(x, of(bias)), low), dtype)};
}

constexpr Converter kConverters[] = {
    {"Abs", unary_op},
    {"Acos", unary_op},
    {"Acosh", unary_op},
    {"Asin", unary_op},
    {"Asinh", unary_op},
    {"Atan", unary_op},
    {"Atanh", unary_op},
    {"Ceil", unary_op},
    {"Cos", unary_op},
    {"Cosh", unary_op},
    {"Erf", unary_op},
    {"Exp", unary_op},
    {"Floor", unary_op},
    {"Log", unary_op},
    {"Neg", unary_op},
    {"Not", unary_op},
    {"Relu", unary_op},
    {"Round", unary_op},
    {"Sigmoid", unary_op},
    {"Sign", unary_op},
    {"Sin", unary_op},
    {"Sinh", unary_op},
    {"Sqrt", unary_op},
    {"Tan", unary_op},
    {"Tanh", unary_op},
    {"IsNaN", unary_op},
    {"BitwiseNot", unary_op},
    {"Add", binary_op},
    {"Sub", binary_op},
    {"Mul", binary_op},
    {"Equal", binary_op},
    {"Greater", binary_op},
    {"GreaterOrEqual", binary_op},
    {"Less", binary_op},
    {"LessOrEqual", binary_op},
    {"And", binary_op},
    {"Or", binary_op},
    {"Xor", binary_op},
    {"BitwiseAnd", binary_op},
    {"BitwiseOr", binary_op},
    {"BitwiseXor", binary_op},
    {"Div", divide},
    {"Pow", power},
    {"Mod", modulo},
    {"Min", variadic},
    {"Max", variadic},
    {"Sum", variadic},
    {"Mean", variadic},
    {"Clip", clip},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"Identity", identity},
    {"Dropout", dropout},
    {"Where", where},
    {"Reciprocal", reciprocal},
    {"IsInf", is_inf},
    {"BitShift", bit_shift},
    {"LeakyRelu", leaky_relu},
    {"PRelu", prelu},
    {"ThresholdedRelu", thresholded_relu},
    {"Elu", elu, Arithmetic::kWide},
    {"Selu", selu, Arithmetic::kWide},
    {"Celu", celu, Arithmetic::kWide},
    {"HardSigmoid", hard_sigmoid, Arithmetic::kWide},
    {"HardSwish", hard_swish, Arithmetic::kWide},
    {"Swish", swish, Arithmetic::kWide},
    {"Gelu", gelu, Arithmetic::kWide},
    {"Softplus", softplus, Arithmetic::kWide},
    {"Softsign", softsign, Arithmetic::kWide},
    {"Mish", mish, Arithmetic::kWide},
    {"Shrink", shrink, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> math_converters() { return kConverters; }

}  // namespace lathe::onnx
