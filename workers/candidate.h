// What passes through the stages of a worker.
#pragma once

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tracker/wire/wire.h"
#include "workers/child_reply.h"
#include "workers/jobs.h"
#include "workers/packets.h"

namespace lathe::worker {

/// A lease from its build to the end of its run.
struct Candidate {
  wire::Lease lease;
  Artifact artifact;   // without its object, once it may run here
  int object = -1;     // memory file of the shared object
  Artifact reference;  // where the lease is of one part
  double build_seconds = 0;
  Attempts attempts;  // of this build

  explicit Candidate(wire::Lease its) : lease(std::move(its)) {}
  ~Candidate() {
    if (object >= 0) close(object);
  }
  Candidate(const Candidate&) = delete;
  Candidate& operator=(const Candidate&) = delete;

  void keep(Artifact built) {
    object = memory_file("object", std::exchange(built.object, ""));
    seal(object);
    artifact = std::move(built);
  }
};

/// What came of a stage.
struct Ended {
  uint64_t lease = 0;
  bool built = false;  // by the build stage; else by the run stage
  wire::Result report;
  bool lost = false;  // by this machine, as the report's message says: nothing is known of the candidate
  std::string artifact, reference;     // of a build for a runner elsewhere, encoded
  std::optional<wire::Canary> canary;  // the canary kernels have ended, and no lease
};

}  // namespace lathe::worker
