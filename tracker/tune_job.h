// A tuning job from its rows in the store to confirmed best schedules; the same with the tracker inside this
// process or elsewhere.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/tir/roofline.h"
#include "db/reader.h"
#include "tracker/disturbance.h"
#include "tracker/farm_client.h"
#include "tracker/job_writer.h"
#include "tuner/session.h"

namespace lathe::tracker {

struct TuneRequest {
  std::string kind = "tune";  // of the job, as the database lists it
  std::string model,
      model_digest;    // name for people; sha256 of what the tasks came from; "": of no one model
  std::string target;  // complete text
  int threads = 1;     // a kernel is measured with
  int64_t trials = 512;
  double seconds = 0;         // 0: no limit
  double target_seconds = 0;  // of one run of the model: the search ends when its kernels come to that
  MachineLimits limits;       // of those threads; 0: not known
  uint64_t seed = 0;
  double max_relative_error = wire::Evaluation{}.tolerance;  // of a candidate's outputs; beyond: wrong
  bool far_weights = false;         // measure with weights in memory (wire::Evaluation)
  std::string options = "{}";       // JSON: what `tune resume` needs to make the tasks again
  std::optional<db::JobId> resume;  // go on with this job
  /// What becomes of it when it is stopped: cancelled where nobody can go on with it.
  db::JobState when_stopped = db::JobState::kStopped;
  std::shared_ptr<const MachineModel> machine;  // what the search decides by; null: the target's row
  std::function<void(const std::string&)> say;  // what a person should know, once; may be empty
  /// Only what was measured on this device is known, counts, and is confirmed; none: on any.
  std::optional<db::DeviceId> device = {};
  std::vector<std::vector<schedule::Trace>> suggested = {};  // by task, or none: measured early
  double patience = 30;  // seconds; when the time is over, a farm without workers is waited for this long
};

struct TuneResult {
  db::JobId job = 0;
  std::string uuid;
  bool interrupted = false;
  tuner::SessionStatus status;
  std::vector<tuner::Milestone> milestones;
  struct Winner {
    double seconds = 0;         // as measured once it had won; 0 when nothing was measured
    double relative_error = 0;  // of its outputs
    bool confirmed = false;     // measured again at all
    bool elsewhere = false;     // and by another worker
    std::string trace;          // its schedule
  };
  std::vector<Winner> winners;  // by task
  JobDisturbance disturbance;   // of all measurements
};

/// Where a job's search reads, writes and has its candidates measured. All outlive the call.
struct JobPlaces {
  db::Reader& store;
  JobWriter& writer;
  FarmClient& farm;
};

/// Runs the job: trials until the budget is spent, then the leaders of each task and its default schedule are
/// measured again and the best confirmed. `stop` asks for an early end: what the job is then, `when_stopped`
/// says. Throws Error as the records, their writer and the farm do.
TuneResult run_tune_job(const TuneRequest& request, std::span<const tuner::Task> tasks,
                        const JobPlaces& places, const tuner::Session::OnChange& on_change,
                        const std::function<bool()>& stop);

}  // namespace lathe::tracker
