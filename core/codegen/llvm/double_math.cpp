#include "core/codegen/llvm/double_math.h"

#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <limits>

#include "core/codegen/llvm/float_ops.h"

namespace lathe::codegen {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// ln 2 in two parts, the first of 32 bits: its products with exponents are exact (Cody and Waite).
constexpr double kLn2 = 0x1.62e42feep-1, kLn2Rest = 0x1.a39ef35793c76p-33;
/// A double whose last place is 1: what is added to it lies as an integer in its last bits. That is a
/// conversion that vectors have without instructions of their own for 64 bits, and NaN may go through.
constexpr double kLastPlaceIsOne = 0x1.8p52;
constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiRest = 0x1.1a62633145c07p-54;

/// A double or vector of doubles.
class DoubleMath final : public FloatOps {
 public:
  using FloatOps::FloatOps;

  /// Subnormal results too: 2^n in two factors.
  V exp(V x) {
    // Beyond these it is 0, and infinity.
    return exp_of(by_ln2(clamp(x, -746, 710)));
  }

  /// log m by s = (m - 1) / (m + 1) (fdlibm's __ieee754_log).
  V log(V x) {
    auto [k, f] = take_apart(x);
    V s = b_.CreateFDiv(f, b_.CreateFAdd(f, real(2))), z = b_.CreateFMul(s, s);
    V tail = b_.CreateFMul(
        z, polynomial(z, {1.479819860511658591e-01, 1.531383769920937332e-01, 1.818357216161805012e-01,
                          2.222219843214978396e-01, 2.857142874366239149e-01, 3.999999999940941908e-01,
                          6.666666666666735130e-01}));
    V half_square = b_.CreateFMul(real(0.5), b_.CreateFMul(f, f));
    V small = fma(s, b_.CreateFAdd(half_square, tail), b_.CreateFMul(k, real(kLn2Rest)));
    V y = b_.CreateFSub(b_.CreateFMul(k, real(kLn2)), b_.CreateFSub(b_.CreateFSub(half_square, small), f));
    V finite = b_.CreateAnd(b_.CreateFCmpOGT(x, real(0)), b_.CreateFCmpOLT(x, real(kInfinity)));
    V special = b_.CreateSelect(b_.CreateFCmpOEQ(x, real(kInfinity)), real(kInfinity), real(kNan));
    special = b_.CreateSelect(b_.CreateFCmpOEQ(x, real(0)), real(-kInfinity), special);
    return b_.CreateSelect(finite, y, special);
  }

  /// e / (e + 2) with e = exp(2 |x|) - 1, which loses nothing near 0.
  V tanh(V x) {
    V magnitude = call(llvm::Intrinsic::fabs, x);
    V bounded = b_.CreateSelect(b_.CreateFCmpOGT(magnitude, real(20)), real(20), magnitude);
    const Reduced reduced = by_ln2(b_.CreateFAdd(bounded, bounded));
    V scale = power_of_two(reduced.n);
    V e = fma(scale, exp_less_one(reduced.r), b_.CreateFSub(scale, real(1)));
    V y = b_.CreateFDiv(e, b_.CreateFAdd(e, real(2)));
    return with_sign_of(y, x);
  }

  /// (e + e / (e + 1)) / 2 with e = exp(|x|) - 1; of large numbers e^|x| / 2, before which e is infinite.
  V sinh(V x) {
    constexpr double kLarge = 22;
    V a = call(llvm::Intrinsic::fabs, x), is_large = b_.CreateFCmpOGT(a, real(kLarge));
    const Reduced reduced = by_ln2(b_.CreateSelect(is_large, real(kLarge), a));
    V scale = power_of_two(reduced.n);
    V e = fma(scale, exp_less_one(reduced.r), b_.CreateFSub(scale, real(1)));
    V small = b_.CreateFMul(real(0.5), b_.CreateFAdd(e, b_.CreateFDiv(e, b_.CreateFAdd(e, real(1)))));
    return with_sign_of(b_.CreateSelect(is_large, half_exp(a), small), x);
  }

  V cosh(V x) {
    V half = half_exp(call(llvm::Intrinsic::fabs, x));
    return b_.CreateFAdd(half, b_.CreateFDiv(real(0.25), half));
  }

  V asin(V x) {
    V cosine =
        call(llvm::Intrinsic::sqrt, b_.CreateFMul(b_.CreateFSub(real(1), x), b_.CreateFAdd(real(1), x)));
    return atan(b_.CreateFDiv(x, cosine));
  }

