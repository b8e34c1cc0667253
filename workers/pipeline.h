// Build and run of leases in sandboxes, without waiting: start, poll the descriptors, collect.
#pragma once

#include <string>
#include <vector>

#include "workers/build_stage.h"
#include "workers/run_stage.h"

namespace lathe::worker {

/// The two stages of a worker.
class Pipeline {
 public:
  using Ended = worker::Ended;

  Pipeline(const std::vector<std::string>& sandbox_command, int builders)
      : builds_(sandbox_command, builders), runs_(sandbox_command) {}

  /// What was built lately is not built again. REQUIRES: fewer than `builders` builds in progress.
  void build(const wire::Lease& lease) { builds_.start(lease); }
  /// With what it is compared with by now. REQUIRES: the lease was built here, and nothing runs.
  void run(const wire::Lease& lease);
  /// `artifact` and `reference` were built elsewhere (encoded, jobs.h). REQUIRES: nothing runs.
  void run(const wire::Lease& lease, const std::string& artifact, const std::string& reference) {
    runs_.start(lease, artifact, reference);
  }
  /// Races two modules. REQUIRES: nothing runs.
  void race(const wire::Lease& lease, const std::string& incumbent, const std::string& challenger) {
    runs_.race(lease, incumbent, challenger);
  }
  /// Starts the canary kernels. REQUIRES: nothing runs.
  void run_canaries() { runs_.run_canaries(); }
  void discard(uint64_t lease);

  /// What ended since the last call. Called whenever one of descriptors() is readable; all transitions happen
  /// here, on the worker's one thread.
  std::vector<Ended> collect();
  /// Whether collect() would return something at once.
  bool has_ended() const { return builds_.has_ended() || runs_.has_ended(); }
  /// To poll for reading.
  std::vector<int> descriptors() const;

 private:
  BuildStage builds_;
  RunStage runs_;
};

}  // namespace lathe::worker
