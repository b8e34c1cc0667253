// A thin layer over SQLite's C API: the only file (with its .cpp) that knows SQLite. Errors become
// lathe::Error with the database's path, the reason and what to do about it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace lathe::db {

/// One value bound to a `?` of a statement. Text and bytes are borrowed until the statement has been stepped.
class Value {
 public:
  enum class Kind : uint8_t { kNull, kInteger, kReal, kText, kBytes };

  Value(std::nullptr_t) {}
  Value(bool value) : kind_(Kind::kInteger), integer_(value) {}
  Value(int value) : kind_(Kind::kInteger), integer_(value) {}
  Value(int64_t value) : kind_(Kind::kInteger), integer_(value) {}
  Value(double value) : kind_(Kind::kReal), real_(value) {}
  Value(std::string_view value) : kind_(Kind::kText), text_(value) {}
  Value(const std::string& value) : kind_(Kind::kText), text_(value) {}
  Value(const char* value) : kind_(Kind::kText), text_(value) {}
  Value(std::span<const std::byte> value)
      : kind_(Kind::kBytes), text_(reinterpret_cast<const char*>(value.data()), value.size()) {}
  template <typename T>
  Value(const std::optional<T>& value) : Value(value ? Value(*value) : Value(nullptr)) {}

 private:
  friend class Query;
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string_view text_;
};

/// A running statement. Each column call reads the next column of the current row, left to right.
class Query {
 public:
  Query(Query&& other) noexcept;
  Query& operator=(Query&&) = delete;
  ~Query();  // resets the statement, which goes back to its database's cache

  /// Moves to the next row; false at the end.
  bool step();

  int64_t integer();
  double real();
  bool boolean() { return integer() != 0; }
  std::string text();  // also of a blob: its bytes
  std::vector<float> floats();
  std::optional<int64_t> maybe_integer();
  std::optional<double> maybe_real();

 private:
  friend class Database;
  Query(class Database& database, sqlite3_stmt* statement, std::span<const Value> values);
  int next_column();

  Database& database_;
  sqlite3_stmt* statement_;
  int column_ = 0;
};

/// The write lock and the atomicity of what happens until commit(). Destroyed without commit() it rolls back.
/// Inside another transaction it is a savepoint of that one.
class Transaction {
 public:
  Transaction(Transaction&& other) noexcept;
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  /// Durable on return when this is the outermost transaction. Throws Error (a full disk, say): nothing
  /// happened.
  void commit();

 private:
  friend class Database;
  Transaction(Database& database, const char* begin);
  Database* database_;  // null once committed
  int depth_;
};

enum class Access : uint8_t {
  kReadOnly,
  kReadWrite,
  kAlone,  // to read a file that nobody writes: without locks, so on any file system
};

/// One connection; not thread-safe: a connection belongs to one thread. Several processes may hold one each.
/// Write-ahead log, synchronous=FULL (a committed transaction survives power loss), foreign keys on.
class Database {
 public:
  /// Opens `path`; kReadWrite creates it. Throws Error for a file that is no database, is damaged or is on a
  /// network file system (whose locks SQLite's log can't rely on). `busy_timeout`: how long to wait for
  /// another writer.
  Database(const std::string& path, Access access, std::chrono::milliseconds busy_timeout);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Starts one statement. Statements are prepared once and kept, so `sql` should be one of few texts.
  Query query(std::string_view sql, std::span<const Value> values);
  Query query(std::string_view sql, std::initializer_list<Value> values = {}) {
    return query(sql, std::span(values.begin(), values.size()));
  }

  /// Runs one statement to its end and returns how many rows it changed.
  int64_t run(std::string_view sql, std::initializer_list<Value> values = {});

  /// Runs a script of several statements without values.
  void run_script(const std::string& sql);

  Transaction transaction() { return Transaction(*this, "BEGIN IMMEDIATE"); }
  /// What is read while it lives is of one moment. It writes nothing, so there is nothing to commit.
  Transaction snapshot() { return Transaction(*this, "BEGIN"); }

  int64_t last_insert_id() const;
  const std::string& path() const { return path_; }

 private:
  friend class Query;
  friend class Transaction;
  [[noreturn]] void raise(int code) const;
  sqlite3_stmt* acquire(std::string_view sql);

  std::string path_;
  std::chrono::milliseconds busy_timeout_;
  sqlite3* handle_ = nullptr;
  int transaction_depth_ = 0;
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

/// Samples (little-endian f32) or any bytes as a blob.
std::span<const std::byte> as_blob(std::span<const float> samples);
std::span<const std::byte> as_blob(const std::string& bytes);

}  // namespace lathe::db
