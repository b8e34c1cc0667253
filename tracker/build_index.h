// Which builds the tracker has in its content store, and which go when it is full.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "tracker/journal.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// What a runner needs for one candidate.
struct Build {
  wire::Blob artifact, reference;
  std::string revision;  // of the program that built it
};

/// Names only: the bytes are in the content store. A blob of several builds, as references are, is counted
/// once. When the store is full, the owner who holds most gives way: nobody's builds go for the flood of
/// another.
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
  /// Of a digest that it holds, what its blob has.
  bool has_other_size(const wire::Blob& blob) const {
    const auto held = blobs_.find(blob.digest);
    return held != blobs_.end() && held->second.size != blob.size;
  }
  bool holds(const Build& build) const {
    return holds(build.artifact.digest) && holds(build.reference.digest);
  }
  /// `owner`: for whose job it was built. Returns the digests of the blobs that must go: of the least
  /// recently used builds of whoever holds most, until all are within the limit.
  std::vector<std::string> add(const Key& key, const Build& build, const std::string& owner);
  uint64_t bytes_of(const std::string& owner) const;

 private:
  struct Entry {
    Key key;
    Build build;
    std::string owner;
  };
  using Entries = std::list<Entry>;  // most recently used first
  struct Share {
    Entries entries;
    uint64_t bytes = 0;  // of artifacts and references, each counted with every build
  };
  using Shares = std::map<std::string, Share>;  // by owner
  struct Use {
    uint64_t size = 0;
    size_t builds = 0;
  };
  void drop(Shares::iterator share, Entries::iterator entry, std::vector<std::string>& gone);
  void use(const wire::Blob& blob);
  void release(const wire::Blob& blob, std::vector<std::string>& gone);

  uint64_t limit_bytes_, bytes_ = 0;
  Shares shares_;
  std::map<Key, Entries::iterator> by_key_;
  std::map<std::string, Use> blobs_;  // by digest
};

}  // namespace lathe::tracker
