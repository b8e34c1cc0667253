// Intermediates, no larger and no longer alive than they must be.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Moves each Alloc inward to the innermost statement that holds all uses of its buffer, but not into a loop
/// that accumulates in the buffer or fills it in some iterations for all to read, nor into a vectorized or
/// unrolled one; then shrinks the buffer to the box that is used there and rebases its indices. A buffer of
/// one element a tile becomes a register this way. Runs after lower_blocks and before vectors appear: boxes
/// are computed from scalar indices.
Stmt place_allocations(const Stmt& body);

}  // namespace lathe::tir
