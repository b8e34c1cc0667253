// Scalar and vector expressions.
#include <llvm/IR/Intrinsics.h>

#include <cmath>
#include <optional>

#include "core/codegen/llvm/double_math.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/integer_math.h"
#include "core/codegen/llvm/vector_math.h"
#include "core/support/error.h"

namespace lathe::codegen {

/// Emits `e` anew each time it is asked for: equal computations become one by LLVM's common subexpression
/// elimination.
llvm::Value* Emitter::value(const Expr& e) {
  switch (e->kind()) {
    case ExprKind::kVar: {
      auto found = vars_.find(e.as<VarNode>());
      CHECK(found != vars_.end(), "variable {} is used outside its loop", e.as<VarNode>()->name);
      return found->second;
    }
    case ExprKind::kInt:
      return llvm::ConstantInt::get(value_type(e.dtype()), *as_int(e), true);
    case ExprKind::kFloat:
      return rounded(llvm::ConstantFP::get(value_type(e.dtype()), e.as<FloatImm>()->value), e.dtype());
    case ExprKind::kBinary:
      return binary(*e.as<Binary>());
    case ExprKind::kNot:
      return b_.CreateNot(value(e.as<Not>()->a));
    case ExprKind::kSelect:
      return known_or(e, [&] { return select(*e.as<Select>()); });
    case ExprKind::kCast:
      return cast(*e.as<Cast>());
    case ExprKind::kIntrinsic:
      return intrinsic(*e.as<IntrinsicCall>());
    case ExprKind::kBroadcast:
      return b_.CreateVectorSplat(e.dtype().lanes, value(e.as<Broadcast>()->value));
    case ExprKind::kRamp: {
      const Ramp& r = *e.as<Ramp>();
      int lanes = r.dtype.lanes;
      // 0, 1, 2, ...
      llvm::Value* steps = b_.CreateStepVector(value_type(r.dtype));
      llvm::Value* offsets = b_.CreateMul(steps, b_.CreateVectorSplat(lanes, value(r.stride)));
      return b_.CreateAdd(b_.CreateVectorSplat(lanes, value(r.base)), offsets);
    }
    case ExprKind::kLoad:
      return known_or(e, [&] { return load(*e.as<tir::Load>()); });
    case ExprKind::kAny:
      break;
  }
  fail("code generation: a dimension of {} is unknown; shapes must be constant", state_.func->name);
}

llvm::Value* Emitter::binary(const Binary& e) {
  // Before the operands are emitted, which would be for nothing.
  if (llvm::Value* dot = dot_product(e)) return dot;
  if (llvm::Value* digits = ramp_division(e)) return digits;
  llvm::Value *a = value(e.a), *b = value(e.b);
  // Both sides are computed: neither has effects, and a branch would cost more.
  if (e.op == BinaryOp::kAnd) return b_.CreateAnd(a, b);
  if (e.op == BinaryOp::kOr) return b_.CreateOr(a, b);
  if (e.a.dtype().is_float()) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    // Where the machine has arithmetic of 16 bits LLVM narrows what is rounded, and would then skip the
    // rounding between a product and a sum.
    if (e.a.dtype().bits == 16) b_.clearFastMathFlags();
    const bool arithmetic =
        e.op == BinaryOp::kAdd || e.op == BinaryOp::kSub || e.op == BinaryOp::kMul || e.op == BinaryOp::kDiv;
    if (!arithmetic) a = kept_wide(a), b = kept_wide(b);
    return rounded(float_binary(e, a, b), e.dtype);
  }
  return int_binary(e, a, b);
}

namespace {
/// The number that `e`, or each lane of it, is.
std::optional<double> constant_of(const Expr& e) {
  const Broadcast* lanes = e.as<Broadcast>();
  const FloatImm* number = (lanes ? lanes->value : e).as<FloatImm>();
  return number ? std::optional(number->value) : std::nullopt;
}
}  // namespace

/// x to a small whole power or a root, by multiplications: a call for each lane takes twenty times as long.
/// Null for other exponents. Infinities, zeros and NaNs as in libm; each multiplication rounds.
llvm::Value* Emitter::constant_power(llvm::Value* x, const Expr& exponent) {
  constexpr double kLargest = 16;
  std::optional<double> given = constant_of(exponent);
  if (!given || *given == 0 || std::abs(*given) > kLargest) return nullptr;
  llvm::Value* one = llvm::ConstantFP::get(x->getType(), 1);
  double power = std::abs(*given);
  llvm::Value* result = nullptr;
  if (power == 0.5) {
    llvm::Value* root = b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt,
                                                b_.CreateFAdd(x, llvm::ConstantFP::get(x->getType(), 0)));
    // pow(-0, 0.5) is 0, not -0 (hence the addition), and pow(-infinity, 0.5) is infinity, of which the root
    // is NaN.
    llvm::Value* infinity = llvm::ConstantFP::getInfinity(x->getType());
    result = b_.CreateSelect(b_.CreateFCmpOEQ(x, b_.CreateFNeg(infinity)), infinity, root);
  } else if (power == std::floor(power)) {
    // By repeated squaring: `square` is x^1, x^2, x^4, ...
    llvm::Value* square = x;
    for (auto bits = static_cast<unsigned>(power); bits; bits >>= 1) {
      if (bits & 1) result = result ? b_.CreateFMul(result, square) : square;
      if (bits > 1) square = b_.CreateFMul(square, square);
    }
  } else {
    return nullptr;
  }
  return *given < 0 ? b_.CreateFDiv(one, result) : result;
}

