// The backend for files: SQLite with a write-ahead log and synchronous=FULL. Only this and the files named
// sqlite_* know SQLite.
#pragma once

#include <memory>
#include <unordered_map>

#include "db/database.h"
#include "db/sqlite_checkpointer.h"

struct sqlite3;
struct sqlite3_stmt;

namespace lathe::db {

class SqliteDatabase final : public Database {
 public:
  SqliteDatabase(const std::string& path, Access access, std::chrono::milliseconds busy_timeout);
  ~SqliteDatabase() override;

  using Database::run;
  int64_t run(std::string_view sql, std::span<const Value> values) override;
  void run_script(const std::string& sql) override;

  std::string by_index(std::string_view index) const override;
  /// Nothing: one transaction writes at a time, to a file that nobody else locks by rows.
  std::string keep_rows(std::string_view) const override { return ""; }

  std::unique_ptr<Locks> locks() override;
  bool may_be_worked_on(int64_t job) override;

  std::vector<std::string> problems() override;

  // sqlite_schema.cpp
  std::span<const Migration> migrations() const override;
  int version() override;
  void set_version(int version) override;
  void prepare_migration(int version) override;
  // sqlite_trust.cpp
  void refuse_strange_code() override;

 private:
  class Statement;

  std::unique_ptr<Rows> start(std::string_view sql, std::span<const Value> values) override;
  /// Rows are stepped to one at a time in any case.
  std::unique_ptr<Rows> start_stream(std::string_view sql, std::span<const Value> values) override {
    return start(sql, values);
  }
  void begin(bool writing) override;
  void commit() override;
  bool in_transaction() const override;
  void roll_back(const std::string& sql) noexcept override;

  void require_in_place();
  [[noreturn]] void raise(int code) const;
  sqlite3_stmt* acquire(std::string_view sql);
  int64_t pragma(const char* sql);
  void keep_copy(int version);  // sqlite_copy.cpp

  std::chrono::milliseconds busy_timeout_;
  sqlite3* handle_ = nullptr;
  std::unique_ptr<SqliteCheckpointer> checkpointer_;  // of who writes
  std::vector<sqlite3_stmt*> statements_;
  // Those that nobody uses, by their text, which the statement itself owns. Several of one text, where one is
  // stepped within another's rows.
  std::unordered_multimap<std::string_view, sqlite3_stmt*> idle_;
};

}  // namespace lathe::db
