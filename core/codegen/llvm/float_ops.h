// What straight-line code of elementary functions is written in, of either width.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <initializer_list>

#include "core/arith/expr.h"

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
  /// x^y from |x|^y, with what is to be of 1, NaN and negative x: the sign of odd powers, no real number for
  /// broken ones.
  V signed_power(V x, V y, V magnitude) {
    V a = call(llvm::Intrinsic::fabs, x), nan = llvm::ConstantFP::getNaN(type_);
    magnitude = b_.CreateSelect(b_.CreateFCmpOEQ(a, real(1)), real(1), magnitude);
    V is_whole = b_.CreateFCmpOEQ(call(llvm::Intrinsic::floor, y), y);
    V half = b_.CreateFMul(y, real(0.5));
    V is_odd = b_.CreateAnd(is_whole, b_.CreateFCmpUNE(call(llvm::Intrinsic::floor, half), half));
    V has_sign = b_.CreateICmpSLT(bits(x), integer(0));
    V result = b_.CreateSelect(b_.CreateAnd(has_sign, is_odd), b_.CreateFNeg(magnitude), magnitude);
    V broken = b_.CreateAnd(b_.CreateFCmpOLT(x, real(0)), b_.CreateNot(is_whole));
    broken = b_.CreateAnd(broken, b_.CreateFCmpOLT(a, llvm::ConstantFP::getInfinity(type_)));
    result = b_.CreateSelect(broken, nan, result);
    V is_one = b_.CreateOr(b_.CreateFCmpOEQ(x, real(1)), b_.CreateFCmpOEQ(y, real(0)));
    V not_numbers = b_.CreateFCmpUNO(x, y);
    return b_.CreateSelect(is_one, real(1), b_.CreateSelect(not_numbers, nan, result));
  }

 protected:
  llvm::IRBuilder<>& b_;
  llvm::Type *type_, *int_type_;
};

/// f(x) by the member of `math` for it; null for what is no elementary function.
template <typename Math>
llvm::Value* elementary(Math& math, Intrinsic f, llvm::Value* x) {
  switch (f) {
    case Intrinsic::kExp:
      return math.exp(x);
    case Intrinsic::kLog:
      return math.log(x);
    case Intrinsic::kTanh:
      return math.tanh(x);
    case Intrinsic::kSigmoid:
      return math.sigmoid(x);
    case Intrinsic::kErf:
      return math.erf(x);
    case Intrinsic::kSin:
      return math.sin_or_cos(x, false);
    case Intrinsic::kCos:
      return math.sin_or_cos(x, true);
    case Intrinsic::kTan:
      return math.tan(x);
    case Intrinsic::kAsin:
      return math.asin(x);
    case Intrinsic::kAcos:
      return math.acos(x);
    case Intrinsic::kAtan:
      return math.atan(x);
    case Intrinsic::kSinh:
      return math.sinh(x);
    case Intrinsic::kCosh:
      return math.cosh(x);
    case Intrinsic::kAsinh:
      return math.asinh(x);
    case Intrinsic::kAcosh:
      return math.acosh(x);
    case Intrinsic::kAtanh:
      return math.atanh(x);
    default:
      return nullptr;
  }
}

}  // namespace lathe::codegen
