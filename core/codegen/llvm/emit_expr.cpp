// Scalar and vector expressions.
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "core/arith/simplify.h"
#include "core/codegen/llvm/double_math.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/integer_math.h"
#include "core/codegen/llvm/vector_math.h"
#include "core/support/error.h"
#include "core/tir/regions.h"

namespace lathe::codegen {
namespace {
bool is_signed(DataType dtype) { return dtype.code == TypeCode::kInt; }

/// Adds what is loaded wherever `e` is computed, not only where something in it chooses so. `seen`: what
/// expressions share is looked at once.
void add_sure_loads(const Expr& e, std::vector<Expr>& loads, std::unordered_set<const Node*>& seen) {
  if (!seen.insert(e.get()).second) return;
  if (e.as<tir::Load>()) loads.push_back(e);
  const Select* select = e.as<Select>();
  const Binary* binary = e.as<Binary>();
  if (select) return add_sure_loads(select->condition, loads, seen);
  if (binary && (binary->op == BinaryOp::kAnd || binary->op == BinaryOp::kOr))
    return add_sure_loads(binary->a, loads, seen);
  e->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const ExprNode*>(child.get())) add_sure_loads(child.cast<ExprNode>(), loads, seen);
  });
}

/// A branch of a select that may fail where `condition`, which is computed in any case, does not choose it,
/// but `other`: what both load is loaded in any case.
bool needs_guard(const Expr& branch, const Expr& condition, const Expr& other) {
  if (tir::loads_nothing_else(branch, condition)) return false;
  std::vector<Expr> sure;
  std::unordered_set<const Node*> seen;
  add_sure_loads(condition, sure, seen);
  add_sure_loads(other, sure, seen);
  bool fails = false;
  post_order(branch, [&](const NodeRef& node) {
    fails |= node.as<tir::Load>() && std::none_of(sure.begin(), sure.end(), [&](const Expr& load) {
               return structural_equal(load, node);
             });
  });
  return fails;
}

/// Of variables and constants alone: an index, of which no operation overflows. What comes from memory is
/// data, and wraps.
bool is_index(const Binary& e) {
  if (e.a.dtype().element() != kInt64) return false;
  bool may_wrap = false;
  for (const Expr& side : {e.a, e.b})
    post_order(side, [&](const NodeRef& node) {
      const IntImm* constant = node.as<IntImm>();
      may_wrap |= node.as<tir::Load>() || (constant && is_data(constant->value));
    });
  return !may_wrap;
}

bool is_division(BinaryOp op) { return op >= BinaryOp::kDiv && op <= BinaryOp::kFloorMod; }

/// A constant by which the processor divides whatever it is given, as that of an index.
bool is_plain_divisor(const Expr& e) {
  const Broadcast* lanes = e.as<Broadcast>();
  const int64_t* value = as_int(lanes ? lanes->value : e);
  return value && *value != 0 && *value != -1;
}
}  // namespace

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

llvm::Value* Emitter::int_binary(const Binary& e, llvm::Value* a, llvm::Value* b) {
  bool sign = is_signed(e.a.dtype());
  if (is_division(e.op) && !is_plain_divisor(e.b)) return any_division(e, a, b);
  switch (e.op) {
    case BinaryOp::kAdd:
      return b_.CreateAdd(a, b, "", false, is_index(e));
    case BinaryOp::kSub:
      return b_.CreateSub(a, b, "", false, is_index(e));
    case BinaryOp::kMul:
      return b_.CreateMul(a, b, "", false, is_index(e));
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return division(e, a, b);
    case BinaryOp::kMin:
      return b_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, a, b);
    case BinaryOp::kMax:
      return b_.CreateBinaryIntrinsic(sign ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, a, b);
    case BinaryOp::kEq:
      return b_.CreateICmpEQ(a, b);
    case BinaryOp::kNe:
      return b_.CreateICmpNE(a, b);
    case BinaryOp::kLt:
      return sign ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    case BinaryOp::kLe:
      return sign ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
    case BinaryOp::kBitAnd:
      return b_.CreateAnd(a, b);
    case BinaryOp::kBitOr:
      return b_.CreateOr(a, b);
    case BinaryOp::kBitXor:
      return b_.CreateXor(a, b);
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight: {
      // Shifts by the width or more give what shifting one bit at a time would.
      llvm::Value* width = llvm::ConstantInt::get(b->getType(), e.a.dtype().bits);
      llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
      llvm::Value* in_range = b_.CreateICmpULT(b, width);
      if (e.op == BinaryOp::kShiftRight && sign)
        return b_.CreateAShr(
            a, b_.CreateSelect(in_range, b, b_.CreateSub(width, llvm::ConstantInt::get(b->getType(), 1))));
      llvm::Value* shifted = e.op == BinaryOp::kShiftLeft ? b_.CreateShl(a, b) : b_.CreateLShr(a, b);
      return b_.CreateSelect(in_range, shifted, zero);
    }
    case BinaryOp::kPow:
      return integer_power(a, b, sign);
    default:
      break;
  }
  CHECK(false, "operator {} on integers", spelling(e.op));
}

