// Float expressions of the interpreter, addresses and slots.
#include <cmath>

#include "core/support/error.h"
#include "core/tir/interpret_nodes.h"

namespace lathe::tir {
namespace {
/// Apart, so that the check itself stays small.
[[noreturn, gnu::cold]] void out_of_bounds(const Memory& memory, size_t dimension, int64_t index) {
  fail("interpret: index {} of dimension {} of {} is outside 0..{}", index, dimension, memory.buffer->name,
       memory.shape[dimension]);
}

/// Of C's fmod, which is exact, with the sign of y; their sum is what rounds (Python's rule).
double floor_mod(double x, double y) {
  const double rest = std::fmod(x, y);
  if (rest == 0) return std::copysign(rest, y);
  return (rest < 0) != (y < 0) ? rest + y : rest;
}

struct FloatConstant final : FloatCode {
  explicit FloatConstant(double v) : value(v) {}
  double run(State&, int) const override { return value; }
  double value;
};
/// One class an operation: the operation is known when the interpreter is compiled, not asked for each
/// element.
template <BinaryOp op>
struct FloatBinary final : FloatCode {
  FloatBinary(FloatPtr x, FloatPtr y, DataType t) : a(std::move(x)), b(std::move(y)), type(t) {}
  double run(State& state, int lane) const override {
    double x = a->run(state, lane), y = b->run(state, lane);
    using enum BinaryOp;
    // Rounding the float64 result is exact for these operations on narrower floats (Figueroa 1995).
    if constexpr (op == kAdd) return round_to(type, x + y);
    if constexpr (op == kSub) return round_to(type, x - y);
    if constexpr (op == kMul) return round_to(type, x * y);
    if constexpr (op == kDiv) return round_to(type, x / y);
    // Exact in float64, so rounded once.
    if constexpr (op == kMod) return round_to(type, std::fmod(x, y));
    if constexpr (op == kFloorDiv) return round_to(type, std::floor(x / y));
    if constexpr (op == kFloorMod) return round_to(type, floor_mod(x, y));
    // A NaN in the first operand stays (BinaryOp).
    // Written so that a comparison with NaN, which is false, gives x.
    if constexpr (op == kMin) return y < x ? y : x;
    if constexpr (op == kMax) return y > x ? y : x;
    if constexpr (op == kPow) return round_to(type, std::pow(x, y));
  }
  FloatPtr a, b;
  DataType type;
};

using FloatFunction = double (*)(double);
/// In float64, of which the result is rounded to the type.
FloatFunction function_of(Intrinsic f) {
  switch (f) {
    case Intrinsic::kExp:
      return std::exp;
    case Intrinsic::kLog:
      return std::log;
    case Intrinsic::kSqrt:
      return std::sqrt;
    case Intrinsic::kRsqrt:
      return [](double x) { return 1 / std::sqrt(x); };
    case Intrinsic::kTanh:
      return std::tanh;
    case Intrinsic::kSigmoid:
      return [](double x) { return 1 / (1 + std::exp(-x)); };
    case Intrinsic::kErf:
      return std::erf;
    case Intrinsic::kSin:
      return std::sin;
    case Intrinsic::kCos:
      return std::cos;
    case Intrinsic::kTan:
      return std::tan;
    case Intrinsic::kAsin:
      return std::asin;
    case Intrinsic::kAcos:
      return std::acos;
    case Intrinsic::kAtan:
      return std::atan;
    case Intrinsic::kSinh:
      return std::sinh;
    case Intrinsic::kCosh:
      return std::cosh;
    case Intrinsic::kAsinh:
      return std::asinh;
    case Intrinsic::kAcosh:
      return std::acosh;
    case Intrinsic::kAtanh:
      return std::atanh;
    case Intrinsic::kFloor:
      return std::floor;
    case Intrinsic::kCeil:
      return std::ceil;
    case Intrinsic::kRound:
      // To nearest even: nobody changes the rounding mode.
      return std::nearbyint;
    case Intrinsic::kTrunc:
      return std::trunc;
    case Intrinsic::kAbs:
      return std::fabs;
    case Intrinsic::kSign:
      // 0, -0 and NaN are their own signs.
      return [](double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; };
    default:
      fail("interpret: {} is not a function of floats", spelling(f));
  }
}

FloatPtr float_binary(BinaryOp op, FloatPtr a, FloatPtr b, DataType type) {
  switch (op) {
#define CASE(o)     \
  case BinaryOp::o: \
    return std::make_unique<FloatBinary<BinaryOp::o>>(std::move(a), std::move(b), type);
    CASE(kAdd)
    CASE(kSub)
    CASE(kMul)
    CASE(kDiv)
    CASE(kMod)
    CASE(kFloorDiv)
    CASE(kFloorMod)
    CASE(kMin)
    CASE(kMax)
    CASE(kPow)
#undef CASE
    default:
      fail("interpret: {} is not an operation of floats", spelling(op));
  }
}

}  // namespace

void fail_read_before_write(const Memory& memory, int64_t offset) {
  // From the innermost dimension outward: the remainders of a row-major offset are its indices.
  std::string place;
  for (size_t d = memory.shape.size(); d-- > 0;) {
    place = fmt::format("{}{}{}", offset % memory.shape[d], place.empty() ? "" : ", ", place);
    offset /= memory.shape[d];
  }
  fail("interpret: {}[{}] is read before it is written", memory.buffer->name, place);
}

/// By way of float32 for 16 bits.
double round_to(DataType type, double value) {
  if (type.bits == 64) return value;
  // Rounded twice for 16 bits, as generated code does, which computes in float32.
  auto narrow = static_cast<float>(value);
  if (type.bits == 32) return narrow;
  return type.code == TypeCode::kBFloat ? bfloat_to_float(float_to_bfloat(narrow))
                                        : half_to_float(float_to_half(narrow));
}

/// Row-major, each index checked on its own: one too large may still be inside the buffer as a whole.
int64_t Address::offset(State& state, int lane) const {
  const Memory& memory = state.buffers[buffer_];
  int64_t offset = 0;
  for (size_t d = 0; d < indices_.size(); ++d) {
    int64_t index = indices_[d]->run(state, lane);
    // As unsigned numbers, negative indices are large ones.
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(memory.shape[d]))
      out_of_bounds(memory, d, index);
    offset = offset * memory.shape[d] + index;
  }
  return offset;
}

