// The first few of an order, without ordering the others; of short rows, all of it.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// What `order_of_best` takes for a row of `n` elements, in comparisons of vectors (a sixteenth of a cycle,
/// about); infinite where it does not serve.
double cost_of_best(int64_t n, int64_t count);

/// What `order` promises. REQUIRES: the row's extent is constant, and cost_of_best(extent, count) is finite.
Buffer order_of_best(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, int64_t count);

}  // namespace lathe::relay::ops
