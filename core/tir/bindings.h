// Whether the loops around a block visit its iterators as they must.
#pragma once

#include "core/tir/regions.h"

namespace lathe::tir {

/// The values that `e`, linear in independent variables of constant range, takes; both ends are taken.
/// Nothing when it is not of that form.
std::optional<Bound> exact_range(const Expr& e, const Domain& domain);

/// Nothing, or what is wrong with how `loops` (those around the block inside its parent, outermost first)
/// bind the block's iterators: a value provably outside its extent, a reduction step that is missed or
/// visited twice. Spatial values may be visited several times (a producer recomputed for overlapping tiles),
/// reduction values exactly once. Exact where at most `kEnumeratedSteps` loop iterations take part in the
/// reduction; for more, the number of steps is compared only, and only where no predicate cuts it.
inline constexpr int64_t kEnumeratedSteps = 2048;
std::optional<std::string> find_binding_fault(const Block& block, const Domain& loops,
                                              const Analyzer& analyzer);

}  // namespace lathe::tir
