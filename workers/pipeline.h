// Build and run of leases in sandboxes, without waiting: start, poll the descriptors, collect.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tracker/wire.h"
#include "workers/artifact_cache.h"
#include "workers/case_store.h"
#include "workers/jobs.h"
#include "workers/sandbox.h"
#include "workers/stopwatch.h"
#include "workers/temperature.h"

namespace lathe::worker {

/// The two stages of a worker. For the first candidate of each workload, the run stage also builds and runs
/// the unscheduled program, to have its outputs to compare with. For a runner elsewhere the build stage
/// builds both, and what that runs here was built by others.
class Pipeline {
 public:
  Pipeline(std::vector<std::string> sandbox_command, int builders);
  ~Pipeline();

  /// What was built lately is not built again. REQUIRES: fewer than `builders` builds in progress.
  void build(const wire::Lease& lease);
  /// With what it is compared with by now. REQUIRES: the lease was built here, and nothing runs.
  void run(const wire::Lease& lease);
  /// `artifact` and `reference` were built elsewhere (encoded, jobs.h). REQUIRES: nothing runs.
  void run(const wire::Lease& lease, const std::string& artifact, const std::string& reference);
  /// Races two modules. REQUIRES: nothing runs.
  void race(const wire::Lease& lease, const std::string& incumbent, const std::string& challenger);
  /// Starts the canary kernels. REQUIRES: nothing runs.
  void run_canaries();
  void discard(uint64_t lease);

  struct Ended {
    uint64_t lease = 0;
    bool built = false;  // by the build stage; else by the run stage
    wire::Result report;
    std::string artifact, reference;     // of a build for a runner elsewhere, encoded
    std::optional<wire::Canary> canary;  // the canary kernels have ended, and no lease
  };
  /// What ended since the last call.
  std::vector<Ended> collect();
  /// Whether collect() would return something at once.
  bool has_ended() const { return !ended_.empty(); }
  /// To poll for reading.
  std::vector<int> descriptors() const;

 private:
  struct Job;
  enum class Step { kReferenceBuild, kReferenceRun, kMeasure, kRace, kCanaries };

  void next_build(uint64_t lease);
  void start_build(const wire::Lease& lease, bool unscheduled);
  void built(uint64_t lease, bool unscheduled, const Report& report);
  void next_step();
  void attempt(const std::function<void()>& step);
  void start_reference();
  void start_reference_run();
  void start_measuring();
  void reference_built(const Report& report);
  void reference_ran(const Report& report);
  void case_failed(const std::string& why);
  void measured(const Report& report);
  bool was_stolen_from(const Report& report) const;
  void raced(const Report& report);
  void end_run(wire::Result report);
  void canaries_ran(const Report& report);
  std::string case_key(const wire::Lease& lease) const;

  std::vector<std::unique_ptr<Sandbox>> builders_;
  Sandbox reference_builder_, runner_;
  struct Building {
    uint64_t lease = 0;
    bool unscheduled = false;
  };
  std::map<Sandbox*, Building> building_;
  std::map<uint64_t, std::unique_ptr<Job>> jobs_;
  uint64_t running_ = 0;  // lease, or 0
  Step step_ = Step::kMeasure;
  bool again_ = false;       // this measurement is a second attempt
  wire::Disturbance first_;  // of the first attempt, when it was stolen from
  const double timer_seconds_ = timer_seconds();
  const ProcessorSensors sensors_{""};
  double canary_ = 0;        // the best known, in seconds; 0: none
  std::vector<int> cpus_;    // that the measurement runs on
  double stolen_ = 0;        // stolen_seconds() of them when it began
  Artifact reference_;       // being run
  int reference_case_ = -1;  // being filled
  CaseStore cases_;
  ArtifactCache artifacts_;
  std::vector<Ended> ended_;
};

}  // namespace lathe::worker
