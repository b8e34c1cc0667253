#include "core/codegen/llvm/integer_math.h"

#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <cstdint>

namespace lathe::codegen {
namespace {
/// Added to a smaller whole number, these have it in their last bits, as the last place of the sum is 1 (of
/// the second, 2^32).
constexpr double kUnits = 0x1p52, kUpperUnits = 0x1p84;

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

 private:
  V integer(uint64_t v) { return llvm::ConstantInt::get(long_, v); }
  V real(double v) { return llvm::ConstantFP::get(double_, v); }
  V bits(V x) { return b_.CreateBitCast(x, long_); }
  V bits_of(double v) { return integer(std::bit_cast<uint64_t>(v)); }
  V from_bits(V x) { return b_.CreateBitCast(x, double_); }

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
}  // namespace

llvm::Value* reals_of_uint64(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Type* type) {
  IntegerMath math(builder, type);
  return type->getScalarType()->isDoubleTy() ? math.doubles_of_uint64(x) : math.floats_of_uint64(x, type);
}

llvm::Value* uint64_of_reals(llvm::IRBuilder<>& builder, llvm::Value* x) {
  llvm::Type* wide = x->getType()->getWithNewType(builder.getDoubleTy());
  return IntegerMath(builder, wide).uint64_of_doubles(builder.CreateFPExt(x, wide));
}

}  // namespace lathe::codegen
