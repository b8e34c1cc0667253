// The main job as the command line runs it: model -> tasks -> trials -> best schedules -> module file and
// report.
#pragma once

#include <optional>
#include <string>

#include "tracker/wire.h"
#include "tuner/bind_shapes.h"

namespace lathe::cli {

struct TuneJob {
  std::string model, target = "cpu", precision = "given";
  tuner::InputShapes shapes;  // of inputs with dynamic dimensions
  int64_t trials = 512;
  double seconds = 0;
  double target_ms = 0;       // latency of one run of the model to end the search at; 0: none
  double choice_seconds = 0;  // of choosing over the whole model; 0: a share of the search's
  int64_t threads = 0;        // 0: all cores
  int64_t seed = 0;
  double max_relative_error = wire::Evaluation{}.tolerance;  // of a candidate's outputs
  std::string database;                                      // "": the default one
  std::string folder;                                        // where the module goes; "": lathe-out/MODEL
  bool json = false;
  bool decide = false;  // race longer, and end as inconclusive when that leaves it open which build is faster
  std::string listen;   // where workers of other machines may join; "": this machine's worker alone
  std::string key, allow;  // files: the tracker's keys, and the public keys of those workers
};

/// Runs the job, with a tracker inside this process and a worker process beside it, and reports. `resume`:
/// the uuid (or its beginning) of a job to go on with, whose model, shapes, target, budget, seed and accepted
/// error replace those of `job`. Returns an ExitCode (tune_report.h).
int run_tune_job_here(TuneJob job, const std::optional<std::string>& resume);

}  // namespace lathe::cli
