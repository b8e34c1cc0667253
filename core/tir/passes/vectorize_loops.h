// Vectorized loops -> vector statements.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// for v in 0..L: a[f(v)] = g(v)  ->  a[f(ramp(0, 1, L))] = g(ramp(0, 1, L))
///
/// A condition on v becomes: the vector statement if it holds for all lanes, else a scalar loop. A loop that
/// cannot become vectors (it accumulates along v, say) stays a serial one. Throws Error when a vectorized
/// loop's extent is not constant or above 1024. REQUIRES: no Alloc inside vectorized loops
/// (place_allocations).
Stmt vectorize_loops(const Stmt& body);

}  // namespace lathe::tir
