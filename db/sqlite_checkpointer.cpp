#include "db/sqlite_checkpointer.h"

#include <sqlite3.h>

#include <utility>

namespace lathe::db {
namespace {

/// Pages of the log: SQLite's own measure for a checkpoint, and one that a reader or a slow disk must not let
/// it pass, for a log grows while it is copied.
constexpr int kCopied = 1000, kMost = 4000;

}  // namespace

SqliteCheckpointer::SqliteCheckpointer(sqlite3* writer, std::string path)
    : writer_(writer), path_(std::move(path)) {
  sqlite3_wal_hook(writer_, committed, this);  // instead of SQLite's own checkpoints, which are such a hook
}

SqliteCheckpointer::~SqliteCheckpointer() {
  sqlite3_wal_hook(writer_, nullptr, nullptr);
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

/// In the thread that has committed. What a checkpoint cannot do, because a reader is in the way, the next
/// one does: no commit fails for it.
int SqliteCheckpointer::committed(void* self, sqlite3* writer, const char* schema, int frames) {
  if (frames >= kMost)
    // Little is left to copy, and when all is copied the log begins anew.
    sqlite3_wal_checkpoint_v2(writer, schema, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  else
    static_cast<SqliteCheckpointer*>(self)->ask(frames);
  return SQLITE_OK;
}

void SqliteCheckpointer::ask(int frames) {
  if (frames < asked_at_) asked_at_ = 0;  // a new log
  if (frames - asked_at_ < kCopied) return;
  asked_at_ = frames;
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  {
    const std::lock_guard lock(mutex_);
    wanted_ = true;
  }
  changed_.notify_one();
}

void SqliteCheckpointer::run() {
  sqlite3* own = nullptr;
  if (sqlite3_open_v2(path_.c_str(), &own, SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_READWRITE, nullptr) ==
      SQLITE_OK) {
    // With FULL a copy is on the disk before the log is written over.
    sqlite3_exec(own, "PRAGMA synchronous = FULL", nullptr, nullptr, nullptr);
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return wanted_ || ends_; });
      if (ends_) break;
      wanted_ = false;
      lock.unlock();
      sqlite3_wal_checkpoint_v2(own, "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
      lock.lock();
    }
  }
  // Without a connection the writer copies, as the log grows.
  sqlite3_close_v2(own);
}

}  // namespace lathe::db
