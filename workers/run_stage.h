// Runs what was built in a sandbox, one thing at a time and without waiting: candidates, races, the canaries.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "workers/candidate.h"
#include "workers/case_store.h"
#include "workers/sandbox.h"
#include "workers/stopwatch.h"
#include "workers/temperature.h"

namespace lathe::worker {

/// For the first candidate of each workload it also builds and runs the unscheduled program, to have its
/// outputs to compare with. REQUIRES of whatever starts something: nothing runs.
class RunStage {
 public:
  explicit RunStage(const std::vector<std::string>& command);
  ~RunStage();

  void start(std::unique_ptr<Candidate> candidate);
  /// `artifact` and `reference` were built elsewhere (encoded, jobs.h).
  void start(const wire::Lease& lease, const std::string& artifact, const std::string& reference);
  void race(const wire::Lease& lease, const std::string& incumbent, const std::string& challenger);
  void run_canaries();
  void discard(uint64_t lease);

  std::vector<Ended> collect();
  bool has_ended() const { return !ended_.empty(); }
  std::vector<int> descriptors() const;

 private:
  enum class Step { kReferenceBuild, kReferenceRun, kMeasure, kRace, kCanaries };

  bool busy() const { return running_ != nullptr; }
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
  void lose_run(std::string why);
  void canaries_ran(const Report& report);
  std::string case_key(const wire::Lease& lease) const;

  Sandbox reference_builder_, runner_;
  std::unique_ptr<Candidate> running_;  // null: nothing runs, or the canaries do
  Step step_ = Step::kMeasure;
  Attempts attempts_;        // of what runs
  wire::Disturbance first_;  // of the first attempt, when it was stolen from
  const double timer_seconds_ = timer_seconds();
  const ProcessorSensors sensors_{""};
  double canary_ = 0;        // the best known, in seconds; 0: none
  std::vector<int> cpus_;    // that the measurement runs on
  double stolen_ = 0;        // stolen_seconds() of them when it began
  Artifact reference_;       // being run
  int reference_case_ = -1;  // being filled
  CaseStore cases_;
  std::vector<Ended> ended_;
};

}  // namespace lathe::worker
