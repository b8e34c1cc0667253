#include "db/database.h"

#include <sqlite3.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "core/support/error.h"
#include "db/database_error.h"
#include "db/file_system.h"

namespace lathe::db {

// A file may move between machines; no big-endian one is a target of ours.
static_assert(std::endian::native == std::endian::little, "blobs of samples are little-endian");

/// Prepared statements; the idle ones by their text, which the statement itself owns.
struct Database::Cache {
  std::vector<sqlite3_stmt*> all;
  // Several of one text, where one is stepped within another's rows.
  std::unordered_multimap<std::string_view, sqlite3_stmt*> idle;
};

namespace {

/// SQLite's way to say that a file does not change (sqlite.org/uri.html).
std::string immutable_uri(const std::string& path) {
  // With an empty authority before an absolute path: the one that begins with two slashes would have its
  // first folder taken for a host.
  std::string uri = path.starts_with('/') ? "file://" : "file:";
  for (char c : path) {
    const bool has_meaning = c == '%' || c == '?' || c == '#';
    uri += has_meaning ? fmt::format("%{:02x}", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return uri + "?immutable=1";
}

/// A quota or a limit on file sizes shows as a failed write.
/// RLIMIT_FSIZE gives EFBIG and a quota EDQUOT, which SQLite both reports as IOERR_WRITE.
bool is_disk_full(int code) { return code == SQLITE_FULL || code == SQLITE_IOERR_WRITE; }

/// What went wrong and what to do about it; `handle` may be null.
std::string explain(int code, sqlite3* handle, const std::string& path,
                    std::chrono::milliseconds busy_timeout) {
  // Before anything else is asked of the handle, which would overwrite it.
  int system_error = handle ? sqlite3_system_errno(handle) : 0;
  std::string reason = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  int primary = code & 0xff;
  // Recorded rows are safe: a transaction that cannot be written is rolled back as a whole.
  if (is_disk_full(code))
    return fmt::format(
        "database {} can't grow: the disk or a quota is full; free some space and run again (what was "
        "recorded is safe)",
        path);
  switch (primary) {
    // After busy_timeout. In WAL mode only writers wait for writers, and each for milliseconds.
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return fmt::format(
          "database {} is being written by another process (waited {} ms); try again when it is done", path,
          busy_timeout.count());
    case SQLITE_NOTADB:
      return fmt::format("{} is not a database of lathe; name another file", path);
    case SQLITE_CORRUPT:
      return fmt::format("database {} is damaged ({}); restore a copy or name another file", path, reason);
    case SQLITE_READONLY:
      return fmt::format("database {} can't be written: {}", path, reason);
    case SQLITE_CANTOPEN:
      return fmt::format(
          "cannot open database {}: {}", path,
          system_error ? std::strerror(system_error) : "is it a file in a folder that can be written?");
    default:
      return fmt::format("database {}: {}", path, reason);
  }
}

}  // namespace

void Database::raise(int code) const { throw DatabaseError(explain(code, handle_, path_, busy_timeout_)); }

Database::Database(const std::string& path, Access access, std::chrono::milliseconds busy_timeout)
    : path_(path), busy_timeout_(busy_timeout), cache_(std::make_unique<Cache>()) {
  // The log's index is shared memory, which machines do not share; and locks there are often none.
  // Alone: a copy that nobody writes has no log, and may be anywhere.
  if (std::string_view kind = network_file_system(path); access != Access::kAlone && !kind.empty())
    fail(
        "database {} is on a network file system ({}), where its log is not safe; put it on a local disk "
        "(for several machines see docs/database.md, PostgreSQL)",
        path, kind);
  std::error_code ignored;
  // SQLite would say no more than CANTOPEN.
  if (std::filesystem::is_directory(path, ignored)) fail("cannot open database {}: it is a folder", path);
  // Each connection is used by one thread at a time. Extended codes tell a full disk from other errors.
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= access == Access::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (access == Access::kAlone) flags |= SQLITE_OPEN_URI;
  const std::string name = access == Access::kAlone ? immutable_uri(path) : path;
  int code = sqlite3_open_v2(name.c_str(), &handle_, flags, nullptr);
  try {
    if (code != SQLITE_OK) raise(code);
    // SQLite retries by itself, with pauses; nothing above this retries.
    sqlite3_busy_timeout(handle_, static_cast<int>(busy_timeout.count()));
    // Reads the header and the schema: a file that is no database fails here, before anything is changed.
    run("SELECT count(*) FROM sqlite_schema");
    // Off by default, for each connection anew.
    run("PRAGMA foreign_keys = ON");
    // What was acknowledged survives a loss of power: NORMAL would sync the log at checkpoints only.
    if (access == Access::kReadWrite) run("PRAGMA synchronous = FULL");
  } catch (...) {
    // The destructor does not run for what was not constructed; a failed open has a handle all the same.
    sqlite3_close_v2(handle_);
    throw;
  }
}

Database::~Database() {
  for (sqlite3_stmt* statement : cache_->all) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

sqlite3_stmt* Database::acquire(std::string_view sql) {
  // Texts are literals or made of few parts, so some hundred statements are kept at most.
  if (auto found = cache_->idle.find(sql); found != cache_->idle.end()) {
    sqlite3_stmt* statement = found->second;
    cache_->idle.erase(found);
    return statement;
  }
  sqlite3_stmt* statement = nullptr;
  // Prepared once a text: of a million queries preparing would be most.
  int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &statement, nullptr);
  if (code != SQLITE_OK) raise(code);
  // Its text, the key of `idle`, lives as long as the statement: sqlite3_sql() points into it.
  cache_->all.push_back(statement);
  return statement;
}

Query Database::query(std::string_view sql, std::span<const Value> values) {
  return Query(*this, acquire(sql), values);
}

int64_t Database::run(std::string_view sql, std::initializer_list<Value> values) {
  Query statement = query(sql, values);
  // Some pragmas answer with a row.
  while (statement.step()) {
  }
  // Of the last INSERT, UPDATE or DELETE: meaningless after others, and used after these alone.
  return sqlite3_changes64(handle_);
}

void Database::run_script(const std::string& sql) {
  int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(code);
}

int64_t Database::last_insert_id() const { return sqlite3_last_insert_rowid(handle_); }

Query::Query(Database& database, sqlite3_stmt* statement, std::span<const Value> values)
    : database_(database), statement_(statement) {
  // One too few would be bound as NULL, silently.
  CHECK(sqlite3_bind_parameter_count(statement) == static_cast<int>(values.size()), "{} values for: {}",
        values.size(), sqlite3_sql(statement));
  int index = 0, code = SQLITE_OK;
  for (const Value& value : values) {
    ++index;
    switch (value.kind_) {
      case Value::Kind::kNull:
        code = sqlite3_bind_null(statement, index);
        break;
      case Value::Kind::kInteger:
        code = sqlite3_bind_int64(statement, index, value.integer_);
        break;
      case Value::Kind::kReal:
        code = sqlite3_bind_double(statement, index, value.real_);
        break;
      case Value::Kind::kText:
        // No data would be bound as NULL. Copied, for values are temporaries of whoever asks.
        code = sqlite3_bind_text64(statement, index, value.text_.data() ? value.text_.data() : "",
                                   value.text_.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
      case Value::Kind::kBytes:
        code = sqlite3_bind_blob64(statement, index, value.text_.data() ? value.text_.data() : "",
                                   value.text_.size(), SQLITE_TRANSIENT);
        break;
    }
    if (code != SQLITE_OK) database_.raise(code);
  }
}

Query::Query(Query&& other) noexcept
    : database_(other.database_),
      statement_(std::exchange(other.statement_, nullptr)),
      column_(other.column_) {}

Query::~Query() {
  if (!statement_) return;
  // It may stand at a row: left there, it would hold its reading transaction, and no checkpoint could pass.
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  // The one way back into the cache; while a Query lives, nobody else has its statement.
  database_.cache_->idle.emplace(sqlite3_sql(statement_), statement_);
}

bool Query::step() {
  column_ = 0;
  int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_.raise(code);
  return false;
}

int Query::next_column() {
  CHECK(column_ < sqlite3_column_count(statement_), "past the last column of: {}", sqlite3_sql(statement_));
  return column_++;
}

int64_t Query::integer() { return sqlite3_column_int64(statement_, next_column()); }
double Query::real() { return sqlite3_column_double(statement_, next_column()); }

std::string Query::text() {
  int column = next_column();
  // As it is: asked for as text SQLite might convert it, and what is stored need not be UTF-8.
  // Before its length is asked for: a conversion would change it (sqlite3_column_bytes).
  const void* bytes = sqlite3_column_blob(statement_, column);
  return bytes ? std::string(static_cast<const char*>(bytes), sqlite3_column_bytes(statement_, column)) : "";
}

std::vector<float> Query::floats() {
  std::string bytes = text();
  // Bytes beyond the last whole float are dropped; whoever ranks by samples checks them (are_latencies).
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::optional<int64_t> Query::maybe_integer() {
  if (sqlite3_column_type(statement_, column_) == SQLITE_NULL) return next_column(), std::nullopt;
  return integer();
}

std::optional<double> Query::maybe_real() {
  if (sqlite3_column_type(statement_, column_) == SQLITE_NULL) return next_column(), std::nullopt;
  return real();
}

Transaction::Transaction(Database& database, const char* begin)
    : database_(&database), depth_(database.transaction_depth_) {
  if (depth_ == 0)
    // "BEGIN IMMEDIATE" mostly: a transaction that reads first and writes later could not wait for another
    // writer, but would fail (SQLITE_BUSY_SNAPSHOT).
    database.run(begin);
  else
    // SQLite has one transaction a connection; what is inside is a savepoint of it.
    database.run_script(fmt::format("SAVEPOINT level{}", depth_));
  ++database.transaction_depth_;
}

Transaction::Transaction(Transaction&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)), depth_(other.depth_) {}

void Transaction::commit() {
  CHECK(database_, "committed twice");
  CHECK(database_->transaction_depth_ == depth_ + 1, "an inner transaction is still open");
  if (depth_ == 0)
    // With synchronous = FULL this returns when the log is on the disk.
    database_->run("COMMIT");
  else
    database_->run_script(fmt::format("RELEASE level{}", depth_));
  --database_->transaction_depth_;
  database_ = nullptr;
}

Transaction::~Transaction() {
  if (!database_) return;
  // Also where an inner one was left by an exception.
  database_->transaction_depth_ = depth_;
  // SQLite has rolled back by itself after some errors (a full disk); a second rollback would only fail.
  if (sqlite3_get_autocommit(database_->handle_)) return;
  // ROLLBACK TO undoes a savepoint but leaves it open, hence RELEASE.
  std::string sql = depth_ == 0 ? "ROLLBACK" : fmt::format("ROLLBACK TO level{0}; RELEASE level{0}", depth_);
  // Its result is not looked at: a destructor has nobody to tell, and what is left of the transaction ends
  // with the connection.
  sqlite3_exec(database_->handle_, sql.c_str(), nullptr, nullptr, nullptr);
}

std::span<const std::byte> as_blob(std::span<const float> samples) { return std::as_bytes(samples); }
std::span<const std::byte> as_blob(const std::string& bytes) { return std::as_bytes(std::span(bytes)); }

}  // namespace lathe::db
