// From the scheduled level to the lowered level, what code generation takes.
#pragma once

#include "core/tir/stmt.h"
#include "core/tir/target.h"

namespace lathe::tir {

/// Annotation of a loop: its iterations ask for the vectors that they read from main memory this many bytes
/// ahead of time. For data that streams in from beyond the caches: the processor's own prefetching stops at
/// the ends of pages.
inline constexpr char kPrefetch[] = "prefetch";
/// Annotation of a loop whose next iteration reads other vectors in loops with kPrefetch, all that lie behind
/// each other: an iteration of the innermost of those asks for so many of the lines that come next, into the
/// second-level cache. They come in while this iteration computes.
inline constexpr char kPrefetchNext[] = "prefetch_next";

/// Blocks become their bodies with iterators substituted and predicates as conditions; intermediates move to
/// the innermost place that covers their uses and shrink to the region used there; tiles that stick out over
/// an edge are told apart from those that do not; vectorized loops become vector statements, unrolled ones
/// are repeated; loops of one iteration vanish, indices are simplified, invariant conditions leave their
/// loops: the lowering_pipeline of pass.h. Open dimensions stay open. Throws Error when a schedule asks for
/// what cannot be (a vectorized loop of non-constant extent, more than 4 MiB of stack, stack of
/// a size that open dimensions decide): a candidate that
/// cannot be built, not a bug.
Func lower(const Func& scheduled, const Target& target);

/// Whether lower() gives a program rather than throws Error: mostly told before loops are unrolled, which is
/// where programs become large.
bool can_lower(const Func& scheduled, const Target& target);

}  // namespace lathe::tir
