// What a relation demands of extents: of a number it is decided there, of one that is open each run decides.
#pragma once

#include "core/relay/op.h"

namespace lathe::relay::ops {

/// States that a == b in each run, where that depends on dimensions that are open. Numbers are the caller's,
/// who has words for them; of a dimension `?` nothing can be said.
void require_in_runs(RelationContext& c, const lathe::Expr& a, const lathe::Expr& b);
/// States that an extent is at least a number in each run.
void require_at_least(RelationContext& c, const lathe::Expr& extent, int64_t least);
/// States that an extent is a multiple of a number in each run.
void require_multiple(RelationContext& c, const lathe::Expr& extent, int64_t divisor);
/// States that `one` has one element in each run where `many` has any, to all of which it is repeated. It may
/// have none where that has none, as the first row of what is empty.
void require_one(RelationContext& c, const lathe::Expr& one, const lathe::Expr& many);
/// Whether broadcasting repeats what is along this dimension: it is 1, or open and no larger.
bool is_repeated(const lathe::Expr& dim);

}  // namespace lathe::relay::ops
