// Vectorized loops -> vector statements.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Annotates a loop over one reduction variable, innermost in a vectorized loop: its iterations are to become
/// one sum, which code generation recognises as a dot product (`dot_product` among the schedule primitives).
inline constexpr char kDotProduct[] = "dot_product";

/// for v in 0..L: a[f(v)] = g(v)  ->  a[f(ramp(0, 1, L))] = g(ramp(0, 1, L))
///
/// for v in 0..L: for k in 0..4 {dot_product}: a[v] = a[v] + g(v, k)
///   ->  a[ramp(0, 1, L)] = a[ramp(0, 1, L)] + (g(ramp(0, 1, L), 0) + ... + g(ramp(0, 1, L), 3))
///
/// A condition on v becomes: the vector statement if it holds for all lanes, else the same statement under a
/// condition of as many lanes, a mask (see If). Of `c || mask`, where c is no matter of lanes, c says whether
/// it holds for all. A loop that cannot become vectors (it accumulates along v, say) stays a serial one.
/// Throws Error when a vectorized loop's extent is not constant or above 1024. REQUIRES: no Alloc inside
/// vectorized loops (place_allocations).
Stmt vectorize_loops(const Stmt& body);

}  // namespace lathe::tir
