// 8-bit operands of products -> int16, for machines that multiply pairs of these faster.
#pragma once

#include "core/relay/analysis/narrow_costs.h"

namespace lathe::relay {

/// 8-bit operands of integer products are cast to int16 where the product takes less time so by `costs`:
/// constants at once, other tensors where they are computed, so that it is int16 that lies in memory, and all
/// who read them read that. What only moves or chooses elements (NarrowRule::kChoice) moves int16. The values
/// stay what they were. REQUIRES: types are inferred, constants folded; runs before layouts are chosen.
Module widen_products(const Module& module, const NarrowCosts& costs);

}  // namespace lathe::relay
