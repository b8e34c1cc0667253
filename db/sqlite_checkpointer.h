// Copies a database's log into its file beside whoever writes.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

struct sqlite3;

namespace lathe::db {

/// A checkpoint writes pages all over the file and waits for the disk ten times as long as a commit, which
/// SQLite has wait for it: with 2,000 trials a second every third of a second all workers would wait. This
/// one has a thread and a connection of its own; only a log that has grown far all the same is copied by the
/// writer.
class SqliteCheckpointer {
 public:
  /// REQUIRES: the writer's connection outlives this, and is used by one thread at a time.
  SqliteCheckpointer(sqlite3* writer, std::string path);
  ~SqliteCheckpointer();
  SqliteCheckpointer(const SqliteCheckpointer&) = delete;
  SqliteCheckpointer& operator=(const SqliteCheckpointer&) = delete;

 private:
  static int committed(void* self, sqlite3* writer, const char* schema, int frames);
  void ask(int frames);
  void run();

  sqlite3* writer_;
  std::string path_;
  int asked_at_ = 0;  // frames in the log when a copy was last asked for
  std::mutex mutex_;
  std::condition_variable changed_;
  bool wanted_ = false, ends_ = false;
  std::thread thread_;  // started when there is something to copy
};

}  // namespace lathe::db
