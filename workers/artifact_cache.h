// What this worker has built lately: a winner that is measured again is not built again. Builds are kept,
// measurements never.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <string>

#include "workers/jobs.h"

namespace lathe::worker {

class ArtifactCache {
 public:
  explicit ArtifactCache(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// The artifact, most recently used from now on, or nullptr. Valid until the next add().
  const Artifact* find(const std::string& key);
  /// Drops the least recently used ones beyond the limit.
  void add(const std::string& key, const Artifact& artifact);

  /// Of a build; the program that builds is the same throughout. That of the unscheduled program is the same
  /// for all traces.
  static std::string key_of(const wire::Lease& lease, bool unscheduled);

 private:
  struct Entry {
    std::string key;
    Artifact artifact;
  };
  size_t limit_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace lathe::worker
