#pragma once

#include <cstdint>

namespace lathe {

/// Rounds toward minus infinity. REQUIRES: b != 0, and not INT64_MIN / -1.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// a - floor_div(a, b) * b, without the product, which may not fit. REQUIRES: as floor_div.
inline int64_t floor_mod(int64_t a, int64_t b) {
  const int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace lathe
