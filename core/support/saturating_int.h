#pragma once

#include <cmath>
#include <cstdint>

#include "core/support/dtype.h"

namespace lathe {

/// `x` truncated toward zero; what the integers of `type` do not hold becomes the nearest of them, NaN zero:
/// as LLVM's llvm.fptosi.sat and fptoui.sat, where a plain conversion is undefined.
inline int64_t saturating_int(DataType type, double x) {
  if (std::isnan(x)) return 0;
  const bool is_signed = type.code == TypeCode::kInt;
  const uint64_t most = ~uint64_t{0} >> (64 - type.bits + is_signed);
  // 2^bits or half of that: one more than the most, which a double may not tell.
  if (x >= std::ldexp(1.0, type.bits - is_signed)) return static_cast<int64_t>(most);
  const double least = is_signed ? -std::ldexp(1.0, type.bits - 1) : 0;
  if (x <= least) return is_signed ? static_cast<int64_t>(~most) : 0;
  return is_signed ? static_cast<int64_t>(x) : static_cast<int64_t>(static_cast<uint64_t>(x));
}

}  // namespace lathe
