// Weights that lie in memory in the fewest bits that hold them.
#pragma once

#include "core/relay/expr.h"
#include "core/tir/target.h"

namespace lathe::relay {

/// Constant weights of float32 that float16 holds exactly, as those of a model that is given in float16,
/// become float16, widened by a cast within the kernel that multiplies them: of few rows it reads half the
/// bytes, of many it may keep what the cast gives (schedules/spaces/storage.cpp). Only where rows are few or
/// known to a run alone, and weights too large to stay in a cache: others gain nothing. Nothing is rounded.
/// REQUIRES: operators are grouped (fuse_ops), types are inferred. The result has them.
Module narrow_constants(const Module& module, const Target& target);

}  // namespace lathe::relay