/// By repeated squaring, wrapping; to a negative power 1 over that, truncated (of 0 too). Exponents count as
/// unsigned in the loop: of 1 and -1, which have other negative powers than 0, the last bit decides alone.
llvm::Value* Emitter::integer_power(llvm::Value* base, llvm::Value* exponent, bool is_signed) {
  llvm::Type* type = base->getType();
  llvm::Value *zero = llvm::Constant::getNullValue(type), *one = llvm::ConstantInt::get(type, 1);
  llvm::BasicBlock *start = b_.GetInsertBlock(), *loop = block("power"), *end = block("power.end");
  b_.CreateBr(loop);
  b_.SetInsertPoint(loop);
  llvm::PHINode* product = b_.CreatePHI(type, 2);
  llvm::PHINode* square = b_.CreatePHI(type, 2);  // base^1, base^2, base^4, ...
  llvm::PHINode* bits = b_.CreatePHI(type, 2);    // those of the exponent that are left
  llvm::Value* is_odd = b_.CreateICmpNE(b_.CreateAnd(bits, one), zero);
  llvm::Value* result = b_.CreateSelect(is_odd, b_.CreateMul(product, square), product);
  llvm::Value* left = b_.CreateLShr(bits, one);
  for (auto [phi, first, next] :
       {std::tuple(product, one, result), std::tuple(square, base, b_.CreateMul(square, square)),
        std::tuple(bits, exponent, left)}) {
    phi->addIncoming(first, start);
    phi->addIncoming(next, loop);
  }
  llvm::Value* more = b_.CreateICmpNE(left, zero);
  b_.CreateCondBr(type->isVectorTy() ? b_.CreateOrReduce(more) : more, loop, end);
  b_.SetInsertPoint(end);
  if (!is_signed) return result;
  llvm::Value* minus_one = llvm::Constant::getAllOnesValue(type);
  llvm::Value* is_unit = b_.CreateOr(b_.CreateICmpEQ(base, one), b_.CreateICmpEQ(base, minus_one));
  return b_.CreateSelect(b_.CreateOr(is_unit, b_.CreateICmpSGE(exponent, zero)), result, zero);
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

/// Of evenly spaced lanes by a constant: its first lane is divided as a scalar, and what each lane is beyond
/// that multiple is a small number, of which a comparison or a product with the inverse finds the digit:
/// there is no instruction for high halves of products of 64 bits. Null for other divisions, and by powers of
/// two.
llvm::Value* Emitter::ramp_division(const Binary& e) {
  const Ramp* line = e.a.as<Ramp>();
  const int64_t *stride = line ? as_int(line->stride) : nullptr,
                *c = stride && is_plain_divisor(e.b) ? as_int(e.b.as<Broadcast>()->value) : nullptr;
  if ((e.op != BinaryOp::kFloorDiv && e.op != BinaryOp::kFloorMod) || !c || e.dtype.element() != kInt64)
    return nullptr;
  // (x + 1/2) / c is at least 1 / (2 c) from a whole number, and rounded to 23 bits before it and after.
  constexpr int64_t kMost = int64_t{1} << 21;
  const int64_t reach = *stride * (e.dtype.lanes - 1);
  if (*c < 3 || (*c & (*c - 1)) == 0 || *c > kMost || *stride < 1 || *stride > kMost || *c + reach > kMost)
    return nullptr;
  const auto lanes = static_cast<unsigned>(e.dtype.lanes);
  llvm::Type* narrow = llvm::FixedVectorType::get(b_.getInt32Ty(), lanes);
  auto all = [&](int64_t v) { return llvm::ConstantInt::get(narrow, static_cast<uint64_t>(v)); };
  llvm::Value* start = b_.CreateTrunc(value(floormod(line->base, *c)), b_.getInt32Ty());
  llvm::Value* beyond = b_.CreateAdd(b_.CreateVectorSplat(lanes, start),
                                     b_.CreateMul(b_.CreateStepVector(narrow), all(*stride)));
  llvm::Value* digit;
  if (reach <= *c) {
    digit = b_.CreateZExt(b_.CreateICmpUGE(beyond, all(*c)), narrow);
  } else {
    llvm::Type* real = llvm::FixedVectorType::get(b_.getFloatTy(), lanes);
    llvm::Value* middle = b_.CreateFAdd(b_.CreateSIToFP(beyond, real), llvm::ConstantFP::get(real, 0.5));
    digit = b_.CreateFPToSI(b_.CreateFMul(middle, llvm::ConstantFP::get(real, 1 / static_cast<double>(*c))),
                            narrow);
  }
  llvm::Type* wide = value_type(e.dtype);
  if (e.op == BinaryOp::kFloorMod)
    return b_.CreateZExt(b_.CreateSub(beyond, b_.CreateMul(digit, all(*c))), wide);
  llvm::Value* whole = b_.CreateVectorSplat(lanes, value(floordiv(line->base, *c)));
  return b_.CreateAdd(whole, b_.CreateZExt(digit, wide));
}

/// By what may be 0, of which x86 makes an end of the process, or -1, by which the least number has no
/// quotient: both are divided by 1 instead, which leaves no remainder. A select costs nothing beside a
/// division.
llvm::Value* Emitter::any_division(const Binary& e, llvm::Value* a, llvm::Value* b) {
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* by_zero = b_.CreateICmpEQ(b, zero);
  llvm::Value* by_one = by_zero;
  if (is_signed(e.dtype)) {
    llvm::Value* negates = b_.CreateICmpEQ(b, llvm::Constant::getAllOnesValue(b->getType()));
    a = b_.CreateSelect(negates, b_.CreateNeg(a), a);
    by_one = b_.CreateOr(by_zero, negates);
  }
  llvm::Value* result = division(e, a, b_.CreateSelect(by_one, llvm::ConstantInt::get(b->getType(), 1), b));
  bool quotient = e.op == BinaryOp::kDiv || e.op == BinaryOp::kFloorDiv;
  return quotient ? b_.CreateSelect(by_zero, zero, result) : result;
}

/// Most indices are not negative, and unsigned division needs no correction and is a shift for powers of two.
/// Quotient and remainder become one instruction where the processor has one for both, and what is not used
/// of them none.
llvm::Value* Emitter::division(const Binary& e, llvm::Value* a, llvm::Value* b) {
  const bool is_quotient = e.op == BinaryOp::kDiv || e.op == BinaryOp::kFloorDiv;
  const bool floors = is_signed(e.dtype) && (e.op == BinaryOp::kFloorDiv || e.op == BinaryOp::kFloorMod);
  const bool unsigned_too = floors && is_non_negative(e.a) && is_non_negative(e.b);
  Division d;
  // By constants LLVM multiplies.
  const bool by_floats = e.dtype.lanes > 1 && !state_.features.divides_integers &&
                         (e.dtype.bits < 64 || state_.features.converts_longs);
  if (by_floats && !llvm::isa<llvm::Constant>(b))
    d = divide(b_, a, b, is_signed(e.dtype));
  else if (is_signed(e.dtype) && !unsigned_too)
    d = {b_.CreateSDiv(a, b), b_.CreateSRem(a, b)};
  else
    d = {b_.CreateUDiv(a, b), b_.CreateURem(a, b)};
  if (floors && !unsigned_too) d = rounded_down(b_, d, a, b);
  return is_quotient ? d.quotient : d.remainder;
}

/// `condition` ? emit_value() : 0, where the value is computed only if wanted.
llvm::Value* Emitter::guarded(llvm::Value* condition, llvm::Type* type,
                              FunctionRef<llvm::Value*()> emit_value) {
  llvm::BasicBlock* start = b_.GetInsertBlock();
  llvm::BasicBlock *wanted = block("wanted"), *end = block("end");
  b_.CreateCondBr(condition, wanted, end);
  b_.SetInsertPoint(wanted);
  // What is computed here is there for nothing behind.
  const bool keeps = std::exchange(keeps_known_, false);
  llvm::Value* v = emit_value();
  keeps_known_ = keeps;
  // Emitting the value may have opened blocks of its own.
  llvm::BasicBlock* from = b_.GetInsertBlock();
  b_.CreateBr(end);
  b_.SetInsertPoint(end);
  llvm::PHINode* phi = b_.CreatePHI(type, 2);
  phi->addIncoming(v, from);
  phi->addIncoming(llvm::Constant::getNullValue(type), start);
  return phi;
}

/// One condition for all lanes. A side that may fail where it is not chosen goes behind a branch; the other
/// is computed in any case.
llvm::Value* Emitter::select(const Select& e) {
  if (e.condition.dtype().lanes > 1) return vector_select(e);
  llvm::Value* condition = value(e.condition);
  bool guard_true = needs_guard(e.if_true, e.condition, e.if_false),
       guard_false = needs_guard(e.if_false, e.condition, e.if_true);
  // Without a branch where nothing can fail.
  if (!guard_true && !guard_false) return b_.CreateSelect(condition, value(e.if_true), value(e.if_false));
  llvm::Type* type = value_type(e.dtype);
  llvm::Value* a = guard_true ? guarded(condition, type, [&] { return value(e.if_true); }) : value(e.if_true);
  llvm::Value* b = guard_false ? guarded(b_.CreateNot(condition), type, [&] { return value(e.if_false); })
                               : value(e.if_false);
  return b_.CreateSelect(condition, a, b);
}

/// What the condition of a select around has computed, for all lanes it might be wanted in: computed anew, by
/// loads under other masks, it would be another value, and so would all that is made of it.
llvm::Value* Emitter::known_or(const Expr& e, FunctionRef<llvm::Value*()> emit_value) {
  // Without a mask all lanes are wanted.
  for (const Known& known : known_)
    if ((mask_ || !known.mask) && structural_equal(known.expr, e)) return known.value;
  llvm::Value* v = emit_value();
  if (keeps_known_) known_.push_back({e, v, mask_});
  return v;
}

/// Both sides are computed, loads only in the lanes that want them. Where either side may fail, of two
/// tensors that are joined for one, a side that no lane wants is passed by: what it would load is as far from
/// its tensor as the other is long, and to find that no lane wants it takes a processor 140 ns where there is
/// no memory (decision 094).
llvm::Value* Emitter::vector_select(const Select& e) {
  const size_t known = known_.size();
  const bool keeps = std::exchange(keeps_known_, true);
  llvm::Value* condition = value(e.condition);
  keeps_known_ = keeps;
  llvm::Value* outer = mask_;
  const bool masks_true = needs_guard(e.if_true, e.condition, e.if_false),
             masks_false = needs_guard(e.if_false, e.condition, e.if_true);
  auto side = [&](const Expr& v, bool if_true) {
    const bool masks = if_true ? masks_true : masks_false;
    if (masks) {
      llvm::Value* lanes = if_true ? condition : b_.CreateNot(condition);
      // Loads inside look at the mask.
      mask_ = outer ? b_.CreateAnd(outer, lanes) : lanes;
    }
    keeps_known_ = keeps && !masks;
    const auto emit_side = [&] { return value(v); };
    llvm::Value* result = masks_true && masks_false
                              ? guarded(b_.CreateOrReduce(mask_), value_type(e.dtype), emit_side)
                              : emit_side();
    keeps_known_ = keeps;
    mask_ = outer;
    return result;
  };
  llvm::Value* if_true = side(e.if_true, true);
  llvm::Value* if_false = side(e.if_false, false);
  known_.resize(known);
  return b_.CreateSelect(condition, if_true, if_false);
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
