// Integers: arithmetic that wraps, indices that do not, and division, which has no instruction that is right
// for all operands.
#include <llvm/IR/Intrinsics.h>

#include <tuple>

#include "core/arith/simplify.h"
#include "core/codegen/llvm/emitter.h"
#include "core/codegen/llvm/integer_math.h"
#include "core/support/error.h"

namespace lathe::codegen {
namespace {
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

bool is_division(BinaryOp op) {
  switch (op) {
    case BinaryOp::kDiv:
    case BinaryOp::kMod:
    case BinaryOp::kFloorDiv:
    case BinaryOp::kFloorMod:
      return true;
    default:
      return false;
  }
}

/// A constant by which the processor divides whatever it is given, as that of an index.
bool is_plain_divisor(const Expr& e) {
  const Broadcast* lanes = e.as<Broadcast>();
  const int64_t* value = as_int(lanes ? lanes->value : e);
  return value && *value != 0 && *value != -1;
}
}  // namespace

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

}  // namespace lathe::codegen
