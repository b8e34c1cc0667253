#include "core/codegen/llvm/double_math.h"

#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <limits>

#include "core/codegen/llvm/float_ops.h"
#include "core/support/error.h"

namespace lathe::codegen {
namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
/// ln 2 in two parts, the first of 32 bits: its products with exponents are exact (Cody and Waite).
constexpr double kLn2 = 0x1.62e42feep-1, kLn2Rest = 0x1.a39ef35793c76p-33;
/// A double whose last place is 1: what is added to it lies as an integer in its last bits. That is a
/// conversion that vectors have without instructions of their own for 64 bits, and NaN may go through.
constexpr double kLastPlaceIsOne = 0x1.8p52;

/// A double or vector of doubles.
class DoubleMath final : public FloatOps {
 public:
  using FloatOps::FloatOps;

  /// Subnormal results too: 2^n in two factors.
  V exp(V x) {
    // Beyond these it is 0, and infinity.
    const Reduced reduced = by_ln2(clamp(x, -746, 710));
    V half = b_.CreateAShr(reduced.n, 1), rest = b_.CreateSub(reduced.n, half);
    V e = b_.CreateFAdd(real(1), exp_less_one(reduced.r));
    return b_.CreateFMul(b_.CreateFMul(e, power_of_two(half)), power_of_two(rest));
  }

  /// x = 2^k m with m in [sqrt(1/2), sqrt(2)); log m by s = (m - 1) / (m + 1) (fdlibm's __ieee754_log).
  V log(V x) {
    constexpr auto kSqrtHalf = std::bit_cast<uint64_t>(0x1.6a09e667f3bcdp-1);
    V tiny = b_.CreateFCmpOLT(x, real(std::numeric_limits<double>::min()));
    V all = bits(b_.CreateSelect(tiny, b_.CreateFMul(x, real(0x1p54)), x));
    V exponent = b_.CreateAShr(b_.CreateSub(all, integer(kSqrtHalf)), 52);
    V f = b_.CreateFSub(from_bits(b_.CreateSub(all, b_.CreateShl(exponent, 52))), real(1));
    V k = b_.CreateFSub(from_bits(b_.CreateAdd(exponent, integer(std::bit_cast<uint64_t>(kLastPlaceIsOne)))),
                        real(kLastPlaceIsOne));
    k = b_.CreateSelect(tiny, b_.CreateFSub(k, real(54)), k);
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

  V sigmoid(V x) { return b_.CreateFDiv(real(1), b_.CreateFAdd(real(1), exp(b_.CreateFNeg(x)))); }

 private:
  /// For -1022 <= n <= 1023.
  V power_of_two(V n) { return from_bits(b_.CreateShl(b_.CreateAdd(n, integer(1023)), 52)); }

  struct Reduced {
    V n, r;  // an integer; |r| <= ln 2 / 2
  };
  /// x = n ln 2 + r.
  Reduced by_ln2(V x) {
    V shifted = fma(x, real(0x1.71547652b82fep0), real(kLastPlaceIsOne));
    V n = b_.CreateFSub(shifted, real(kLastPlaceIsOne));
    V r = fma(n, real(-kLn2Rest), fma(n, real(-kLn2), x));
    return {b_.CreateSub(bits(shifted), integer(std::bit_cast<uint64_t>(kLastPlaceIsOne))), r};
  }
  /// Taylor's series to the 13th power: what follows is below 2^-57 of r.
  V exp_less_one(V r) {
    V tail = polynomial(r, {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
                            1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5});
    return fma(tail, b_.CreateFMul(r, r), r);
  }
};
}  // namespace

bool has_double_math(Intrinsic f) {
  return f == Intrinsic::kExp || f == Intrinsic::kLog || f == Intrinsic::kTanh || f == Intrinsic::kSigmoid;
}

llvm::Value* double_math(llvm::IRBuilder<>& builder, Intrinsic f, llvm::Value* x) {
  DoubleMath math(builder, x->getType());
  switch (f) {
    case Intrinsic::kExp:
      return math.exp(x);
    case Intrinsic::kLog:
      return math.log(x);
    case Intrinsic::kTanh:
      return math.tanh(x);
    case Intrinsic::kSigmoid:
      return math.sigmoid(x);
    default:
      CHECK(false, "{} of doubles is the C library's", spelling(f));
  }
}

}  // namespace lathe::codegen
