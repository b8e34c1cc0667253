// What a tuning job ends with: the module file, the times before and after, a table by task.
#pragma once

#include <span>

#include "cli/tune_job.h"
#include "core/relay/expr.h"
#include "core/tir/target.h"
#include "tracker/tune_job.h"
#include "tuner/whole_model.h"

namespace lathe::cli {

struct TuneOutcome {
  const tracker::TuneResult& search;
  const tuner::WholeModelResult& choice;
};

/// Builds the model with default and with best schedules, times both in turn, writes the module into the
/// job's folder and prints the report. Returns an ExitCode: kNegative when nothing was measured.
int report_tune_job(const TuneJob& job, const Target& target, const relay::Module& fused,
                    std::span<const tuner::Task> tasks, const TuneOutcome& outcome);

}  // namespace lathe::cli
