#include "core/codegen/llvm/vector_math.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <limits>

#include "core/codegen/llvm/float_ops.h"
#include "core/codegen/llvm/lanes.h"

namespace lathe::codegen {
namespace {
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kHalfPi = 1.5707963267948966, kLn2 = 0.6931471805599453;

/// A float or vector of floats.
class Math final : public FloatOps {
 public:
  Math(llvm::IRBuilder<>& b, llvm::Type* type, unsigned avx512_lanes)
      : FloatOps(b, type),
        most_lanes_(avx512_lanes),
        scales_(avx512_lanes > 0 && llvm::isa<llvm::FixedVectorType>(type)) {}

  V to_int(V x) { return b_.CreateFPToSI(x, int_type_); }
  V to_real(V x) { return b_.CreateSIToFP(x, type_); }
  /// 2^n for -126 <= n <= 127; 0 for -127, infinity for 128.
  V power_of_two(V n) { return from_bits(b_.CreateShl(b_.CreateAdd(n, integer(127)), integer(23))); }

  /// x 2^floor(n), and as that would be for a NaN or an infinite n, in one instruction.
  V scaled(V x, V n);
  /// 1 / x within a unit in the last place, of numbers from 2^-126 to 2^126: a division of 16 lanes takes as
  /// long as 16 other instructions.
  V reciprocal(V x);
  /// x / c, rounded as a division rounds it unless it is subnormal: what a product with 1/c leaves over,
  /// added (P. Markstein, "Computation of elementary functions on the IBM RISC System/6000 processor", 1990).
  V divided_by(V x, float c);

  V exp(V x);
  V exp_of_bounded(V x);  // -87.4 <= x <= 88.8
  V exp_of_normal(V x);   // -87 <= x <= 88.8; infinity already from 88.4 on
  V log(V x);
  V tanh(V x);
  V sigmoid(V x);
  V erf(V x);
  V sin_or_cos(V x, bool cosine);
  V tan(V x);
  V asin(V x);
  V acos(V x);
  V atan(V x);
  V sinh(V x);
  V cosh(V x);
  V asinh(V x);
  V acosh(V x);
  V atanh(V x);
  V pow(V x, V y);

 private:
  /// An instruction of AVX-512 has a form for each width of registers: a longer vector than one goes through
  /// in pieces, a shorter one is filled up. `instruction(lanes, begin)` makes one piece of what x has.
  template <typename Instruction>
  V by_register(V x, Instruction&& instruction);
  /// The mask operand of such an instruction; it is 8 bits for 4 lanes too.
  V all_lanes(unsigned lanes) {
    return b_.getIntN(std::max(lanes, 8u), ~uint64_t{0} >> (64 - std::max(lanes, 8u)));
  }
  struct Reduced {
    V n, r;
  };
  struct PowerOfTwo {
    V n, r;
    V whole;  // n as an integer, null where `scaled` needs none
  };
  /// x = n pi/2 + r, |r| <= pi/4; of 0 for what is beyond `kLargestFloatAngle` or no number.
  Reduced reduce_by_half_pi(V x) {
    V finite = b_.CreateFCmpOLE(call(llvm::Intrinsic::fabs, x), real(kLargestFloatAngle));
    V bounded = b_.CreateSelect(finite, x, real(0));
    V n = call(llvm::Intrinsic::roundeven, b_.CreateFMul(bounded, real(0.636619772f)));
    V r = bounded;
    // pi/2 in three parts, the first ones short, so that their products with n are exact while n is small
    // (Cody and Waite).
    for (float part : {-1.5703125f, -4.837512969970703125e-4f, -7.54978995489188216e-8f})
      r = fma(n, real(part), r);
    return {n, r};
  }
  /// y, and NaN where x is NaN or infinite.
  V where_finite(V x, V y) {
    V is_number = b_.CreateFCmpOLT(call(llvm::Intrinsic::fabs, x), real(kInfinity));
    return b_.CreateSelect(is_number, y, real(std::numeric_limits<float>::quiet_NaN()));
  }
  /// asin of a magnitude: up to 1/2 `value`; above it pi/2 - 2 `value`.
  struct Asin {
    V is_large, value;
  };
  Asin asin_of_magnitude(V a);
  /// x = 2^exponent mantissa, with the mantissa in [sqrt(1/2), sqrt(2)), for positive finite x.
  struct Parts {
    V exponent, mantissa;
  };
  Parts take_apart(V x);

