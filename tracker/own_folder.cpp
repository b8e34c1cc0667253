#include "tracker/own_folder.h"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/private_file.h"
#include "core/support/service_error.h"
#include "db/database_error.h"

namespace lathe::tracker {

constexpr const char* kLock = "/lock";

void make_own_folder(const std::string& path) {
  make_folder(path);
  struct stat link {
  }, folder{};
  if (lstat(path.c_str(), &link) != 0 || stat(path.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode))
    fail("cannot make the folder {}", path);
  // Root's are an administrator's arrangement.
  const auto is_ours = [](uid_t owner) { return owner == geteuid() || owner == 0; };
  if (!is_ours(link.st_uid) || !is_ours(folder.st_uid))
    fail("the folder {} is another user's; name another one, or another database", path);
}

FolderInUse::FolderInUse(const std::string& path) : path_(path) {
  make_own_folder(path);
  // Of a file in it, and not of the folder: whoever may read that could lock it.
  descriptor_ = open_private_file(path + kLock);
  // It ends with the process, however that ends (flock(2)).
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  close(descriptor_);
  throw ServiceError(
      fmt::format("the folder {} is in use by another tracker; name another one with --files", path));
}

void FolderInUse::require_held() const {
  struct stat held {
  }, found{};
  if (stat((path_ + kLock).c_str(), &found) != 0 || fstat(descriptor_, &held) != 0 ||
      found.st_ino != held.st_ino || found.st_dev != held.st_dev)
    throw db::DatabaseError(fmt::format(
        "the folder {} was removed, or emptied, while this tracker uses it; its jobs go on with the next one",
        path_));
}

FolderInUse::~FolderInUse() { close(descriptor_); }

}  // namespace lathe::tracker
