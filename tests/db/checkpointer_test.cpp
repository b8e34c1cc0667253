// A log that is copied beside whoever writes.
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "core/support/temporary_folder.h"
#include "db/sqlite_checkpointer.h"

namespace lathe::db {
namespace {

constexpr uintmax_t kPage = 4096;

class Checkpointer : public ::testing::Test {
 protected:
  Checkpointer() {
    EXPECT_EQ(sqlite3_open(path_.c_str(), &writer_), SQLITE_OK);
    run("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t(b)");
  }
  ~Checkpointer() override { sqlite3_close_v2(writer_); }

  void run(const char* sql) {
    EXPECT_EQ(sqlite3_exec(writer_, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(writer_);
  }
  void write_pages(int pages) {
    run(("INSERT INTO t VALUES (randomblob(" + std::to_string(static_cast<int>(kPage) * pages) + "))")
            .c_str());
  }
  uintmax_t pages_of(const std::string& file) const { return std::filesystem::file_size(file) / kPage; }

  TemporaryFolder folder_;
  std::string path_ = folder_ / "t.db";
  sqlite3* writer_ = nullptr;
};

TEST_F(Checkpointer, CopiesWhileNobodyWrites) {
  SqliteCheckpointer checkpointer(writer_, path_);
  write_pages(500);
  EXPECT_LT(pages_of(path_), 100U) << "a commit copies nothing";
  write_pages(1000);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (pages_of(path_) < 1500 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GE(pages_of(path_), 1500U);
}

TEST_F(Checkpointer, BoundsTheLogOfAWriterThatNeverPauses) {
  SqliteCheckpointer checkpointer(writer_, path_);
  for (int i = 0; i < 200; ++i) write_pages(100);
  // 4,000, and what is committed while the other thread's copy is under way: it never has all 20,000.
  EXPECT_LT(pages_of(path_ + "-wal"), 8000U);
  EXPECT_GE(pages_of(path_), 15'000U);
}

}  // namespace
}  // namespace lathe::db
