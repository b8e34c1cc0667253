// What straight-line code of elementary functions is written in, of either width.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <initializer_list>

namespace lathe::codegen {

/// Values of one type, floats or vectors of them, with the integers of their bits.
class FloatOps {
 public:
  using V = llvm::Value*;
  FloatOps(llvm::IRBuilder<>& b, llvm::Type* type) : b_(b), type_(type) {
    llvm::Type* bits = b.getIntNTy(type->getScalarSizeInBits());
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
    int_type_ = vector ? llvm::FixedVectorType::get(bits, vector->getNumElements()) : bits;
  }

  V real(double v) { return llvm::ConstantFP::get(type_, v); }
  V integer(uint64_t v) { return llvm::ConstantInt::get(int_type_, v); }
  /// One instruction where the target has it: the flag `contract` allows that.
  V fma(V a, V b, V c) { return b_.CreateFAdd(b_.CreateFMul(a, b), c); }
  /// Horner's rule; the coefficient of the highest power first.
  V polynomial(V x, std::initializer_list<double> coefficients) {
    V sum = nullptr;
    for (double c : coefficients) sum = sum ? fma(sum, x, real(c)) : real(c);
    return sum;
  }
  V call(llvm::Intrinsic::ID f, V a) { return b_.CreateUnaryIntrinsic(f, a); }
  V bits(V x) { return b_.CreateBitCast(x, int_type_); }
  V from_bits(V x) { return b_.CreateBitCast(x, type_); }
  /// low <= x <= high; NaN stays.
  V clamp(V x, double low, double high) {
    x = b_.CreateSelect(b_.CreateFCmpOLT(x, real(low)), real(low), x);
    return b_.CreateSelect(b_.CreateFCmpOGT(x, real(high)), real(high), x);
  }
  V with_sign_of(V magnitude, V sign) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, magnitude, sign);
  }

 protected:
  llvm::IRBuilder<>& b_;
  llvm::Type *type_, *int_type_;
};

}  // namespace lathe::codegen
