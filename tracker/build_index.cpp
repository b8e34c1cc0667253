#include "tracker/build_index.h"

#include <algorithm>
#include <iterator>

namespace lathe::tracker {

namespace {

uint64_t bytes_of(const Build& build) { return build.artifact.size + build.reference.size; }

}  // namespace

const Build* BuildIndex::find(const Key& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  Entries& entries = shares_.at(found->second->owner).entries;
  entries.splice(entries.begin(), entries, found->second);
  return &entries.front().build;
}

std::vector<std::string> BuildIndex::add(const Key& key, const Build& build, const std::string& owner) {
  if (find(key)) return {};
  // The front is what was used last; the list's iterators stay good over splices, which the map rests on.
  Share& share = shares_[owner];
  share.entries.push_front({key, build, owner});
  share.bytes += lathe::tracker::bytes_of(build);
  by_key_[key] = share.entries.begin();
  use(build.artifact);
  use(build.reference);
  std::vector<std::string> gone;
  // The newest stays whatever its size: a runner is about to ask for it.
  while (bytes_ > limit_bytes_ && by_key_.size() > 1) {
    const auto most = std::max_element(shares_.begin(), shares_.end(), [](const auto& a, const auto& b) {
      return a.second.bytes < b.second.bytes;
    });
    Entries& entries = most->second.entries;
    auto oldest = std::prev(entries.end());
    // Of an owner with this one alone, another's goes.
    if (oldest->key == key) {
      const auto other = std::find_if(shares_.begin(), shares_.end(),
                                      [&](const auto& entry) { return entry.first != most->first; });
      drop(other, std::prev(other->second.entries.end()), gone);
    } else {
      drop(most, oldest, gone);
    }
  }
  return gone;
}

uint64_t BuildIndex::bytes_of(const std::string& owner) const {
  const auto share = shares_.find(owner);
  return share == shares_.end() ? 0 : share->second.bytes;
}

void BuildIndex::drop(Shares::iterator share, Entries::iterator entry, std::vector<std::string>& gone) {
  release(entry->build.artifact, gone);
  release(entry->build.reference, gone);
  share->second.bytes -= lathe::tracker::bytes_of(entry->build);
  by_key_.erase(entry->key);
  share->second.entries.erase(entry);
  if (share->second.entries.empty()) shares_.erase(share);
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
