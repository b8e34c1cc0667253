#pragma once

#include <algorithm>
#include <cstdint>

namespace lathe {

/// Rounds toward minus infinity. REQUIRES: b != 0, and not INT64_MIN / -1.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// a - floor_div(a, b) * b, without the product, which may not fit. REQUIRES: as floor_div.
inline int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

/// The size that x is where coefficient * x + rest is `value`: rounded down, and never negative. That it
/// comes out even is for the caller to compare. REQUIRES: coefficient != 0.
inline int64_t linear_root(int64_t coefficient, int64_t rest, int64_t value) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(value, rest, &difference) || difference < -INT64_MAX) return 0;
  return std::max<int64_t>(floor_div(difference, coefficient), 0);
}

}  // namespace lathe
