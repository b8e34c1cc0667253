#pragma once

#include <cstddef>

namespace lathe {

/// Whether each row of a table stands where its id, an enumerator, says.
template <typename Row, size_t kSize>
constexpr bool in_order(const Row (&rows)[kSize]) {
  for (size_t i = 0; i < kSize; ++i)
    if (static_cast<size_t>(rows[i].id) != i) return false;
  return true;
}

}  // namespace lathe