  /// Twice the angle whose tangent is (1 - cos) / sin.
  V acos(V x) {
    V square = b_.CreateFDiv(b_.CreateFSub(real(1), x), b_.CreateFAdd(real(1), x));
    return b_.CreateFMul(real(2), atan(call(llvm::Intrinsic::sqrt, square)));
  }

  /// log(1 + x + x^2 / (1 + sqrt(x^2 + 1))), which loses nothing near 0.
  V asinh(V x) {
    V a = call(llvm::Intrinsic::fabs, x), square = b_.CreateFMul(a, a);
    V root = call(llvm::Intrinsic::sqrt, b_.CreateFAdd(square, real(1)));
    V more = b_.CreateFAdd(a, b_.CreateFDiv(square, b_.CreateFAdd(real(1), root)));
    return with_sign_of(log_of_twice_if_large(a, log_one_and(more)), x);
  }

  /// log(1 + t + sqrt(2 t + t^2)) with t = x - 1.
  V acosh(V x) {
    V t = b_.CreateFSub(x, real(1));
    V root = call(llvm::Intrinsic::sqrt, b_.CreateFMul(t, b_.CreateFAdd(t, real(2))));
    V y = log_of_twice_if_large(x, log_one_and(b_.CreateFAdd(t, root)));
    return b_.CreateSelect(b_.CreateFCmpOLT(x, real(1)), real(kNan), y);
  }

  V atanh(V x) {
    V a = call(llvm::Intrinsic::fabs, x);
    V ratio = b_.CreateFDiv(b_.CreateFAdd(a, a), b_.CreateFSub(real(1), a));
    return with_sign_of(b_.CreateFMul(real(0.5), log_one_and(ratio)), x);
  }

  V sigmoid(V x) { return b_.CreateFDiv(real(1), b_.CreateFAdd(real(1), exp(b_.CreateFNeg(x)))); }