  /// x = n ln 2 + r, |r| <= ln 2 / 2. ln 2 in two parts, the first short enough that n times it is exact
  /// (Cody and Waite).
  PowerOfTwo reduce_by_ln2(V x) {
    // Where n is needed as an integer, it is read from the last bits of a float whose last place is 1. That
    // is a conversion which NaN may go through: it has no integer, but r is NaN as well.
    constexpr double kLastPlaceIsOne = 0x1.8p23;
    constexpr uint32_t kItsBits = 0x4b400000;
    V n = nullptr, whole = nullptr;
    if (scales_) {
      n = call(llvm::Intrinsic::roundeven, b_.CreateFMul(x, real(1.44269504f)));
    } else {
      V shifted = fma(x, real(1.44269504f), real(kLastPlaceIsOne));
      n = b_.CreateFSub(shifted, real(kLastPlaceIsOne));
      whole = b_.CreateSub(bits(shifted), integer(kItsBits));
    }
    V r = fma(n, real(-0.693359375f), x);
    return {n, fma(n, real(2.12194440e-4f), r), whole};
  }
  V exp_of_rest(V r) { return b_.CreateFAdd(fma(exp_tail(r), b_.CreateFMul(r, r), r), real(1)); }
  /// (e^r - 1 - r) / r^2 for |r| <= ln 2 / 2 (coefficients of Cephes' expf).
  V exp_tail(V r) {
    return polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                          1.6666665459e-1f, 5.0000001201e-1f});
  }

  unsigned most_lanes_;
  bool scales_;  // there is an instruction for `scaled`
};

template <typename Instruction>
Math::V Math::by_register(V x, Instruction&& instruction) {
  const unsigned all = lane_count(x), lanes = std::min(register_lanes(all), most_lanes_);
  V result = nullptr;
  for (unsigned begin = 0; begin < all; begin += lanes) {
    V part = instruction(lanes, begin);
    if (!result) {
      result = with_lanes(b_, part, all);
      continue;
    }
    std::vector<int> order(all);  // `begin` lanes so far, then these
    for (unsigned l = 0; l < all; ++l)
      order[l] = static_cast<int>(l < begin || l >= begin + lanes ? l : all + l);
    std::vector<int> place(all, llvm::PoisonMaskElem);
    for (unsigned l = begin; l < std::min(all, begin + lanes); ++l) place[l] = static_cast<int>(l - begin);
    result = b_.CreateShuffleVector(result, b_.CreateShuffleVector(part, place), order);
  }
  return result;
}

Math::V Math::scaled(V x, V n) {
  return by_register(x, [&](unsigned lanes, unsigned begin) {
    auto instruction = lanes == 16  ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_512
                       : lanes == 8 ? llvm::Intrinsic::x86_avx512_mask_scalef_ps_256
                                    : llvm::Intrinsic::x86_avx512_mask_scalef_ps_128;
    V part = with_lanes(b_, x, lanes, begin);
    std::vector<V> args{part, with_lanes(b_, n, lanes, begin), llvm::PoisonValue::get(part->getType()),
                        all_lanes(lanes)};
    if (lanes == 16) args.push_back(b_.getInt32(4));  // rounded as the thread says
    return b_.CreateIntrinsic(instruction, {}, args);
  });
}

Math::V Math::reciprocal(V x) {
  if (!scales_) return b_.CreateFDiv(real(1), x);
  V guess = by_register(x, [&](unsigned lanes, unsigned begin) {
    auto instruction = lanes == 16  ? llvm::Intrinsic::x86_avx512_rcp14_ps_512
                       : lanes == 8 ? llvm::Intrinsic::x86_avx512_rcp14_ps_256
                                    : llvm::Intrinsic::x86_avx512_rcp14_ps_128;
    V part = with_lanes(b_, x, lanes, begin);
    return b_.CreateIntrinsic(instruction, {},
                              {part, llvm::PoisonValue::get(part->getType()), all_lanes(lanes)});
  });
  // One step of Newton doubles its 14 bits.
  return fma(guess, fma(b_.CreateFNeg(guess), x, real(1)), guess);
}

Math::V Math::divided_by(V x, float c) {
  const float inverse = 1 / c;
  auto exact_fma = [&](V a, V b, V sum) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, sum});
  };
  V guess = b_.CreateFMul(x, real(inverse));
  V rest = exact_fma(guess, real(-c), x);
  // Nothing is left of a zero, whose sign the sum would lose, and no number of what is not finite.
  return b_.CreateSelect(b_.CreateFCmpONE(rest, real(0)), exact_fma(rest, real(inverse), guess), guess);
}

