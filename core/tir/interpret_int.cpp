// Integer and boolean expressions of the interpreter.
#include <bit>
#include <cmath>

#include "core/support/error.h"
#include "core/support/saturating_int.h"
#include "core/tir/interpret_nodes.h"

namespace lathe::tir {
namespace {
struct IntConstant final : IntCode {
  explicit IntConstant(int64_t v) : value(v) {}
  int64_t run(State&, int) const override { return value; }
  int64_t value;
};
struct VarCode final : IntCode {
  explicit VarCode(int s) : slot(s) {}
  int64_t run(State& state, int) const override { return state.vars[slot]; }
  int slot;
};

/// Quotient or remainder of all four divisions (BinaryOp). By 0 and by -1 apart: those and INT64_MIN / -1 are
/// traps of the processor.
int64_t divide(BinaryOp op, int64_t a, int64_t b, bool is_unsigned) {
  // Defined so by BinaryOp; generated code guards it the same way.
  if (b == 0) return 0;
  bool quotient = op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv;
  if (is_unsigned) {
    auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(quotient ? x / y : x % y);
  }
  if (b == -1) return quotient ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : 0;
  int64_t q = a / b, r = a % b;
  bool adjust = (op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod) && r != 0 && (r < 0) != (b < 0);
  return quotient ? q - adjust : r + (adjust ? b : 0);
}

/// By repeated squaring, wrapping; to a negative power 1 over that, truncated (of 0 too).
int64_t power(int64_t base, int64_t exponent, bool is_unsigned) {
  // 1 / base^n is 0 but for 1 and -1.
  if (exponent < 0 && !is_unsigned) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, square = static_cast<uint64_t>(base);
  for (auto bits = static_cast<uint64_t>(exponent); bits > 0; bits >>= 1, square *= square)
    if (bits & 1) result *= square;
  return static_cast<int64_t>(result);
}

template <BinaryOp op>
struct IntBinary final : IntCode {
  IntBinary(IntPtr x, IntPtr y, DataType t)
      : a(std::move(x)), b(std::move(y)), type(t), is_unsigned(is_unsigned_64(t)) {}
  int64_t run(State& state, int lane) const override {
    int64_t x = a->run(state, lane), y = b->run(state, lane);
    // Sums and products of unsigned numbers have the same bits, and may wrap.
    auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
    using enum BinaryOp;
    // In unsigned arithmetic, where overflow wraps and is no undefined behaviour; then cut to the type.
    if constexpr (op == kAdd) return wrap_to(type, static_cast<int64_t>(ux + uy));
    if constexpr (op == kSub) return wrap_to(type, static_cast<int64_t>(ux - uy));
    if constexpr (op == kMul) return wrap_to(type, static_cast<int64_t>(ux * uy));
    if constexpr (op == kDiv || op == kMod || op == kFloorDiv || op == kFloorMod)
      return wrap_to(type, divide(op, x, y, is_unsigned));
    if constexpr (op == kMin) return less(y, x) ? y : x;
    if constexpr (op == kMax) return less(x, y) ? y : x;
    if constexpr (op == kPow) return wrap_to(type, power(x, y, is_unsigned));
    if constexpr (op == kEq) return x == y;
    if constexpr (op == kNe) return x != y;
    if constexpr (op == kLt) return less(x, y);
    if constexpr (op == kLe) return !less(y, x);
    if constexpr (op == kBitAnd) return x & y;
    if constexpr (op == kBitOr) return x | y;
    if constexpr (op == kBitXor) return x ^ y;
    // Shifts by the width or more push out all bits; of signed numbers the sign bit comes in.
    if constexpr (op == kShiftLeft)
      // C++ leaves such shifts undefined, and processors differ.
      return uy >= type.bits ? 0 : wrap_to(type, static_cast<int64_t>(ux << uy));
    if constexpr (op == kShiftRight) {
      if (type.code == TypeCode::kUInt) return uy >= type.bits ? 0 : static_cast<int64_t>(ux >> uy);
      return x >> std::min<uint64_t>(uy, 63);
    }
  }
  /// Narrower unsigned numbers are not negative as int64; those of 64 bits may look it.
  bool less(int64_t x, int64_t y) const {
    return is_unsigned ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  }
  IntPtr a, b;
  DataType type;
  bool is_unsigned;
};

/// Leaves out the second operand where the first one decides.
struct Logic final : IntCode {
  Logic(IntPtr x, IntPtr y, bool stop) : a(std::move(x)), b(std::move(y)), stops_at(stop) {}
  int64_t run(State& state, int lane) const override {
    int64_t x = a->run(state, lane);
    return (x != 0) == stops_at ? x : b->run(state, lane);
  }
  IntPtr a, b;
  bool stops_at;
};

struct NotCode final : IntCode {
  explicit NotCode(IntPtr x) : a(std::move(x)) {}
  int64_t run(State& state, int lane) const override { return !a->run(state, lane); }
  IntPtr a;
};

struct FloatCompare final : IntCode {
  FloatCompare(BinaryOp o, FloatPtr x, FloatPtr y) : op(o), a(std::move(x)), b(std::move(y)) {}
  int64_t run(State& state, int lane) const override {
    double x = a->run(state, lane), y = b->run(state, lane);
    switch (op) {
      case BinaryOp::kEq:
        return x == y;
      case BinaryOp::kNe:
        return x != y;
      case BinaryOp::kLt:
        return x < y;
      default:
        return x <= y;
    }
  }
  BinaryOp op;
  FloatPtr a, b;
};

struct RampCode final : IntCode {
  RampCode(IntPtr b, IntPtr s) : base(std::move(b)), stride(std::move(s)) {}
  int64_t run(State& state, int lane) const override {
    // Both are scalars, which have no other lane.
    return base->run(state, 0) + lane * stride->run(state, 0);
  }
  IntPtr base, stride;
};

/// The functions that take and give integers.
IntPtr int_intrinsic(const IntrinsicCall& e, IntPtr a) {
  DataType type = e.dtype.element();
  switch (e.intrinsic) {
    case Intrinsic::kAbs:
      return mapped<IntToInt>(std::move(a), [type](int64_t x) {
        return type.code == TypeCode::kUInt || x >= 0
                   ? x
                   : wrap_to(type, static_cast<int64_t>(0 - static_cast<uint64_t>(x)));
      });
    case Intrinsic::kSign:
      return mapped<IntToInt>(std::move(a), [type](int64_t x) -> int64_t {
        return type.code == TypeCode::kUInt ? x != 0 : (x > 0) - (x < 0);
      });
    case Intrinsic::kBitNot:
      return mapped<IntToInt>(std::move(a), [type](int64_t x) { return wrap_to(type, ~x); });
    case Intrinsic::kPopcount:
      return mapped<IntToInt>(std::move(a), [type](int64_t x) -> int64_t {
        uint64_t mask = type.bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << type.bits) - 1;
        return std::popcount(static_cast<uint64_t>(x) & mask);
      });
    default:
      fail("interpret: {} is not a function of integers", spelling(e.intrinsic));
  }
}

IntPtr int_binary(BinaryOp op, IntPtr a, IntPtr b, DataType type) {
  switch (op) {
#define CASE(o)     \
  case BinaryOp::o: \
    return std::make_unique<IntBinary<BinaryOp::o>>(std::move(a), std::move(b), type);
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
    CASE(kEq)
    CASE(kNe)
    CASE(kLt)
    CASE(kLe)
    CASE(kBitAnd)
    CASE(kBitOr)
    CASE(kBitXor)
    CASE(kShiftLeft)
    CASE(kShiftRight)
#undef CASE
    case BinaryOp::kAnd:
      return std::make_unique<Logic>(std::move(a), std::move(b), false);
    case BinaryOp::kOr:
      return std::make_unique<Logic>(std::move(a), std::move(b), true);
  }
  return nullptr;
}

/// By the width in memory; bools are bytes.
IntPtr int_load(DataType type, Address address) {
  bool is_unsigned = type.code == TypeCode::kUInt || type.is_bool();
  switch (type.bytes()) {
    case 1:
      if (is_unsigned) return std::make_unique<LoadInt<uint8_t>>(std::move(address));
      return std::make_unique<LoadInt<int8_t>>(std::move(address));
    case 2:
      if (is_unsigned) return std::make_unique<LoadInt<uint16_t>>(std::move(address));
      return std::make_unique<LoadInt<int16_t>>(std::move(address));
    case 4:
      if (is_unsigned) return std::make_unique<LoadInt<uint32_t>>(std::move(address));
      return std::make_unique<LoadInt<int32_t>>(std::move(address));
    default:
      return std::make_unique<LoadInt<int64_t>>(std::move(address));
  }
}
}  // namespace

