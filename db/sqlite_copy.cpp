// The copy of a file of SQLite that is kept when it is migrated.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/unfinished.h"
#include "core/support/working_folder.h"
#include "db/sqlite_database.h"

namespace lathe::db {

namespace {

namespace fs = std::filesystem;

/// A file of which this process is making a copy, or nothing: it is gone with this, unless it was given its
/// name. Locked for as long, so that what a killed process left can be told from what another one works on.
class CopyInWork {
 public:
  explicit CopyInWork(const std::string& copy) : copy_([&] { return made(copy); }) {}
  ~CopyInWork() { close(file_); }
  CopyInWork(const CopyInWork&) = delete;
  CopyInWork& operator=(const CopyInWork&) = delete;

  const std::string& path() const { return copy_.path(); }
  /// Or COPY-2, COPY-3, ... where that is taken: a copy of before is somebody's.
  void name(const std::string& copy) {
    copy_.finish([&] {
      std::string free = copy;
      for (int number = 2; !rename_unless_there(path(), free); ++number)
        free = fmt::format("{}-{}", copy, number);
    });
  }

 private:
  std::string made(const std::string& copy) {
    remove_abandoned(copy);
    std::string path = fmt::format("{}.{}", copy, getpid());
    do {
      close(std::exchange(file_, open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)));
      if (file_ < 0) fail_to_write(path, errno);
      flock(file_, LOCK_EX);
      // Who looked for abandoned ones may have taken it for one before it was locked.
    } while (!fs::exists(path));
    return path;
  }
  static void remove_abandoned(const std::string& copy) {
    const std::string prefix = fs::path(copy).filename().string() + ".";
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(absolute_path(copy)).parent_path(), error)) {
      const std::string name = entry.path().filename().string();
      // A process's number; a journal beside it is that one's.
      if (!name.starts_with(prefix) ||
          name.find_first_not_of("0123456789", prefix.size()) != std::string::npos)
        continue;
      const int file = open(entry.path().c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
      if (file < 0) continue;
      if (flock(file, LOCK_EX | LOCK_NB) == 0) {
        fs::remove(entry.path(), error);
        fs::remove(entry.path().string() + "-journal", error);
      }
      close(file);
    }
  }

  int file_ = -1;
  Unfinished copy_;
};

}  // namespace

/// A copy from before the migration, by which a user can go back to the older program. Each process that
/// would migrate makes its own, and only one that is of that version takes the name: another process may
/// have begun to migrate meanwhile, and has made its copy then.
void SqliteDatabase::keep_copy(int version) {
  const std::string copy = fmt::format("{}.v{}.backup", name(), version);
  CopyInWork own(copy);
  run("VACUUM INTO ?", {Value(own.path())});  // into an empty file, too
  // VACUUM INTO copies one moment, but which one is decided when it begins: before another's migration, or in
  // the midst of it.
  if (SqliteDatabase(own.path(), Access::kAlone, std::chrono::seconds(10)).version() != version) return;
  // Before the migration begins: after a power failure one of the two must be whole.
  sync_to_disk(own.path());
  own.name(copy);
  sync_to_disk(fs::path(absolute_path(copy)).parent_path());
}

}  // namespace lathe::db