/// Beyond the upper bound the result is infinity. Below the logarithm of the least normal number it is 0, not
/// subnormal: processors that compute with subnormal numbers by microcode take a hundred cycles for each
/// vector that holds one, here and wherever the result goes. A mask of -100 before a softmax makes most of
/// them so.
Math::V Math::exp(V x) {
  constexpr float kLeastNormal = -87.3365f;  // its logarithm is -87.33654...
  V y = exp_of_bounded(clamp(x, kLeastNormal, 88.8f));
  return b_.CreateSelect(b_.CreateFCmpOLT(x, real(kLeastNormal)), real(0), y);
}

/// e^x = 2^n e^r.
Math::V Math::exp_of_bounded(V x) {
  auto [n, r, whole] = reduce_by_ln2(x);
  V y = exp_of_rest(r);
  if (scales_) return scaled(y, n);
  // 2^n in two steps: n reaches from -126 to 128.
  V half = b_.CreateAShr(whole, integer(1));
  return b_.CreateFMul(b_.CreateFMul(y, power_of_two(half)), power_of_two(b_.CreateSub(whole, half)));
}

Math::V Math::exp_of_normal(V x) {
  auto [n, r, whole] = reduce_by_ln2(x);
  V y = exp_of_rest(r);
  return scales_ ? scaled(y, n) : b_.CreateFMul(y, power_of_two(whole));
}

Math::Parts Math::take_apart(V x) {
  // Subnormals are scaled up first.
  V tiny = b_.CreateFCmpOLT(x, real(std::numeric_limits<float>::min()));
  V scaled = b_.CreateSelect(tiny, b_.CreateFMul(x, real(0x1p23f)), x);
  // 0x3f3504f3 are the bits of sqrt(1/2): counted from there, exponents change where the mantissa's interval
  // ends.
  V offset = b_.CreateSub(bits(scaled), integer(0x3f3504f3));
  V n = b_.CreateAShr(offset, integer(23));
  V m = from_bits(b_.CreateSub(bits(scaled), b_.CreateShl(n, integer(23))));
  return {b_.CreateSub(n, b_.CreateSelect(tiny, integer(23), integer(0))), m};
}

/// log x = e ln 2 + log m, by a polynomial in f = m - 1; e ln 2 is added in two parts, the small one first.
Math::V Math::log(V x) {
  auto [n, m] = take_apart(x);
  V f = b_.CreateFSub(m, real(1)), square = b_.CreateFMul(f, f), e = to_real(n);
  // Coefficients of Cephes' logf.
  V p = polynomial(
      f, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
          -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
  V y = b_.CreateFMul(b_.CreateFMul(f, square), p);
  y = fma(e, real(-2.12194440e-4f), y);
  y = fma(square, real(-0.5f), y);
  y = fma(e, real(0.693359375f), b_.CreateFAdd(f, y));
  // "Unordered or less": NaN is invalid too.
  V zero = b_.CreateFCmpOEQ(x, real(0)), invalid = b_.CreateFCmpULT(x, real(0));
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, real(kInfinity)), x, y);
  y = b_.CreateSelect(zero, real(-kInfinity), y);
  return b_.CreateSelect(invalid, real(std::numeric_limits<float>::quiet_NaN()), y);
}

/// An odd rational function (coefficients of Eigen's ptanh, by the last one, so that tiny numbers do not
/// become subnormal on the way); beyond 9 float32 knows only 1.
Math::V Math::tanh(V x) {
  constexpr double kLast = 4.89352518554385e-3;
  V bounded = clamp(x, -9.0f, 9.0f), square = b_.CreateFMul(bounded, bounded);
  V p = polynomial(
      square, {-2.76076847742355e-16 / kLast, 2.00018790482477e-13 / kLast, -8.60467152213735e-11 / kLast,
               5.12229709037114e-08 / kLast, 1.48572235717979e-05 / kLast, 6.37261928875436e-04 / kLast,
               4.89352455891786e-03 / kLast});
  V q = polynomial(
      square, {1.19825839466702e-06 / kLast, 1.18534705686654e-04 / kLast, 2.26843463243900e-03 / kLast, 1});
  return clamp(b_.CreateFMul(b_.CreateFMul(bounded, p), reciprocal(q)), -1, 1);
}

