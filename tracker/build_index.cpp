#include "tracker/build_index.h"

namespace lathe::tracker {

const Build* BuildIndex::find(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return &entries_.front().build;
}

std::vector<std::string> BuildIndex::add(const Key& key, const Build& build) {
  if (find(key)) return {};
  // The front is what was used last; the list's iterators stay good over splices, which the map rests on.
  entries_.push_front({key, build});
  by_key_[key] = entries_.begin();
  use(build.artifact);
  use(build.reference);
  std::vector<std::string> gone;
  // The newest stays whatever its size: a runner is about to ask for it.
  while (bytes_ > limit_bytes_ && entries_.size() > 1) {
    release(entries_.back().build.artifact, gone);
    release(entries_.back().build.reference, gone);
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
  return gone;
}

void BuildIndex::use(const wire::Blob& blob) {
  Use& use = blobs_[blob.digest];
  // Builds of one workload share their reference.
  if (use.builds++ > 0) return;
  use.size = blob.size;
  bytes_ += blob.size;
}

void BuildIndex::release(const wire::Blob& blob, std::vector<std::string>& gone) {
  const auto use = blobs_.find(blob.digest);
  if (--use->second.builds > 0) return;
  bytes_ -= use->second.size;
  blobs_.erase(use);
  gone.push_back(blob.digest);
}

}  // namespace lathe::tracker