/// Vectors by a constant need no division; LLVM itself knows this of powers of two.
llvm::Value* Emitter::float_quotient(llvm::Value* a, llvm::Value* b) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const auto* all = llvm::dyn_cast<llvm::Constant>(b);
  const auto* c = vector && all ? llvm::dyn_cast_or_null<llvm::ConstantFP>(all->getSplatValue()) : nullptr;
  if (state_.features.avx512_lanes == 0 || !c || !c->getType()->isFloatTy()) return b_.CreateFDiv(a, b);
  const float divisor = c->getValueAPF().convertToFloat(), magnitude = std::abs(divisor);
  const bool has_inverse = c->getValueAPF().getExactInverse(nullptr);
  if (has_inverse || !(magnitude > 1 && magnitude < 0x1p100f)) return b_.CreateFDiv(a, b);
  return vector_quotient(b_, a, divisor);
}

/// Values of 16-bit floats are float32; `binary` rounds the result.
llvm::Value* Emitter::float_binary(const Binary& e, llvm::Value* a, llvm::Value* b) {
  bool is_double = e.a.dtype().bits == 64;
  // What of float64 takes fused multiply-adds, and is worth it for vectors.
  const bool fuses = state_.features.fma && a->getType()->isVectorTy();
  auto remainder = [&] {
    if (!is_double) return float_remainder(a, b);
    return fuses ? double_remainder(b_, a, b) : per_lane_call("fmod", {a, b});
  };
  switch (e.op) {
    case BinaryOp::kAdd:
      return b_.CreateFAdd(a, b);
    case BinaryOp::kSub:
      return b_.CreateFSub(a, b);
    case BinaryOp::kMul:
      return b_.CreateFMul(a, b);
    case BinaryOp::kDiv:
      return float_quotient(a, b);
    case BinaryOp::kMod:
      return remainder();
    case BinaryOp::kPow:
      if (llvm::Value* power = constant_power(a, e.b)) return power;
      if (!is_double) return vector_power(b_, a, b);
      return fuses ? double_power(b_, a, b) : per_lane_call("pow", {a, b});
    case BinaryOp::kFloorDiv:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFDiv(a, b));
    case BinaryOp::kFloorMod: {
      // That of truncation, one divisor further where their signs differ.
      llvm::Value *rest = remainder(), *zero = llvm::Constant::getNullValue(a->getType());
      llvm::Value* differ = b_.CreateXor(b_.CreateFCmpOLT(rest, zero), b_.CreateFCmpOLT(b, zero));
      llvm::Value* moved = b_.CreateSelect(differ, b_.CreateFAdd(rest, b), rest);
      return b_.CreateSelect(b_.CreateFCmpOEQ(rest, zero),
                             b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, rest, b), moved);
    }
    // One minps or maxps each; a NaN in `a` stays.
    case BinaryOp::kMin:
      return b_.CreateSelect(b_.CreateFCmpOLT(b, a), b, a);
    case BinaryOp::kMax:
      return b_.CreateSelect(b_.CreateFCmpOGT(b, a), b, a);
    case BinaryOp::kEq:
      return b_.CreateFCmpOEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateFCmpUNE(a, b);
    case BinaryOp::kLt:
      return b_.CreateFCmpOLT(a, b);
    case BinaryOp::kLe:
      return b_.CreateFCmpOLE(a, b);
    default:
      break;
  }
  CHECK(false, "operator {} on floats", spelling(e.op));
}

/// C's fmodf, exact, by long division in float64: of each quotient the upper 28 bits, whose product with the
/// 24 of `b` has no rounding, are taken off until none are left, which quotients below 2^28 are after one
/// step. A quotient that was rounded up across a whole number (only larger ones can be) leaves a negative
/// rest.
llvm::Value* Emitter::float_remainder(llvm::Value* a, llvm::Value* b) {
  llvm::Type *wide = a->getType()->getWithNewType(b_.getDoubleTy()),
             *bits = wide->getWithNewType(b_.getInt64Ty());
  auto real = [&](double v) { return llvm::ConstantFP::get(wide, v); };
  auto magnitude = [&](llvm::Value* v) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, v); };
  llvm::Value* x = magnitude(b_.CreateFPExt(a, wide));
  // Beyond every float, and unlike infinity a number that 0 times is 0.
  llvm::Value* y = magnitude(b_.CreateFPExt(b, wide));
  y = b_.CreateSelect(b_.CreateFCmpOGT(y, real(0x1p200)), real(0x1p200), y);
  llvm::BasicBlock *start = b_.GetInsertBlock(), *loop = block("remainder"), *end = block("remainder.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* rest = b_.CreatePHI(wide, 2);
  llvm::Value* quotient = b_.CreateBitCast(b_.CreateFDiv(rest, y), bits);
  quotient = b_.CreateAnd(quotient, llvm::ConstantInt::get(bits, ~uint64_t{(1 << 25) - 1}));
  quotient = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, b_.CreateBitCast(quotient, wide));
  llvm::Value* next = b_.CreateFSub(rest, b_.CreateFMul(quotient, y));
  rest->addIncoming(x, start);
  rest->addIncoming(next, loop);
  llvm::Value* more = b_.CreateFCmpOGE(magnitude(quotient), real(0x1p28));
  b_.CreateCondBr(wide->isVectorTy() ? b_.CreateOrReduce(more) : more, loop, end);
  b_.SetInsertPoint(end);
  next = b_.CreateSelect(b_.CreateFCmpOLT(next, real(0)), b_.CreateFAdd(next, y), next);
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, b_.CreateFPTrunc(next, a->getType()), a);
}

