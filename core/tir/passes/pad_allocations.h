// Intermediates whose lines do not put each other out of the cache.
#pragma once

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::tir {

/// Lines that one iteration touches together, such as the points of a transform or the rows of a tile, share
/// few places of the first-level cache where they lie a multiple of a large power of two apart
/// (conflicting_lines). A dimension inside of these is made longer then, by an eighth at most, so that at
/// least half of the conflicts are gone; nobody reads what is added. A schedule can ask for the same in TVM
/// (storage_align); here it follows from the target. Runs after place_allocations, which says how large
/// buffers are, and before bodies are repeated.
Stmt pad_allocations(const Stmt& body, const Target& target);

}  // namespace lathe::tir
