// Blobs as they travel: whoever wants one asks for its next piece, and keeps what is intact. So its receiver
// sets the pace, holds what it asked for and no more, and says a lost request again.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "tracker/wire/wire.h"

namespace lathe::wire {

/// The name of these bytes.
Blob blob_of(const std::string& bytes);

/// The piece of `bytes` that was asked for; empty when there is none at that offset.
BlobChunk chunk_of(const std::string& bytes, const BlobGet& get);

/// One blob on its way here.
class BlobFetch {
 public:
  explicit BlobFetch(Blob blob) : blob_(std::move(blob)) {}

  const Blob& blob() const { return blob_; }
  /// What to ask for now. REQUIRES: !complete().
  BlobGet next(uint64_t lease) const { return {lease, blob_.digest, bytes_.size()}; }
  /// True when it was the piece asked for.
  bool add(const BlobChunk& chunk);
  bool complete() const { return bytes_.size() >= blob_.size; }
  /// Whether the bytes are those that their name promises; else they are dropped, to be asked for anew.
  /// REQUIRES: complete().
  bool verify();
  /// REQUIRES: verify().
  std::string take() { return std::move(bytes_); }

 private:
  Blob blob_;
  std::string bytes_;
};

/// Blobs in memory, the most recently used ones. What is still in use lives on when it is dropped here.
class BlobCache {
 public:
  using Bytes = std::shared_ptr<const std::string>;
  explicit BlobCache(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  Bytes find(const std::string& digest);
  void add(const std::string& digest, Bytes bytes);

 private:
  struct Entry {
    std::string digest;
    Bytes bytes;
  };
  uint64_t limit_bytes_, bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::map<std::string, std::list<Entry>::iterator> by_digest_;
};

}  // namespace lathe::wire