/// Where e^-x overflows, 1 over infinity is 0, as it should be; where it would be subnormal, 1 is added to
/// it. Other instructions fill the time of its division.
Math::V Math::sigmoid(V x) {
  V minus_x = b_.CreateFNeg(x);
  V power = scales_ ? exp(minus_x) : exp_of_normal(clamp(minus_x, -87.0f, 88.8f));
  return b_.CreateFDiv(real(1), b_.CreateFAdd(real(1), power));
}

/// An odd rational function (coefficients of Eigen's generic erf); beyond 4 float32 knows only 1.
Math::V Math::erf(V x) {
  constexpr double kLast = -1.42647390514189e-2;
  V bounded = clamp(x, -4.0f, 4.0f), square = b_.CreateFMul(bounded, bounded);
  V p = polynomial(
      square, {-2.72614225801306e-10 / kLast, 2.77068142495902e-08 / kLast, -2.10102402082508e-06 / kLast,
               -5.69250639462346e-05 / kLast, -7.34990630326855e-04 / kLast, -2.95459980854025e-03 / kLast,
               -1.60960333262415e-02 / kLast});
  V q = polynomial(square, {-1.45660718464996e-05 / kLast, -2.13374055278905e-04 / kLast,
                            -1.68282697438203e-03 / kLast, -7.37332916720468e-03 / kLast, 1});
  return clamp(b_.CreateFMul(b_.CreateFMul(bounded, p), reciprocal(q)), -1, 1);
}

/// The quadrant picks the polynomial and the sign (coefficients of Cephes' sinf and cosf).
Math::V Math::sin_or_cos(V x, bool cosine) {
  auto [n, r] = reduce_by_half_pi(x);
  V square = b_.CreateFMul(r, r);
  V s = polynomial(square, {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f});
  s = fma(b_.CreateFMul(s, square), r, r);
  V c = polynomial(square, {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f});
  c = b_.CreateFAdd(fma(b_.CreateFMul(c, square), square, b_.CreateFMul(square, real(-0.5f))), real(1));
  // cos x = sin(x + pi/2): the next quadrant. Odd ones take the other polynomial, quadrants 2 and 3 the other
  // sign.
  V quadrant = to_int(n);
  if (cosine) quadrant = b_.CreateAdd(quadrant, integer(1));
  V odd = b_.CreateICmpNE(b_.CreateAnd(quadrant, integer(1)), integer(0));
  V negative = b_.CreateShl(b_.CreateAnd(quadrant, integer(2)), integer(30));
  return where_finite(x, from_bits(b_.CreateXor(bits(b_.CreateSelect(odd, c, s)), negative)));
}

/// Cephes' tanf; -1 / tan r in odd quadrants.
Math::V Math::tan(V x) {
  auto [n, r] = reduce_by_half_pi(x);
  V square = b_.CreateFMul(r, r);
  V t = polynomial(square, {9.38540185543e-3f, 3.11992232697e-3f, 2.44301354525e-2f, 5.34112807005e-2f,
                            1.33387994085e-1f, 3.33331568548e-1f});
  t = fma(b_.CreateFMul(t, square), r, r);
  V odd = b_.CreateICmpNE(b_.CreateAnd(to_int(n), integer(1)), integer(0));
  return where_finite(x, b_.CreateSelect(odd, b_.CreateFDiv(real(-1), t), t));
}

/// Cephes' asinf: above 1/2 by the half angle, whose sine is sqrt((1 - a) / 2).
Math::Asin Math::asin_of_magnitude(V a) {
  V is_large = b_.CreateFCmpOGT(a, real(0.5f));
  V square =
      b_.CreateSelect(is_large, b_.CreateFMul(b_.CreateFSub(real(1), a), real(0.5f)), b_.CreateFMul(a, a));
  V sine = b_.CreateSelect(is_large, call(llvm::Intrinsic::sqrt, square), a);
  V p = polynomial(
      square, {4.2163199048e-2f, 2.4181311049e-2f, 4.5470025998e-2f, 7.4953002686e-2f, 1.6666752422e-1f});
  return {is_large, fma(b_.CreateFMul(p, square), sine, sine)};
}

Math::V Math::asin(V x) {
  auto [is_large, value] = asin_of_magnitude(call(llvm::Intrinsic::fabs, x));
  V large = fma(value, real(-2), real(kHalfPi));
  return with_sign_of(b_.CreateSelect(is_large, large, value), x);
}

