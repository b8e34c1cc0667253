// The bytes of builds, in files. Which of them stay is the farm's to say (build_index.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/support/temporary_folder.h"

namespace lathe::tracker {

/// Lives as long as its tracker: builds can be made again, and one that starts trusts no file that it finds.
class ContentStore {
 public:
  /// The files go to `folder`, which is its own: what is there is removed when it comes and when it goes. "":
  /// to a temporary one. Made when the first blob comes.
  explicit ContentStore(std::string folder) : folder_(std::move(folder)) {}
  ~ContentStore();
  ContentStore(const ContentStore&) = delete;
  ContentStore& operator=(const ContentStore&) = delete;

  /// Throws Error when it cannot be written. REQUIRES: a digest.
  void keep(const std::string& digest, const std::string& bytes);
  void forget(const std::string& digest);
  /// At most `length` bytes; none when the blob is gone or has none there.
  std::string read(const std::string& digest, uint64_t offset, size_t length) const;

 private:
  std::string path_of(const std::string& digest) const { return folder_ + "/" + digest; }

  void make_folder();

  std::string folder_;
  std::optional<TemporaryFolder> temporary_;
  bool made_ = false;
};

}  // namespace lathe::tracker
