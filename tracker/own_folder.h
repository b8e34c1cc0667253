// Folders that a service fills and empties: beside a database that may be anywhere, /tmp included.
#pragma once

#include <string>

namespace lathe::tracker {

/// Makes the folder with those above it. Throws Error when that fails, and for one that is, or that a link
/// leads to which is, another user's: what is removed there would be theirs to choose, and what is written
/// theirs to read.
void make_own_folder(const std::string& path);

/// A folder of ours that one service at a time uses: another one would remove what is on its way to the
/// first.
class FolderInUse {
 public:
  /// Makes the folder. Throws Error when another process has it.
  explicit FolderInUse(const std::string& path);
  ~FolderInUse();
  FolderInUse(const FolderInUse&) = delete;
  FolderInUse& operator=(const FolderInUse&) = delete;

  /// Throws db::DatabaseError when somebody has removed it, or its lock, and another process could have it.
  void require_held() const;

 private:
  const std::string path_;
  int descriptor_ = -1;
};

}  // namespace lathe::tracker
