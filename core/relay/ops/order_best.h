// The first few of an order, without ordering the others; of short rows, all of it.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// What `order_of_best` takes for a row of `n` elements (some thousands, where that is open), in comparisons
/// of vectors (a sixteenth of a cycle, about); infinite where it does not serve.
double cost_of_best(const Expr& n, int64_t count);

/// What `order` promises. REQUIRES: cost_of_best(the row's extent, count) is finite.
Buffer order_of_best(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, int64_t count);

}  // namespace lathe::relay::ops
