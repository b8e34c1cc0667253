// Orders of rows.
#pragma once

#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {

/// The positions (int64) of the first `count` elements of each row of `x` along `axis` in order, by what
/// takes the least time for so many. Equal ones keep their order, and NaN stands behind all numbers.
Buffer order(FuncBuilder& f, const Buffer& x, size_t axis, bool ascending, const Expr& count);

}  // namespace lathe::relay::ops