/// Shifted up and down again: the second shift copies the sign bit or zeros.
int64_t wrap_to(DataType type, int64_t value) {
  if (type.bits >= 64) return value;
  if (type.is_bool()) return value != 0;
  int shift = 64 - type.bits;
  auto shifted = static_cast<uint64_t>(value) << shift;
  return type.code == TypeCode::kUInt ? static_cast<int64_t>(shifted >> shift)
                                      : static_cast<int64_t>(shifted) >> shift;
}

/// Any operation that gives an integer or a bool; by the type of its operands, since a comparison of floats
/// gives a bool too.
IntPtr ExprCompiler::compile_compare(const Binary& e) {
  DataType type = e.a.dtype().element();
  if (type.is_float()) return std::make_unique<FloatCompare>(e.op, compile_float(e.a), compile_float(e.b));
  return int_binary(e.op, compile_int(e.a), compile_int(e.b), type);
}

IntPtr ExprCompiler::compile_int(const Expr& e) {
  DataType type = e.dtype().element();
  switch (e->kind()) {
    case ExprKind::kVar:
      return std::make_unique<VarCode>(slot_of(e.as<VarNode>()));
    case ExprKind::kInt:
      return std::make_unique<IntConstant>(wrap_to(type, *as_int(e)));
    case ExprKind::kBinary:
      return compile_compare(*e.as<Binary>());
    case ExprKind::kNot:
      return std::make_unique<NotCode>(compile_int(e.as<Not>()->a));
    case ExprKind::kSelect: {
      const Select& s = *e.as<Select>();
      return std::make_unique<SelectCode<IntCode, int64_t>>(compile_int(s.condition), compile_int(s.if_true),
                                                            compile_int(s.if_false));
    }
    case ExprKind::kCast: {
      const Expr& value = e.as<Cast>()->value;
      if (!value.dtype().is_float())
        return mapped<IntToInt>(compile_int(value), [type](int64_t x) { return wrap_to(type, x); });
      // Anything but 0 is true, NaN too.
      if (type.is_bool())
        return mapped<FloatToInt>(compile_float(value), [](double x) -> int64_t { return x != 0; });
      return mapped<FloatToInt>(compile_float(value), [type](double x) { return saturating_int(type, x); });
    }
    case ExprKind::kIntrinsic: {
      const IntrinsicCall& call = *e.as<IntrinsicCall>();
      if (call.intrinsic == Intrinsic::kIsNan)
        return mapped<FloatToInt>(compile_float(call.a), [](double x) -> int64_t { return std::isnan(x); });
      if (call.intrinsic == Intrinsic::kIsInf)
        return mapped<FloatToInt>(compile_float(call.a), [](double x) -> int64_t { return std::isinf(x); });
      return int_intrinsic(call, compile_int(call.a));
    }
    case ExprKind::kRamp:
      return std::make_unique<RampCode>(compile_int(e.as<Ramp>()->base), compile_int(e.as<Ramp>()->stride));
    case ExprKind::kBroadcast:
      return std::make_unique<BroadcastCode<IntCode, int64_t>>(compile_int(e.as<Broadcast>()->value));
    case ExprKind::kLoad:
      return int_load(type, compile_address(e.as<Load>()->buffer, e.as<Load>()->indices));
    default:
      fail("interpret: {} is not an integer", e->type().name);
  }
}

}  // namespace lathe::tir
