// From the scheduled level to the lowered level, what code generation takes.
#pragma once

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::tir {

/// The pipeline, in order: each reduction's init becomes a conditional (or was decomposed), blocks become their
/// bodies with iterators substituted and predicates as conditions, intermediates are allocated at the innermost
/// place that covers their uses and shrunk to the region used there, loops of one iteration vanish, vectorized loops
/// become vector statements, unrolled loops are repeated, indices are simplified, loop-invariant conditions hoisted.
/// REQUIRES: constant shapes. Throws Error when a schedule asks for what cannot be (a vectorized loop of
/// non-constant extent, more than 1 MiB of stack): a candidate that cannot be built, not a bug.
Func lower(const Func& scheduled, const Target& target);

}  // namespace lathe::tir
