// What dimensions are taken for where they are open and nothing says more.
#pragma once

#include <cstdint>

namespace lathe {

/// More than a vector and a register tile have, few enough for the caches, and a whole number of both, so
/// that nothing is padded for its sake. Of an image inside a network this is about what its first layers see.
inline constexpr int64_t kTypicalDim = 64;
/// Rows and columns of the images that a network is given: behind five strides of 2 some are left.
inline constexpr int64_t kTypicalImage = 256;

}  // namespace lathe
