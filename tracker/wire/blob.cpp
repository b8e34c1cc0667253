#include "tracker/wire/blob.h"

#include "core/support/digest.h"
#include "tracker/defaults.h"

namespace lathe::wire {

Blob blob_of(const std::string& bytes) { return {sha256(bytes), bytes.size()}; }

BlobChunk chunk_of(const std::string& bytes, const BlobGet& get) {
  BlobChunk chunk{.digest = get.digest, .offset = get.offset};
  if (get.offset < bytes.size()) chunk.bytes = bytes.substr(get.offset, defaults::kChunkBytes);
  return chunk;
}

bool BlobFetch::add(const BlobChunk& chunk) {
  if (chunk.digest != blob_.digest || chunk.offset != bytes_.size() || chunk.bytes.empty() ||
      chunk.bytes.size() > blob_.size - bytes_.size())
    return false;
  bytes_ += chunk.bytes;
  return true;
}

bool BlobFetch::verify() {
  if (sha256(bytes_) == blob_.digest) return true;
  bytes_.clear();
  return false;
}

BlobCache::Bytes BlobCache::find(const std::string& digest) {
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entries_.front().bytes;
}

void BlobCache::add(const std::string& digest, Bytes bytes) {
  if (find(digest)) return;
  bytes_ += bytes->size();
  entries_.push_front({digest, std::move(bytes)});
  by_digest_[digest] = entries_.begin();
  while (bytes_ > limit_bytes_ && entries_.size() > 1) {
    bytes_ -= entries_.back().bytes->size();
    by_digest_.erase(entries_.back().digest);
    entries_.pop_back();
  }
}

}  // namespace lathe::wire
