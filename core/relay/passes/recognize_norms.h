#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Normalizations that are written out in means, differences, squares and roots become nn.standardize, which
/// one kernel computes row by row; an nn.instance_norm between reshapes that make channels of groups becomes
/// nn.group_norm. Equal expressions must be one (eliminate_common_subexpr).
Ref<Function> recognize_norms(const Ref<Function>& function);

}  // namespace lathe::relay
