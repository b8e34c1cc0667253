// Which axes reductions, and pools that are such, take together.
#pragma once

#include <optional>

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay::ops {

/// The axes that vanish, ascending. REQUIRES: accepted by the relation.
Ints reduced_axes(const std::optional<Ints>& axis, bool exclude, size_t rank);

/// The attributes of the reduction that a global pool with these (AdaptivePoolAttrs) is on an operand of that
/// rank; null where channels are not second.
Attrs global_reduction(const Attrs& attrs, size_t rank);

}  // namespace lathe::relay::ops
