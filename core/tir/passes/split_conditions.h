// Loops whose conditions change a few times, as loops without conditions one after another.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// for w in 0..9: p[w] = select(0 < h && 0 < w && w < 8, x[w - 1], 0)
///   ->  if (0 < h) { p[0] = 0; for w in 0..7: p[w + 1] = x[w]; p[8] = 0 } else for w in 0..9: p[w] = 0
///
/// Three loops as well for w in 0..n + 2, whose bounds are computed. And a loop of which `if (64 * t + w <
/// n)` is the whole body ends where that holds no more: for w in 0..max(0, min(64, n - 64 * t)).
///
/// For innermost loops: what a select tests that the loop does not change is tested before it; where a test
/// of the loop's variable alone changes, the loop is cut, as it is for `if (w < 1 || 7 < w) S`. The copies
/// and the borders of padding, above all, and these alone where the place of a cut is not known. Runs before
/// vectorizing and unrolling, which see selects of fewer conditions; simplify afterwards.
Stmt split_conditions(const Stmt& body);

}  // namespace lathe::tir