/// pi/2 - asin x, and for large magnitudes straight from the half angle, where the subtraction would cancel.
Math::V Math::acos(V x) {
  auto [is_large, value] = asin_of_magnitude(call(llvm::Intrinsic::fabs, x));
  V twice = b_.CreateFMul(value, real(2));
  V large = b_.CreateSelect(b_.CreateFCmpOLT(x, real(0)), b_.CreateFSub(real(2 * kHalfPi), twice), twice);
  return b_.CreateSelect(is_large, large, b_.CreateFSub(real(kHalfPi), with_sign_of(value, x)));
}

/// Cephes' atanf: beyond tan(3 pi/8) of -1/a, beyond tan(pi/8) of (a - 1) / (a + 1).
Math::V Math::atan(V x) {
  V a = call(llvm::Intrinsic::fabs, x);
  V large = b_.CreateFCmpOGT(a, real(2.414213562373095f)),
    medium = b_.CreateFCmpOGT(a, real(0.4142135623730950f));
  // One division for all three cases: its operands are chosen, not its results.
  auto choose = [&](V if_large, V if_medium, V if_small) {
    return b_.CreateSelect(large, if_large, b_.CreateSelect(medium, if_medium, if_small));
  };
  V t = b_.CreateFDiv(choose(real(-1), b_.CreateFSub(a, real(1)), a),
                      choose(a, b_.CreateFAdd(a, real(1)), real(1)));
  V square = b_.CreateFMul(t, t);
  V p = polynomial(square, {8.05374449538e-2f, -1.38776856032e-1f, 1.99777106478e-1f, -3.33329491539e-1f});
  V y = fma(b_.CreateFMul(p, square), t, t);
  return with_sign_of(b_.CreateFAdd(choose(real(kHalfPi), real(kHalfPi / 2), real(0)), y), x);
}

/// By e^(a/2), which is finite where the result is; an odd polynomial below 1 (Cephes' sinhf).
Math::V Math::sinh(V x) {
  V a = call(llvm::Intrinsic::fabs, x), root = exp(b_.CreateFMul(a, real(0.5f)));
  V large = b_.CreateFSub(b_.CreateFMul(b_.CreateFMul(root, real(0.5f)), root),
                          b_.CreateFDiv(real(0.5f), b_.CreateFMul(root, root)));
  V square = b_.CreateFMul(a, a);
  V p = polynomial(square, {2.03721912945e-4f, 8.33028376239e-3f, 1.66667160211e-1f});
  V small = fma(b_.CreateFMul(p, square), a, a);
  return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, real(1)), small, large), x);
}

/// (e^a + e^-a) / 2, by e^(a/2) for the reason given at sinh.
Math::V Math::cosh(V x) {
  V root = exp(b_.CreateFMul(call(llvm::Intrinsic::fabs, x), real(0.5f)));
  return b_.CreateFAdd(b_.CreateFMul(b_.CreateFMul(root, real(0.5f)), root),
                       b_.CreateFDiv(real(0.5f), b_.CreateFMul(root, root)));
}

/// log(a + sqrt(a^2 + 1)), log(2a) for large a, an odd polynomial below 1/2 (Cephes' asinhf).
Math::V Math::asinh(V x) {
  V a = call(llvm::Intrinsic::fabs, x), square = b_.CreateFMul(a, a);
  V huge = b_.CreateFCmpOGT(a, real(1500));
  V root = call(llvm::Intrinsic::sqrt, b_.CreateFAdd(square, real(1)));
  V large = b_.CreateFAdd(log(b_.CreateSelect(huge, a, b_.CreateFAdd(a, root))),
                          b_.CreateSelect(huge, real(kLn2), real(0)));
  V p = polynomial(square, {2.0122003309e-2f, -4.2699340972e-2f, 7.4847586088e-2f, -1.6666288134e-1f});
  V small = fma(b_.CreateFMul(p, square), a, a);
  return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, real(0.5f)), small, large), x);
}

/// The same for x - 1 (Cephes' acoshf); NaN below 1, as its root is.
Math::V Math::acosh(V x) {
  V z = b_.CreateFSub(x, real(1)), huge = b_.CreateFCmpOGT(x, real(1500));
  V root = call(llvm::Intrinsic::sqrt, b_.CreateFMul(z, b_.CreateFAdd(x, real(1))));
  V large = b_.CreateFAdd(log(b_.CreateSelect(huge, x, b_.CreateFAdd(x, root))),
                          b_.CreateSelect(huge, real(kLn2), real(0)));
  V p = polynomial(
      z, {1.7596881071e-3f, -7.5272886713e-3f, 2.6454905019e-2f, -1.1784741703e-1f, 1.4142135263e0f});
  V small = b_.CreateFMul(p, call(llvm::Intrinsic::sqrt, z));
  return b_.CreateSelect(b_.CreateFCmpOLT(z, real(0.5f)), small, large);
}

