// Blobs in files, by the SHA-256 of their bytes: builds for runners, and the models that users uploaded.
#pragma once

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/temporary_folder.h"

namespace lathe::tracker {

/// An owner has no room for more.
class ShareFull : public Error {
 public:
  using Error::Error;
};

/// Holds at most so many bytes; the least recently used blobs go first. Not thread-safe.
class ContentStore {
 public:
  /// Digests of blobs that stay whatever the limit is, each with whose jobs need it.
  using Pinned = std::map<std::string, std::set<std::string>>;

  struct Settings {
    std::string folder;  // its own, made when the first blob comes; "": a temporary one
    /// Whether the blobs outlive the store. Else what is in the folder is removed when the store comes and
    /// when it goes: builds can be made again, so that no file that is found there has to be trusted.
    bool lasting = false;
    uint64_t limit_bytes = UINT64_MAX;
    /// A smaller blob counts as so many: each is a file or two, and an entry here.
    uint64_t least_bytes = 0;
    std::function<Pinned()> pinned;  // may be empty
  };

  /// Throws Error for a lasting one whose folder cannot be read.
  explicit ContentStore(Settings settings);
  ~ContentStore();
  ContentStore(const ContentStore&) = delete;
  ContentStore& operator=(const ContentStore&) = delete;

  /// Throws db::DatabaseError when it cannot be written, or when there is no room. REQUIRES: the digest of
  /// `bytes`.
  void keep(const std::string& digest, std::string_view bytes);
  void forget(const std::string& digest);
  /// At most `length` bytes; none when the blob is gone or has none there.
  std::string read(const std::string& digest, uint64_t offset, size_t length) const;
  /// Its size in bytes, if it is here. It has been used then.
  std::optional<uint64_t> find(const std::string& digest);

  /// Whose a blob is that was uploaded: who was the first to. All of one owner's together hold at most so
  /// many bytes; the owner's least recently used go for one that is kept, to the others whose jobs need it,
  /// or for good.
  struct Owner {
    std::string name;
    uint64_t limit_bytes = UINT64_MAX;
  };
  uint64_t bytes_of(const std::string& owner) const;

  /// A blob that comes in pieces. It is gone with this unless it was kept.
  class Incoming {
   public:
    /// Throws Error when it cannot be written. REQUIRES: the store outlives it.
    Incoming(ContentStore& store, Owner owner);
    explicit Incoming(ContentStore& store) : Incoming(store, Owner()) {}
    ~Incoming();
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;

    /// Throws Error when it cannot be written, or when there is no room: ShareFull when there is for others.
    /// None of the owner's goes for one of which too much comes.
    void add(std::string_view bytes);
    /// Waits until all that came is on the disk; nothing may be added afterwards. May be called on another
    /// thread than all else. Throws Error when it cannot be written.
    void sync();
    /// Of all that came.
    const std::string& digest();
    /// On disk when it returns. Throws Error as add() does. REQUIRES: sync().
    void keep();

   private:
    /// Throws ShareFull unless the owner may have so many bytes more.
    void require_share(uint64_t more);

    ContentStore& store_;
    const Owner owner_;
    const std::string path_;
    std::ofstream file_;
    Sha256 sum_;
    uint64_t bytes_ = 0, counted_ = 0;
    std::optional<uint64_t> spare_;  // once it is asked for: bytes of the owner's that may go
    std::string digest_;
    bool synced_ = false;
  };

 private:
  struct Entry {
    uint64_t bytes = 0;
    std::string owner;
    std::list<std::string>::iterator use;
  };

  std::string path_of(const std::string& name) const { return settings_.folder + "/" + name; }
  /// Beside the blob, with the owner's name; where it belongs to nobody, there is none.
  std::string owner_path_of(const std::string& digest) const { return path_of(digest) + ".owner"; }
  /// Of the next blob that comes, in a folder that is there.
  std::string path_of_incoming();
  void make_folder();
  void take_up_files();
  /// What a blob of so many bytes counts as, in the limits and all sums below. There is one of none.
  uint64_t counted(uint64_t bytes) const { return bytes == 0 ? 0 : std::max(bytes, settings_.least_bytes); }
  void make_room(uint64_t bytes);
  /// Bytes of the owner's that none of the owner's jobs needs.
  uint64_t spare_of(const std::string& owner) const;
  Pinned pinned() const;
  /// Forgets blobs that nothing needs, the least recently used first, while `is_over()`; of `owner`, from
  /// whom those that only others need go to these, or of all ("").
  void shrink(const std::string& owner, const std::function<bool()>& is_over);
  void enter(const std::string& digest, uint64_t bytes, const std::string& owner);
  void give(const std::string& digest, const std::string& owner);

  Settings settings_;
  std::optional<TemporaryFolder> temporary_;
  bool made_ = false;
  uint64_t incoming_ = 0;          // blobs that have begun to come, ever
  uint64_t bytes_ = 0;             // those of blobs on their way included
  std::list<std::string> by_use_;  // digests, the least recently used first
  std::map<std::string, Entry> entries_;
  std::map<std::string, uint64_t> owned_;  // bytes by owner, as bytes_
};

}  // namespace lathe::tracker
