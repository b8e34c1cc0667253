#pragma once

#include <cstdint>

namespace lathe {

/// Rounds toward minus infinity. REQUIRES: b != 0, and not INT64_MIN / -1.
inline int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

}  // namespace lathe