int ExprCompiler::slot_of(const VarNode* v) { return vars_.emplace(v, vars_.size()).first->second; }
int ExprCompiler::slot_of(const BufferNode* b) { return buffers_.emplace(b, buffers_.size()).first->second; }

Address ExprCompiler::compile_address(const Buffer& buffer, const std::vector<Expr>& indices) {
  std::vector<IntPtr> compiled;
  for (const Expr& index : indices) compiled.push_back(compile_int(index));
  return Address(slot_of(buffer.get()), std::move(compiled));
}

FloatPtr ExprCompiler::compile_float(const Expr& e) {
  DataType type = e.dtype().element();
  switch (e->kind()) {
    case ExprKind::kFloat:
      return std::make_unique<FloatConstant>(round_to(type, e.as<FloatImm>()->value));
    case ExprKind::kBinary: {
      const Binary& b = *e.as<Binary>();
      return float_binary(b.op, compile_float(b.a), compile_float(b.b), type);
    }
    case ExprKind::kSelect: {
      const Select& s = *e.as<Select>();
      return std::make_unique<SelectCode<FloatCode, double>>(
          compile_int(s.condition), compile_float(s.if_true), compile_float(s.if_false));
    }
    case ExprKind::kCast: {
      const Expr& value = e.as<Cast>()->value;
      if (value.dtype().is_float())
        return mapped<FloatToFloat>(compile_float(value), [type](double x) { return round_to(type, x); });
      // Integers are int64 here, and only those of 64 unsigned bits may look negative.
      bool is_unsigned = is_unsigned_64(value.dtype().element());
      return mapped<IntToFloat>(compile_int(value), [type, is_unsigned](int64_t x) -> double {
        const auto all = static_cast<uint64_t>(x);
        // At once: by way of float64 it would be rounded twice.
        if (type.bits == 32) return is_unsigned ? static_cast<float>(all) : static_cast<float>(x);
        return round_to(type, is_unsigned ? static_cast<double>(all) : static_cast<double>(x));
      });
    }
    case ExprKind::kIntrinsic: {
      FloatFunction function = function_of(e.as<IntrinsicCall>()->intrinsic);
      return mapped<FloatToFloat>(compile_float(e.as<IntrinsicCall>()->a),
                                  [type, function](double x) { return round_to(type, function(x)); });
    }
    case ExprKind::kBroadcast:
      return std::make_unique<BroadcastCode<FloatCode, double>>(compile_float(e.as<Broadcast>()->value));
    case ExprKind::kLoad: {
      Address address = compile_address(e.as<Load>()->buffer, e.as<Load>()->indices);
      if (type.bits == 64) return std::make_unique<LoadFloat<double>>(std::move(address), type);
      if (type.bits == 32) return std::make_unique<LoadFloat<float>>(std::move(address), type);
      return std::make_unique<LoadFloat<uint16_t>>(std::move(address), type);
    }
    default:
      fail("interpret: {} is not a float", e->type().name);
  }
}

}  // namespace lathe::tir
