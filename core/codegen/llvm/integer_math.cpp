#include "core/codegen/llvm/integer_math.h"

#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <cstdint>

namespace lathe::codegen {
namespace {
/// Added to a smaller whole number, these have it in their last bits, as the last place of the sum is 1 (of
/// the third, 2^32). The second takes numbers of both signs.
constexpr double kUnits = 0x1p52, kSignedUnits = 0x1.8p52, kUpperUnits = 0x1p84;

class IntegerMath {
 public:
  using V = llvm::Value*;
  /// Of as many lanes as `shape` has.
  IntegerMath(llvm::IRBuilder<>& b, llvm::Type* shape)
      : b_(b),
        long_(shape->getWithNewType(b.getInt64Ty())),
        double_(shape->getWithNewType(b.getDoubleTy())) {}

  V doubles_of_uint64(V x);
  V floats_of_uint64(V x, llvm::Type* type);
  V uint64_of_doubles(V x);
  Division divide_words(V a, V b, bool is_signed);
  Division divide_signed_longs(V a, V b);
  Division divide_unsigned_longs(V a, V b);

 private:
  Division divide_positive_longs(V a, V b, V a_real, V b_real);

  V integer(uint64_t v) { return llvm::ConstantInt::get(long_, v); }
  V real(double v) { return llvm::ConstantFP::get(double_, v); }
  V bits(V x) { return b_.CreateBitCast(x, long_); }
  V bits_of(double v) { return integer(std::bit_cast<uint64_t>(v)); }
  V from_bits(V x) { return b_.CreateBitCast(x, double_); }
  /// -1 where x is negative, else 0.
  V sign(V x) { return b_.CreateAShr(x, integer(63)); }
  V negated_where(V sign, V x) { return b_.CreateSub(b_.CreateXor(x, sign), sign); }
  V real_of(V x) { return b_.CreateSIToFP(x, double_); }

  llvm::IRBuilder<>& b_;
  llvm::Type *long_, *double_;
};

/// Both halves as doubles, whose sum alone rounds.
IntegerMath::V IntegerMath::doubles_of_uint64(V x) {
  V upper = from_bits(b_.CreateOr(b_.CreateLShr(x, integer(32)), bits_of(kUpperUnits)));
  V lower = from_bits(b_.CreateOr(b_.CreateAnd(x, integer(UINT32_MAX)), bits_of(kUnits)));
  return b_.CreateFAdd(b_.CreateFSub(upper, real(kUpperUnits + kUnits)), lower);
}

/// By way of doubles. What these have not the bits for is rounded to odd, so that to round again is as if it
/// had been rounded once (Boldo and Melquiond, "When double rounding is odd", 2005).
IntegerMath::V IntegerMath::floats_of_uint64(V x, llvm::Type* type) {
  V beyond = integer((1 << 11) - 1);
  V odd = b_.CreateAnd(b_.CreateOr(x, b_.CreateAdd(b_.CreateAnd(x, beyond), beyond)), b_.CreateNot(beyond));
  V fits = b_.CreateICmpEQ(b_.CreateLShr(x, integer(53)), integer(0));
  return b_.CreateFPTrunc(doubles_of_uint64(b_.CreateSelect(fits, x, odd)), type);
}

/// The upper half, and what it leaves: both are exact.
IntegerMath::V IntegerMath::uint64_of_doubles(V x) {
  V whole = b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
  V upper = b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, b_.CreateFMul(whole, real(0x1p-32)));
  V lower = b_.CreateFSub(whole, b_.CreateFMul(upper, real(0x1p32)));
  V upper_bits = b_.CreateShl(bits(b_.CreateFAdd(upper, real(kUnits))), integer(32));
  return b_.CreateOr(upper_bits, b_.CreateXor(bits(b_.CreateFAdd(lower, real(kUnits))), bits_of(kUnits)));
}

/// Of 32 bits and fewer. A quotient that is not whole is at least 1 / b below the next whole number, and a
/// division that has more bits than a + b rounds by less.
Division IntegerMath::divide_words(V a, V b, bool is_signed) {
  llvm::Type *type = a->getType(), *word = type->getWithNewType(b_.getInt32Ty());
  const bool is_short = type->getScalarSizeInBits() < 32;
  llvm::Type* real = is_short ? type->getWithNewType(b_.getFloatTy()) : double_;
  // int32 has the shorter ones of either kind.
  auto converted = [&](V x) {
    if (is_signed) return b_.CreateSIToFP(b_.CreateSExt(x, word), real);
    return is_short ? b_.CreateSIToFP(b_.CreateZExt(x, word), real) : b_.CreateUIToFP(x, real);
  };
  V exact = b_.CreateFDiv(converted(a), converted(b));
  V whole = is_signed || is_short ? b_.CreateFPToSI(exact, word) : b_.CreateFPToUI(exact, word);
  V quotient = b_.CreateTrunc(whole, type);
  return {quotient, b_.CreateSub(a, b_.CreateMul(quotient, b))};
}

/// For 0 <= a <= 2^63 and 0 < b <= 2^63, given as doubles too. The first quotient is wrong by 1 and 2^-51 of
/// itself at most, so it leaves less than b + 2^12. The quotient of that, rounded, leaves half of b or a
/// little more, of either sign: less than 0 where it was one too much.
Division IntegerMath::divide_positive_longs(V a, V b, V a_real, V b_real) {
  constexpr double kMost = 0x1p63 - 1024;  // the last double that int64 has
  V inverse = b_.CreateFDiv(real(1), b_real);
  V guess = b_.CreateFMul(a_real, inverse);
  guess = b_.CreateSelect(b_.CreateFCmpOLT(guess, real(kMost)), guess, real(kMost));
  V first = b_.CreateFPToSI(guess, long_);
  V left = b_.CreateSub(a, b_.CreateMul(first, b));
  V rest = b_.CreateFAdd(b_.CreateFMul(real_of(left), inverse), real(kSignedUnits));
  V second = b_.CreateSub(bits(rest), bits_of(kSignedUnits));
  V remainder = b_.CreateSub(left, b_.CreateMul(second, b));
  V over = sign(remainder);
  return {b_.CreateAdd(b_.CreateAdd(first, second), over), b_.CreateAdd(remainder, b_.CreateAnd(over, b))};
}

Division IntegerMath::divide_signed_longs(V a, V b) {
  auto real_magnitude = [&](V x) { return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, real_of(x)); };
  V a_sign = sign(a), b_sign = sign(b);
  auto [quotient, remainder] = divide_positive_longs(negated_where(a_sign, a), negated_where(b_sign, b),
                                                     real_magnitude(a), real_magnitude(b));
  return {negated_where(b_.CreateXor(a_sign, b_sign), quotient), negated_where(a_sign, remainder)};
}

