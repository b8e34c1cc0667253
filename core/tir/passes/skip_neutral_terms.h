// Sums whose terms are nothing at the border of an image.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// c[w] = c[w] + select(0 < w + k, x[w + k - 1], 0) * f[k]
///   ->  if (0 < w + k) c[w] = c[w] + x[w + k - 1] * f[k]
///
/// and the same with the other operations and their neutral elements: max of the lowest value. 0 times
/// anything is taken for 0, also infinity, as in every library that does not pad. Conditions that a
/// vectorized loop around changes stay selects. Runs before simplify_program, which moves the condition out
/// of the loops that do not change it, and specialize_boundaries, which gives tiles inside the image code of
/// their own.
Stmt skip_neutral_terms(const Stmt& body);

/// Whether the pass finds such a term in `store`.
bool skips_terms(const Store& store);

}  // namespace lathe::tir
