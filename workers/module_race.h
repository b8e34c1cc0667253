// Races two modules in a child that confines their code: the worker's part of a race (core/support/race.h).
#pragma once

#include "workers/jobs.h"
#include "workers/sandbox.h"

namespace lathe::worker {

/// The child's descriptors: the incumbent's module file, the challenger's, and an empty memory file for the
/// code of each. Times them in turn, with the timed window open, until the race ends by itself or has taken
/// `job.evaluation.budget_seconds`. The reply's samples are the turns: the incumbent's seconds, then the
/// challenger's. Throws Error when a module does not load.
Reply race_modules(const RunJob& job, Child& child);

}  // namespace lathe::worker
