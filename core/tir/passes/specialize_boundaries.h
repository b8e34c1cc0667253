// Tiles that stick out over an edge, apart from those that do not.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// for t: ... for i unrolled or vectorized: if (6*t + i < 7) S
///   ->  for t: if (t < 1) { ... for i: S } else { ... for i: if (6 + i < 7) S }
///
/// Where a condition (of a select too, if it chooses by lanes) depends on loops outside and on the loops of a
/// tile (or on i // 4 and i % 4 of one), the test moves out of the tile to where the outer ones are known,
/// and each side is simplified by what it then knows; often the second side is one known tile, and unrolling
/// it leaves no condition at all. Where the edge depends on an open dimension there are copies for each place
/// that it may have in a tile, if these are few: each number of rows, and of whole vectors, behind which at
/// most one is under a mask. Runs before vectorizing and unrolling; simplify afterwards.
Stmt specialize_boundaries(const Stmt& body);

}  // namespace lathe::tir
