// Tiles of tiles that lie beyond an open edge.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// for t in 0..8 { for u in 0..16 { if (16*t + u < n) S } }
///   ->  for t in 0..8 { if (16*t < n) { for u in 0..16 { if (16*t + u < n) S } } }
///
/// where all that the loop over t writes for others to read stands under such a test, and a loop inside that
/// stays a loop asks it each time. A small part of a tile is most of what an open dimension may be, and what
/// its empty tiles prepare is for nobody. Runs before specialize_boundaries, which moves tests out of loops
/// that become straight code, and after place_allocations, which tells what one iteration alone has.
Stmt skip_empty_tiles(const Stmt& body);

}  // namespace lathe::tir