/// Half of `a` is a signed number, by which the quotient is found but for its last bit; by divisors that are
/// none that bit is all (H. Warren, "Hacker's Delight", 2nd edition, 9-3).
Division IntegerMath::divide_unsigned_longs(V a, V b) {
  V half = b_.CreateLShr(a, integer(1));
  auto [quotient, remainder] = divide_positive_longs(half, b, real_of(half), real_of(b));
  V is_large = b_.CreateICmpSLT(b, integer(0));
  quotient = b_.CreateSelect(is_large, integer(0), b_.CreateAdd(quotient, quotient));
  V last = b_.CreateAnd(a, integer(1));
  remainder = b_.CreateSelect(is_large, a, b_.CreateOr(b_.CreateAdd(remainder, remainder), last));
  V once_more = b_.CreateSExt(b_.CreateICmpUGE(remainder, b), long_);
  return {b_.CreateSub(quotient, once_more), b_.CreateSub(remainder, b_.CreateAnd(once_more, b))};
}
}  // namespace

llvm::Value* reals_of_uint64(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Type* type) {
  IntegerMath math(builder, type);
  return type->getScalarType()->isDoubleTy() ? math.doubles_of_uint64(x) : math.floats_of_uint64(x, type);
}

llvm::Value* uint64_of_reals(llvm::IRBuilder<>& builder, llvm::Value* x) {
  llvm::Type* wide = x->getType()->getWithNewType(builder.getDoubleTy());
  return IntegerMath(builder, wide).uint64_of_doubles(builder.CreateFPExt(x, wide));
}

Division divide(llvm::IRBuilder<>& builder, llvm::Value* a, llvm::Value* b, bool is_signed) {
  IntegerMath math(builder, a->getType());
  if (a->getType()->getScalarSizeInBits() < 64) return math.divide_words(a, b, is_signed);
  return is_signed ? math.divide_signed_longs(a, b) : math.divide_unsigned_longs(a, b);
}

Division rounded_down(llvm::IRBuilder<>& builder, const Division& d, llvm::Value* a, llvm::Value* b) {
  llvm::Value* zero = llvm::Constant::getNullValue(a->getType());
  llvm::Value* signs_differ = builder.CreateICmpSLT(builder.CreateXor(a, b), zero);
  llvm::Value* adjust = builder.CreateAnd(builder.CreateICmpNE(d.remainder, zero), signs_differ);
  return {builder.CreateSub(d.quotient, builder.CreateZExt(adjust, a->getType())),
          builder.CreateSelect(adjust, builder.CreateAdd(d.remainder, b), d.remainder)};
}

}  // namespace lathe::codegen
