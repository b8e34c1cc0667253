#include "workers/artifact_cache.h"

#include "core/support/digest.h"
#include "core/support/error.h"

namespace lathe::worker {

std::string ArtifactCache::key_of(const wire::Lease& lease, bool unscheduled) {
  // The unscheduled program is the same for all traces of a workload.
  const std::string trace = unscheduled ? "unscheduled" : sha256(lease.trace);
  return sha256(fmt::format("{} {} {}", sha256(lease.workload), trace, lease.target));
}

const Artifact* ArtifactCache::find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front().artifact;
}

void ArtifactCache::add(const std::string& key, const Artifact& artifact) {
  if (by_key_.contains(key)) return;
  entries_.push_front({key, artifact});
  by_key_[key] = entries_.begin();
  bytes_ += artifact.object.size();
  // The newest stays whatever its size: it is about to be used.
  while (bytes_ > limit_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().artifact.object.size();
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

}  // namespace lathe::worker
