// Runs one kernel in a sandboxed child: checks its outputs, then times it.
#pragma once

#include <string>
#include <string_view>

#include "workers/sandbox.h"

namespace lathe::worker {

/// The body of the run role. The request is a RunJob; the task's descriptors are the shared object and the
/// case file (jobs.h), and none of a job that asks for the canary kernels. The reply is a Reply.
///
/// A job marked `reference` fills the case file: seeded inputs, and the outputs of this kernel, the
/// unscheduled one. Any other is measured against it, in this order: load; fill outputs, and what a prologue
/// makes, with NaNs; run the prologue, which costs nothing at run time and is not timed; run once; compare
/// outputs with the reference, and inputs and the gaps between buffers with what they were; open the timed
/// window; warm up; sample; close. A candidate that is wrong is never timed.
///
/// Cache state: with `far_weights`, constants are flushed to memory before each sample, as in a model whose
/// weights are more than the caches hold from one run to the next (on x86; elsewhere it does nothing); with
/// `cold_cache`, the default, a buffer twice the size of L2 is read by every thread before each sample, so
/// that weights come from L3 or memory as they do inside a model, where other layers ran in between. Without,
/// all samples but the first find in the caches what fits.
std::string run_body(std::string_view request, Child& child);

}  // namespace lathe::worker
