// Operator fusion.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Groups operators into primitive functions (attrs.primitive), each of which becomes one kernel: Roesch et
/// al. 2019, section 4.4. An operator joins the group of its immediate post-dominator when every operator on
/// all the paths between them may be combined, by their Fusion patterns. Calls of operators that stay alone
/// become primitive functions too; scalar constants move inside, other constants become arguments. REQUIRES:
/// types are inferred. Runs after layout alteration, which needs single operators.
Module fuse_ops(const Module& module);

}  // namespace lathe::relay
