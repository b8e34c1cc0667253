// A database behind one interface. The store's SQL is what all backends read; what one says otherwise is a
// member of Database here, and each backend is one file (sqlite_database.cpp). Errors become lathe::Error
// with the database's name, the reason and what to do about it.
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

namespace lathe::db {

/// One value for a `?` of a statement, or for all `?N` of one. Text and bytes are borrowed until the
/// statement has been stepped.
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

  Kind kind() const { return kind_; }
  int64_t integer() const { return integer_; }
  double real() const { return real_; }
  std::string_view text() const { return text_; }  // of kBytes too

 private:
  Kind kind_ = Kind::kNull;
  int64_t integer_ = 0;
  double real_ = 0;
  std::string_view text_;
};

/// The rows of a running statement, as a backend reads them. Columns are counted from 0; a null reads as 0 or
/// "".
class Rows {
 public:
  virtual ~Rows() = default;
  /// Moves to the next row; false at the end.
  virtual bool step() = 0;
  virtual int columns() const = 0;
  virtual bool is_null(int column) = 0;
  virtual int64_t integer(int column) = 0;
  virtual double real(int column) = 0;
  virtual std::string bytes(int column) = 0;
  virtual std::string_view sql() const = 0;
};

/// A running statement. Each column call reads the next column of the current row, left to right.
class Query {
 public:
  explicit Query(std::unique_ptr<Rows> rows) : rows_(std::move(rows)) {}

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
  int next_column();

  std::unique_ptr<Rows> rows_;
  int column_ = 0;
};

class Database;

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
  enum class Kind : uint8_t { kWriting, kReading };
  Transaction(Database& database, Kind kind);
  Database* database_;  // null once committed
  int depth_;
};

enum class Access : uint8_t {
  kReadOnly,
  kReadWrite,
  kAlone,  // to read a file that nobody writes: without locks, so on any file system
};

struct Migration;

/// Locks on what people do with a database, not on its rows. They end with this, or with its process however
/// that ends. REQUIRES: the database outlives it. False: another has one that excludes it.
class Locks {
 public:
  virtual ~Locks() = default;
  /// All jobs, those to come too.
  virtual bool lock_all() = 0;
  /// To make new jobs; several may.
  virtual bool lock_new() = 0;
  virtual bool lock_job(int64_t job) = 0;
  /// Throws DatabaseError when others could have them by now. Those of a server's session end with it.
  virtual void require_held() {}
};

/// One connection; not thread-safe: a connection belongs to one thread. Several processes may hold one each.
/// A committed transaction survives power loss, foreign keys hold, and writing transactions exclude each
/// other.
class Database {
 public:
  virtual ~Database() = default;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  /// Starts one statement. Statements are prepared once and kept, so `sql` should be one of few texts.
  Query query(std::string_view sql, std::initializer_list<Value> values = {}) {
    return Query(start(sql, std::span(values.begin(), values.size())));
  }
  Query query(std::string_view sql, std::span<const Value> values) { return Query(start(sql, values)); }
  /// The same for rows without number: they are not in memory at once. REQUIRES: a transaction or a snapshot.
  Query stream(std::string_view sql, std::initializer_list<Value> values = {}) {
    return Query(start_stream(sql, std::span(values.begin(), values.size())));
  }

  /// Runs one statement to its end and returns how many rows it changed.
  virtual int64_t run(std::string_view sql, std::span<const Value> values) = 0;
  int64_t run(std::string_view sql, std::initializer_list<Value> values = {}) {
    return run(sql, std::span(values.begin(), values.size()));
  }

  /// Runs "INSERT ... RETURNING id" to its end and returns that id; none when no row was inserted.
  std::optional<int64_t> insert(std::string_view sql, std::span<const Value> values);
  std::optional<int64_t> insert(std::string_view sql, std::initializer_list<Value> values) {
    return insert(sql, std::span(values.begin(), values.size()));
  }

  /// Runs a script of several statements without values.
  virtual void run_script(const std::string& sql) = 0;

  Transaction transaction() { return {*this, Transaction::Kind::kWriting}; }
  /// What is read while it lives is of one moment. It writes nothing, so there is nothing to commit.
  Transaction snapshot() { return {*this, Transaction::Kind::kReading}; }

  /// A file's path, or the address of a server.
  const std::string& name() const { return name_; }

  // ---- What backends say otherwise
  /// After a table in FROM: by which index to find its rows, where a backend would choose a worse one.
  virtual std::string by_index(std::string_view index) const = 0;
  /// At the end of a SELECT: keeps the rows of `table` for this transaction, and leaves out those that
  /// another keeps.
  virtual std::string keep_rows(std::string_view table) const = 0;

  virtual std::unique_ptr<Locks> locks() = 0;
  /// Whether anybody has a lock by which it could be at work on that job: on it, on all, or to make new ones.
  /// Takes none, so a reader may ask.
  virtual bool may_be_worked_on(int64_t job) = 0;

  // ---- The schema (schema.h has what is to be called)
  virtual std::span<const Migration> migrations() const = 0;
  /// 0 for an empty database. Throws Error when it is some other program's.
  virtual int version() = 0;
  virtual void set_version(int version) = 0;
  /// Before the first step of a migration from `version`, outside of transactions.
  virtual void prepare_migration(int version) = 0;
  /// Throws Error when what is stored would run code that is not ours.
  virtual void refuse_strange_code() = 0;
  /// What is damaged in it, as far as the backend can tell; reads all of it.
  virtual std::vector<std::string> problems() = 0;

 protected:
  explicit Database(std::string name) : name_(std::move(name)) {}
  virtual std::unique_ptr<Rows> start(std::string_view sql, std::span<const Value> values) = 0;
  virtual std::unique_ptr<Rows> start_stream(std::string_view sql, std::span<const Value> values) = 0;

 private:
  friend class Transaction;
  virtual void begin(bool writing) = 0;
  virtual void commit() = 0;
  /// Of what is left of a transaction; after some errors it has ended by itself.
  virtual bool in_transaction() const = 0;
  /// Runs a script whose failure nobody can be told of.
  virtual void roll_back(const std::string& sql) noexcept = 0;

  std::string name_;
  int transaction_depth_ = 0;
};

/// Whether it is the address of a server (postgresql://...), and no file's path.
bool is_server(const std::string& name);

/// Opens the server's database or the file `name`; kReadWrite creates it. Throws Error for a file that is no
/// database, is damaged or is on a network file system (whose locks SQLite's log can't rely on).
/// `busy_timeout`: how long to wait for another writer.
std::unique_ptr<Database> open_database(const std::string& name, Access access,
                                        std::chrono::milliseconds busy_timeout);

/// Samples (little-endian f32) or any bytes as a blob.
std::span<const std::byte> as_blob(std::span<const float> samples);
std::span<const std::byte> as_blob(const std::string& bytes);

}  // namespace lathe::db
