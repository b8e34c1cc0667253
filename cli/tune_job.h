// The main job as the command line runs it: model -> tasks -> trials -> best schedules -> module file and
// report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/best_build.h"
#include "core/relay/expr.h"
#include "core/tir/target.h"
#include "tracker/job_request.h"
#include "tracker/tune_job.h"

namespace lathe::cli {

/// A request, and how this process goes about it.
struct TuneJob : tracker::JobRequest {
  std::string file;      // of the model, where `model` is only its name; "": the same
  std::string database;  // "": the default one
  OpenRecords records;   // that the module is built from; empty: of the database
  std::string folder;    // where the module goes; "": lathe-out/MODEL
  bool served = false;   // by a tracker: where its files lie is no matter of the client's
  bool json = false;
  bool decide = false;  // race longer, and end as inconclusive when that leaves it open which build is faster
  std::string listen;   // where workers of other machines may join; "": this machine's worker alone
  std::string key, allow;  // files: the tracker's keys, and the public keys of those workers
};

/// What a search needs to know of a job's model. A pass over the whole model: seconds.
struct PreparedJob {
  Target target;
  relay::Module fused;
  std::vector<tuner::Task> tasks;
  tuner::OpenPoints points;  // none where the model's shapes are numbers
  MachineLimits limits;      // of the job's threads
  bool far_weights = false;  // they lie in memory, not in a cache
};

/// Throws Error for a model that cannot be read or does not fit the request. REQUIRES: `job.threads` above 0.
/// What is read, and what messages about the model begin with.
inline const std::string& source_of(const TuneJob& job) { return job.file.empty() ? job.model : job.file; }

PreparedJob prepare_job(const TuneJob& job, Target target);

tracker::TuneRequest search_request(const TuneJob& job, const PreparedJob& prepared,
                                    std::optional<db::JobId> resumed);

/// Whether the tasks, each alone, are faster with their best schedules than with the default ones.
bool tasks_favour_tuned(const tracker::TuneResult& result, std::span<const tuner::Task> tasks);

/// Runs the job, with a tracker inside this process and a worker process beside it, and reports. `resume`:
/// the uuid (or its beginning) of a job to go on with, whose request replaces that of `job`. Returns an
/// ExitCode (tune_report.h).
int run_tune_job_here(TuneJob job, const std::optional<std::string>& resume);

}  // namespace lathe::cli