  /// An odd polynomial below the middle; above it 1 - exp(-x^2) q((x - 2) / (x + 2)), which from 6 on is 1.
  V erf(V x) {
    constexpr double kSlope = 0x1.20dd750429b6dp0, kSlopeRest = 0x1.1ae3a914fed8p-56;  // 2 / sqrt(pi)
    constexpr double kMiddle = 0.84;
    V a = call(llvm::Intrinsic::fabs, x), z = b_.CreateFMul(a, a);
    V tail = polynomial(
        z, {1.07619308790163454e-8, -1.57268166231166299e-7, 1.64034769391172624e-6, -1.49222759030758058e-5,
            1.20552078352690960e-4, -8.54832404575428203e-4, 5.22397758151441592e-3, -2.68661706414008265e-2,
            1.12837916709394137e-1, -3.76126389031835207e-1});
    V small = fma(a, real(kSlope), b_.CreateFMul(a, fma(z, tail, real(kSlopeRest))));
    V bounded = b_.CreateSelect(b_.CreateFCmpOGT(a, real(6)), real(6), a);
    V t = b_.CreateFDiv(b_.CreateFSub(bounded, real(2)), b_.CreateFAdd(bounded, real(2)));
    V q = polynomial(
        t, {-1.11378770994268323e-5, -2.46409376101529273e-5, 2.84679656823839760e-5, 1.74333681440641829e-4,
            4.34712522552792237e-5, -9.81992326099540057e-4, -8.47142401479457265e-4, 6.99746222843542019e-3,
            3.73289243379015421e-3, -7.89785810188029236e-2, 2.41658194242159091e-1, -4.27185847413958597e-1,
            2.55395676310506026e-1});
    V power = exp_of(by_ln2(b_.CreateFNeg(b_.CreateFMul(bounded, bounded))));
    V large = fma(b_.CreateFNeg(power), q, real(1));
    return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, real(kMiddle)), small, large), x);
  }

  /// From tan(pi/8) on atan x = pi/4 + atan((x - 1) / (x + 1)), from tan(3 pi/8) on pi/2 + atan(-1 / x).
  V atan(V x) {
    V a = call(llvm::Intrinsic::fabs, x);
    V middle = b_.CreateFCmpOGT(a, real(0.41421356237309503)),
      large = b_.CreateFCmpOGT(a, real(2.414213562373095));
    auto choice = [&](V if_large, V if_middle, V if_small) {
      return b_.CreateSelect(large, if_large, b_.CreateSelect(middle, if_middle, if_small));
    };
    V t = b_.CreateFDiv(choice(real(-1), b_.CreateFSub(a, real(1)), a),
                        choice(a, b_.CreateFAdd(a, real(1)), real(1)));
    V z = b_.CreateFMul(t, t);
    V tail = polynomial(
        z, {-1.7876537223320623e-2, 3.8036850196881923e-2, -5.0382291471357326e-2, 5.8476549389134478e-2,
            -6.6630726045806485e-2, 7.6920575334537955e-2, -9.0908976127919039e-2, 1.1111110778648865e-1,
            -1.4285714280104777e-1, 1.9999999999952704e-1, -3.3333333333333194e-1});
    V y = fma(b_.CreateFMul(tail, z), t, t);
    y = b_.CreateFAdd(y, choice(real(kHalfPiRest), real(kHalfPiRest / 2), real(0)));
    return with_sign_of(b_.CreateFAdd(choice(real(kHalfPi), real(kHalfPi / 2), real(0)), y), x);
  }

  /// The quadrant picks the polynomial and the sign.
  V sin_or_cos(V x, bool cosine) {
    auto [n, r] = by_half_pi(x);
    auto [sine, cosine_of_r] = sin_and_cos(r);
    V quadrant = cosine ? b_.CreateAdd(n, integer(1)) : n;
    V sign = b_.CreateShl(b_.CreateAnd(quadrant, integer(2)), 62);
    V y = b_.CreateSelect(is_odd(quadrant), cosine_of_r, sine);
    return from_bits(b_.CreateXor(bits(y), sign));
  }

  V tan(V x) {
    auto [n, r] = by_half_pi(x);
    auto [sine, cosine] = sin_and_cos(r);
    V odd = is_odd(n);
    return b_.CreateFDiv(b_.CreateSelect(odd, b_.CreateFNeg(cosine), sine),
                         b_.CreateSelect(odd, sine, cosine));
  }

  /// e^(y log |x|): that is up to 745, and what is lost of its fraction is lost of the result, so the
  /// logarithm is known to 66 bits.
  V pow(V x, V y) {
    V a = call(llvm::Intrinsic::fabs, x);
    Pair log = log_in_two(a);
    // Infinity and NaN are their own logarithms.
    V high = b_.CreateSelect(b_.CreateFCmpOEQ(a, real(0)), real(-kInfinity), log.high);
    high = b_.CreateSelect(b_.CreateFCmpUGE(a, real(kInfinity)), a, high);
    Pair t = product(y, high);
    // Beyond it is 0 or infinity in any case.
    V finite = b_.CreateFCmpOLT(call(llvm::Intrinsic::fabs, t.high), real(800));
    V low = b_.CreateSelect(finite, fma(y, log.low, t.low), real(0));
    return signed_power(x, y, exp_of(by_ln2(clamp(t.high, -800, 800), low)));
  }

  /// Long division, of 53 bits of the quotient a step: of most the first step is the last. y is moved up to
  /// where the quotient, cut off, is right or one too large, which leaves a number that doubles have.
  V remainder(V x, V y) {
    auto block = [&](const char* name) {
      return llvm::BasicBlock::Create(b_.getContext(), name, b_.GetInsertBlock()->getParent());
    };
    V a = call(llvm::Intrinsic::fabs, x), divisor = call(llvm::Intrinsic::fabs, y);
    V tiny = b_.CreateFCmpOLT(divisor, real(std::numeric_limits<double>::min()));
    V normal = b_.CreateSelect(tiny, b_.CreateFMul(divisor, real(0x1p54)), divisor);
    V exponent =
        b_.CreateSub(b_.CreateLShr(bits(normal), 52), b_.CreateSelect(tiny, integer(54), integer(0)));
    llvm::BasicBlock *start = b_.GetInsertBlock(), *loop = block("remainder"), *end = block("remainder.end");
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    llvm::PHINode* rest = b_.CreatePHI(type_, 2);
    V beyond = b_.CreateSub(b_.CreateLShr(bits(rest), 52), b_.CreateAdd(exponent, integer(52)));
    V up = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, beyond, integer(0));
    V half = b_.CreateLShr(up, 1);
    V moved = b_.CreateFMul(b_.CreateFMul(divisor, power_of_two(half)), power_of_two(b_.CreateSub(up, half)));
    V quotient = call(llvm::Intrinsic::trunc, b_.CreateFDiv(rest, moved));
    V left = exact_fma(b_.CreateFNeg(quotient), moved, rest);
    left = b_.CreateSelect(b_.CreateFCmpOLT(left, real(0)), b_.CreateFAdd(left, moved), left);
    rest->addIncoming(a, start);
    rest->addIncoming(left, loop);
    V more = b_.CreateFCmpOGE(left, divisor);
    b_.CreateCondBr(type_->isVectorTy() ? b_.CreateOrReduce(more) : more, loop, end);
    b_.SetInsertPoint(end);
    // An infinite divisor leaves all.
    return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, divisor), a, left), x);
  }

 private:
  /// x = 2^exponent (1 + rest) with 1 + rest in [sqrt(1/2), sqrt(2)), for positive finite x.
  struct Parts {
    V exponent, rest;
  };
  Parts take_apart(V x) {
    constexpr auto kSqrtHalf = std::bit_cast<uint64_t>(0x1.6a09e667f3bcdp-1);
    V tiny = b_.CreateFCmpOLT(x, real(std::numeric_limits<double>::min()));
    V all = bits(b_.CreateSelect(tiny, b_.CreateFMul(x, real(0x1p54)), x));
    V exponent = b_.CreateAShr(b_.CreateSub(all, integer(kSqrtHalf)), 52);
    V rest = b_.CreateFSub(from_bits(b_.CreateSub(all, b_.CreateShl(exponent, 52))), real(1));
    V k = b_.CreateFSub(from_bits(b_.CreateAdd(exponent, integer(std::bit_cast<uint64_t>(kLastPlaceIsOne)))),
                        real(kLastPlaceIsOne));
    return {b_.CreateSelect(tiny, b_.CreateFSub(k, real(54)), k), rest};
  }

  /// high + low, of which `high` is the nearest double or next to it.
  struct Pair {
    V high, low;
  };
  V exact_fma(V a, V b, V c) { return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, c}); }
  /// Exact. Neither this product nor the sum below may be fused with what is done to it.
  Pair product(V a, V b) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    b_.clearFastMathFlags();
    V high = b_.CreateFMul(a, b);
    return {high, exact_fma(a, b, b_.CreateFNeg(high))};
  }
  /// Exact, for |a| >= |b| or a = 0 (Dekker).
  Pair sum(V a, V b) {
    llvm::IRBuilderBase::FastMathFlagGuard guard(b_);
    b_.clearFastMathFlags();
    V high = b_.CreateFAdd(a, b);
    return {high, b_.CreateFSub(b, b_.CreateFSub(high, a))};
  }
  /// 2 (s + s^3 (1/3 + s^2 (1/5 + ...))) with s = (m - 1) / (m + 1), all but what follows 1/3 in two doubles.
  Pair log_in_two(V x) {
    constexpr double kThird = 0x1.5555555555555p-2, kThirdRest = 0x1.5555555555555p-56;
    auto [k, f] = take_apart(x);
    Pair divisor = sum(real(2), f);
    V inverse = b_.CreateFDiv(real(1), divisor.high), s = b_.CreateFMul(f, inverse);
    V left = fma(b_.CreateFNeg(s), divisor.low, exact_fma(b_.CreateFNeg(s), divisor.high, f));
    V s_low = b_.CreateFMul(left, inverse);
    Pair z = product(s, s);
    z.low = fma(b_.CreateFAdd(s, s), s_low, z.low);
    V tail = polynomial(
        z.high, {5.9932697592027602e-2, 5.8375733807277598e-2, 6.6681497207018202e-2, 7.6922786966477110e-2,
                 9.0909094308613731e-2, 1.1111111108807558e-1, 1.4285714285722375e-1, 1.9999999999999989e-1});
    Pair series = sum(real(kThird), b_.CreateFMul(z.high, tail));
    series.low = b_.CreateFAdd(series.low, real(kThirdRest));
    Pair third = product(z.high, series.high);
    third.low = fma(z.low, series.high, fma(z.high, series.low, third.low));
    Pair cube = product(s, third.high);
    cube.low = fma(s_low, third.high, fma(s, third.low, cube.low));
    Pair half = sum(s, cube.high);
    half.low = b_.CreateFAdd(half.low, b_.CreateFAdd(s_low, cube.low));
    Pair log = sum(b_.CreateFMul(k, real(kLn2)), b_.CreateFAdd(half.high, half.high));
    log.low = b_.CreateFAdd(log.low, fma(k, real(kLn2Rest), b_.CreateFAdd(half.low, half.low)));
    return log;
  }

  V is_odd(V n) { return b_.CreateICmpNE(b_.CreateAnd(n, integer(1)), integer(0)); }
  struct Angles {
    V sine, cosine;
  };
  /// For |r| <= pi/4.
  Angles sin_and_cos(V r) {
    V z = b_.CreateFMul(r, r);
    V s = polynomial(z, {1.5896292092144958e-10, -2.5050748565547505e-8, 2.7557313624472876e-6,
                         -1.9841269829592524e-4, 8.3333333333221199e-3, -1.6666666666666631e-1});
    V c = polynomial(z, {-1.1358732182055169e-11, 2.0875704691826315e-9, -2.7557314208689945e-7,
                         2.4801587288959479e-5, -1.3888888888873241e-3, 4.1666666666666594e-2});
    V half = b_.CreateFMul(z, real(0.5)), near = b_.CreateFSub(real(1), half);
    V lost = b_.CreateFSub(b_.CreateFSub(real(1), near), half);
    // -0 + 0 has lost its sign.
    return {with_sign_of(fma(b_.CreateFMul(s, z), r, r), r),
            b_.CreateFAdd(near, fma(b_.CreateFMul(z, z), c, lost))};
  }

  /// For -1022 <= n <= 1023.
  V power_of_two(V n) { return from_bits(b_.CreateShl(b_.CreateAdd(n, integer(1023)), 52)); }

  struct Reduced {
    V n, r;           // an integer; |r| <= ln 2 / 2
    V low = nullptr;  // what r has not the bits for, if that counts
  };
  struct Turned {
    V n, r;  // the last bits of n count quarters of a turn
  };
  /// x = n pi/2 + r, |r| <= pi/4 (and a little), for |x| <= kLargestAngle: pi/2 in four parts, the first
  /// three of 33 bits, so that their products with n are exact (fdlibm's __ieee754_rem_pio2).
  Turned by_half_pi(V x) {
    V shifted = fma(x, real(0x1.45f306dc9c883p-1), real(kLastPlaceIsOne));
    V n = b_.CreateFSub(shifted, real(kLastPlaceIsOne)), r = x;
    for (double part : {0x1.921fb544p0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69, 0x1.b839a252049c1p-104})
      r = fma(n, real(-part), r);
    return {bits(shifted), r};
  }
  /// x, or x + low, = n ln 2 + r.
  Reduced by_ln2(V x, V low = nullptr) {
    V shifted = fma(x, real(0x1.71547652b82fep0), real(kLastPlaceIsOne));
    V n = b_.CreateFSub(shifted, real(kLastPlaceIsOne)), left = fma(n, real(-kLn2), x);
    V whole = b_.CreateSub(bits(shifted), integer(std::bit_cast<uint64_t>(kLastPlaceIsOne)));
    if (!low) return {whole, fma(n, real(-kLn2Rest), left)};
    Pair r = sum(left, fma(n, real(-kLn2Rest), low));
    return {whole, r.high, r.low};
  }
  /// e^r 2^n, of which 2^n takes two factors: it may be beyond all numbers, or below the normal ones.
  V exp_of(const Reduced& x) {
    V half = b_.CreateAShr(x.n, 1), rest = b_.CreateSub(x.n, half);
    V e = b_.CreateFAdd(real(1), exp_less_one(x.r, x.low));
    return b_.CreateFMul(b_.CreateFMul(e, power_of_two(half)), power_of_two(rest));
  }
  /// e^x / 2 for x >= 0, which is finite for some numbers whose e^x is not.
  V half_exp(V x) {
    Reduced reduced = by_ln2(clamp(x, 0, 712));
    reduced.n = b_.CreateSub(reduced.n, integer(1));
    return exp_of(reduced);
  }
  /// log(1 + x): what 1 + x has lost of x is as much of the logarithm. Infinity loses nothing.
  V log_one_and(V x) {
    V sum = b_.CreateFAdd(x, real(1)), lost = b_.CreateFSub(x, b_.CreateFSub(sum, real(1)));
    V y = b_.CreateFAdd(log(sum), b_.CreateFDiv(lost, sum));
    return b_.CreateSelect(b_.CreateFCmpOEQ(x, real(kInfinity)), x, y);
  }
  /// log 2x where the square of x hides a 1 or is infinite, else y.
  V log_of_twice_if_large(V x, V y) {
    return b_.CreateSelect(b_.CreateFCmpOGT(x, real(0x1p28)),
                           b_.CreateFAdd(log(x), real(0x1.62e42fefa39efp-1)), y);
  }
  /// Taylor's series to the 13th power: what follows is below 2^-57 of r.
  V exp_less_one(V r, V low = nullptr) {
    V tail = polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                            1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
    if (low) return b_.CreateFAdd(r, fma(tail, b_.CreateFMul(r, r), low));
    return fma(tail, b_.CreateFMul(r, r), r);
  }
};
}  // namespace

llvm::Value* double_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x) {
  DoubleMath math(builder, x->getType());
  return elementary(math, f, x);
}

llvm::Value* double_power(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y) {
  return DoubleMath(builder, x->getType()).pow(x, y);
}

llvm::Value* double_remainder(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y) {
  return DoubleMath(builder, x->getType()).remainder(x, y);
}

}  // namespace lathe::codegen