/// log((1 + a) / (1 - a)) / 2; an odd polynomial below 1/2 (Cephes' atanhf).
Math::V Math::atanh(V x) {
  V a = call(llvm::Intrinsic::fabs, x), square = b_.CreateFMul(a, a);
  V large =
      b_.CreateFMul(log(b_.CreateFDiv(b_.CreateFAdd(real(1), a), b_.CreateFSub(real(1), a))), real(0.5f));
  V p = polynomial(square, {1.81740078349e-1f, 8.24370301058e-2f, 1.46691431730e-1f, 1.99782164500e-1f,
                            3.33337300303e-1f});
  V small = fma(b_.CreateFMul(p, square), a, a);
  return with_sign_of(b_.CreateSelect(b_.CreateFCmpOLT(a, real(0.5f)), small, large), x);
}

/// 2^(y log2 |x|) in float64: y log2 |x| reaches 150, whose last bits in float32 would be most of the
/// result's.
Math::V Math::pow(V x, V y) {
  // 0: the instruction for `scaled` is one of float32.
  Math wide(b_, type_->getWithNewType(b_.getDoubleTy()), 0);
  auto widened = [&](V v) { return b_.CreateFPExt(v, wide.type_); };
  V a = call(llvm::Intrinsic::fabs, x), exponent = widened(y);
  // log2 m = 2 / ln 2 (s + s^3/3 + s^5/5 + ...) with s = (m - 1) / (m + 1), |s| <= 0.172.
  auto [n, mantissa] = take_apart(a);
  V m = widened(mantissa);
  V s = b_.CreateFDiv(b_.CreateFSub(m, wide.real(1)), b_.CreateFAdd(m, wide.real(1)));
  V square = b_.CreateFMul(s, s);
  V series = wide.polynomial(square, {1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  V log2 =
      wide.fma(b_.CreateFMul(s, series), wide.real(2 * 1.4426950408889634), b_.CreateSIToFP(n, wide.type_));
  log2 = b_.CreateSelect(b_.CreateFCmpOEQ(a, real(0)), wide.real(-kInfinity), log2);
  // Infinity and NaN are their own logarithms.
  log2 = b_.CreateSelect(b_.CreateFCmpUGE(a, real(kInfinity)), widened(a), log2);
  // 2^t = 2^round(t) e^(r ln 2), which float32 rounds, overflows and underflows as it should.
  V t = wide.clamp(b_.CreateFMul(exponent, log2), -200, 200);
  V is_nan = b_.CreateFCmpUNO(t, t);
  t = b_.CreateSelect(is_nan, wide.real(0), t);
  V whole = wide.call(llvm::Intrinsic::roundeven, t);
  V r = b_.CreateFMul(b_.CreateFSub(t, whole), wide.real(0.6931471805599453));
  V fraction = wide.polynomial(
      r, {1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0});
  llvm::Type* long_type = type_->getWithNewType(b_.getInt64Ty());
  V biased = b_.CreateSExt(b_.CreateAdd(b_.CreateFPToSI(whole, int_type_), integer(1023)), long_type);
  V scale = b_.CreateBitCast(b_.CreateShl(biased, llvm::ConstantInt::get(long_type, 52)), wide.type_);
  V magnitude = b_.CreateFPTrunc(b_.CreateFMul(fraction, scale), type_);
  magnitude = b_.CreateSelect(is_nan, real(std::numeric_limits<float>::quiet_NaN()), magnitude);
  return signed_power(x, y, magnitude);
}
}  // namespace

llvm::Value* vector_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x, unsigned avx512_lanes) {
  Math math(builder, x->getType(), avx512_lanes);
  return elementary(math, f, x);
}

llvm::Value* vector_quotient(llvm::IRBuilder<>& builder, llvm::Value* x, float c) {
  return Math(builder, x->getType(), 0).divided_by(x, c);
}

llvm::Value* vector_power(llvm::IRBuilder<>& builder, llvm::Value* x, llvm::Value* y) {
  return Math(builder, x->getType(), 0).pow(x, y);
}

}  // namespace lathe::codegen