llvm::Value* Emitter::intrinsic(const IntrinsicCall& e) {
  llvm::Value* a = kept_wide(value(e.a));
  DataType type = e.a.dtype();
  if (e.intrinsic == Intrinsic::kIsNan) return b_.CreateFCmpUNO(a, a);
  if (e.intrinsic == Intrinsic::kIsInf) {
    llvm::Value* magnitude = b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    return b_.CreateFCmpOEQ(magnitude, llvm::ConstantFP::getInfinity(a->getType()));
  }
  if (type.is_float()) return rounded(float_intrinsic(e.intrinsic, a, type), type);
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  switch (e.intrinsic) {
    case Intrinsic::kAbs:
      return is_signed(type) ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, a, b_.getFalse()) : a;
    case Intrinsic::kSign: {
      llvm::Value* positive = b_.CreateZExt(b_.CreateICmpNE(a, zero), a->getType());
      if (!is_signed(type)) return positive;
      return b_.CreateSelect(b_.CreateICmpSLT(a, zero), llvm::Constant::getAllOnesValue(a->getType()),
                             positive);
    }
    case Intrinsic::kBitNot:
      return b_.CreateNot(a);
    case Intrinsic::kPopcount:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, a);
    default:
      break;
  }
  CHECK(false, "{} of an integer", spelling(e.intrinsic));
}

/// An instruction where there is one, else the functions of vector_math.cpp, else the C library.
llvm::Value* Emitter::float_intrinsic(Intrinsic f, llvm::Value* a, DataType dtype) {
  llvm::Value* one = llvm::ConstantFP::get(a->getType(), 1.0);
  switch (f) {
    case Intrinsic::kSqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
    case Intrinsic::kRsqrt:
      return b_.CreateFDiv(one, b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a));
    case Intrinsic::kFloor:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, a);
    case Intrinsic::kCeil:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, a);
    case Intrinsic::kRound:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a);
    case Intrinsic::kTrunc:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a);
    case Intrinsic::kAbs:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a);
    case Intrinsic::kSign: {
      llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
      llvm::Value* unit = b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, one, a);
      return b_.CreateSelect(b_.CreateFCmpONE(a, zero), unit, a);  // 0, -0 and NaN stay
    }
    default:
      break;
  }
  bool is_double = dtype.bits == 64;
  // float16 and bfloat16 are float32 here (types.cpp).
  auto library = [&] { return per_lane_call(std::string(spelling(f)) + (is_double ? "" : "f"), {a}); };
  llvm::Value* result =
      is_double ? double_math(b_, f, a) : vector_math(b_, f, a, state_.features.avx512_lanes);
  if (!result) return library();
  if (!is_of_angles(f)) return result;
  // Of giants the C library knows every digit; they are rare.
  llvm::Value* largest = llvm::ConstantFP::get(a->getType(), is_double ? kLargestAngle : kLargestFloatAngle);
  llvm::Value* giant = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a), largest);
  llvm::Value* any = a->getType()->isVectorTy() ? b_.CreateOrReduce(giant) : giant;
  return b_.CreateSelect(giant, guarded(any, a->getType(), library), result);
}

/// Calls the C library once for each lane. It is said to touch no memory (errno is nobody's business), so
/// that equal calls can be one.
llvm::Value* Emitter::per_lane_call(const std::string& libm_name, llvm::ArrayRef<llvm::Value*> args) {
  llvm::Type* type = args[0]->getType();
  std::vector<llvm::Type*> types(args.size(), type->getScalarType());
  auto callee = state_.module.getOrInsertFunction(
      libm_name, llvm::FunctionType::get(type->getScalarType(), types, false));
  auto* f = llvm::cast<llvm::Function>(callee.getCallee());
  f->setDoesNotAccessMemory();
  f->setDoesNotThrow();
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (!vector) return b_.CreateCall(callee, args);
  llvm::Value* result = llvm::PoisonValue::get(type);
  for (unsigned l = 0; l < vector->getNumElements(); ++l) {
    std::vector<llvm::Value*> lane;
    for (llvm::Value* arg : args) lane.push_back(b_.CreateExtractElement(arg, l));
    result = b_.CreateInsertElement(result, b_.CreateCall(callee, lane), l);
  }
  return result;
}

}  // namespace lathe::codegen
