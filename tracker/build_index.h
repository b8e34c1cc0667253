// Which builds the tracker has in its content store, and which go when it is full.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "tracker/journal.h"
#include "tracker/wire.h"

namespace lathe::tracker {

/// What a runner needs for one candidate.
struct Build {
  wire::Blob artifact, reference;
  std::string revision;  // of the program that built it
};

/// Names only: the bytes are in the content store. A blob of several builds, as references are, is counted
/// once.
class BuildIndex {
 public:
  explicit BuildIndex(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// What a build depends on: workload, target and trace, and the compiler's revision (F12).
  struct Key {
    CandidateId candidate = 0;
    std::string revision;
    auto operator<=>(const Key&) const = default;
  };

  /// Most recently used from now on, or nullptr. Valid until the next add().
  const Build* find(const Key& key);
  bool holds(const std::string& digest) const { return blobs_.contains(digest); }
  bool holds(const Build& build) const {
    return holds(build.artifact.digest) && holds(build.reference.digest);
  }
  /// Returns the digests of the blobs that must go: of the least recently used builds beyond the limit.
  std::vector<std::string> add(const Key& key, const Build& build);

 private:
  struct Entry {
    Key key;
    Build build;
  };
  struct Use {
    uint64_t size = 0;
    size_t builds = 0;
  };
  void use(const wire::Blob& blob);
  void release(const wire::Blob& blob, std::vector<std::string>& gone);

  uint64_t limit_bytes_, bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::map<Key, std::list<Entry>::iterator> by_key_;
  std::map<std::string, Use> blobs_;  // by digest
};

}  // namespace lathe::tracker
