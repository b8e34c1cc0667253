// Builds candidates of leases in sandboxes, several at once and without waiting.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "workers/artifact_cache.h"
#include "workers/candidate.h"
#include "workers/sandbox.h"

namespace lathe::worker {

/// Of a lease of the build part it builds the unscheduled program too, for a runner elsewhere.
class BuildStage {
 public:
  BuildStage(const std::vector<std::string>& command, int builders);

  /// What was built lately is not built again. REQUIRES: fewer than `builders` builds in progress.
  void start(const wire::Lease& lease);
  /// What was built to be run here. REQUIRES: it was.
  std::unique_ptr<Candidate> take(uint64_t lease);
  void discard(uint64_t lease);

  std::vector<Ended> collect();
  bool has_ended() const { return !ended_.empty(); }
  std::vector<int> descriptors() const;

 private:
  void next_build(uint64_t lease);
  void start_build(const wire::Lease& lease, bool unscheduled);
  void built(uint64_t lease, bool unscheduled, const Report& report);
  void lose(uint64_t lease, std::string why);

  std::vector<std::unique_ptr<Sandbox>> builders_;
  struct Building {
    uint64_t lease = 0;
    bool unscheduled = false;
  };
  std::map<Sandbox*, Building> building_;
  std::map<uint64_t, std::unique_ptr<Candidate>> candidates_;  // being built, or built and not taken
  ArtifactCache artifacts_;
  std::vector<Ended> ended_;
};

}  // namespace lathe::worker
