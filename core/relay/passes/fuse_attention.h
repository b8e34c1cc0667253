// Attention in one kernel.
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// Joins primitive functions: a matrix product, the softmax of its rows, and the product that reads these
/// become one function where nothing else reads what is between them, so that scores of some rows at a time
/// stay in a core's caches (Dao et al., "FlashAttention", 2022, computes parts of rows; here rows are whole).
/// Of more rows than a few, of a length that is known, and of which the second-level cache holds several; on
/// CPUs. Runs after fuse_ops. REQUIRES: types are inferred.
Module fuse_attention(const Module& module, const Target& target);

}  // namespace lathe::relay
