// Vectors whose elements are loaded from elsewhere than from one line in memory, in other ways than by a
// gather.
#pragma once

#include "schedules/anatomy.h"

namespace lathe::schedule {

/// Whether `value` loads neighbours when `lane` runs through vectors of `width` that begin at its multiples:
/// x[(256 * i + lane) // 64, lane % 64], what a reshape leaves, does.
bool loads_contiguously_by_vectors(const tir::Block& block, const Expr& value, const Var& lane,
                                   int64_t width);

/// Whether each load is of a few runs of neighbours for such a vector, which code generation puts together in
/// registers: what that takes is less than to load and store its elements. Two runs where channels in blocks
/// are shifted by another number than a block has. `most`: runs of a load; 0: as many as pay.
bool loads_in_runs(const tir::Block& block, const Expr& value, const Var& lane, int64_t width,
                   int64_t most = 0);

}  // namespace lathe::schedule
