#include "db/sqlite_database.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/support/error.h"
#include "db/database_error.h"
#include "db/file_system.h"

namespace lathe::db {

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
/// RLIMIT_FSIZE gives EFBIG and a quota EDQUOT, which SQLite both reports as IOERR_WRITE; of the log's index
/// as IOERR_SHMSIZE, whatever the reason.
bool is_disk_full(int code) {
  return code == SQLITE_FULL || code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_SHMSIZE;
}

/// Of a text its bytes, as servers have it; SQLite has none before 3.43.
void octet_length(sqlite3_context* context, int, sqlite3_value** values) {
  if (sqlite3_value_type(values[0]) == SQLITE_NULL)
    sqlite3_result_null(context);
  else
    sqlite3_result_int64(context, sqlite3_value_bytes(values[0]));
}

// Of one value: four times what a whole job of the default budget may keep. SQLite's own is 1 GB.
constexpr int kMostValueBytes = 256 << 20;

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
    case SQLITE_TOOBIG:
      return fmt::format(
          "database {} holds a value of more than {} MiB, which no version of this program made; do not "
          "trust it",
          path, kMostValueBytes >> 20);
    case SQLITE_READONLY:
      // To roll it back SQLite removes the file that the journal names, whosever it is.
      if (code == SQLITE_READONLY_ROLLBACK)
        return fmt::format(
            "database {0} has a journal beside it, {0}-journal, which no version of this program leaves; do "
            "not "
            "trust it",
            path);
      return fmt::format("database {} can't be written: {}", path, reason);
    case SQLITE_CANTOPEN: {
      const std::string parent = std::filesystem::path(path).parent_path().string(),
                        folder = parent.empty() ? "." : parent;
      // Of a read-only file system SQLite would say that there is no such file: the log beside it.
      if (access(path.c_str(), F_OK) == 0 && access(folder.c_str(), W_OK) != 0)
        return fmt::format(
            "cannot open database {}: its log belongs beside it, and that folder cannot be "
            "written ({}); copy it to one that can",
            path, std::strerror(errno));
      // A missing folder says so by itself.
      if (access(folder.c_str(), F_OK) == 0 && access(folder.c_str(), W_OK) != 0) system_error = errno;
      return fmt::format(
          "cannot open database {}: {}", path,
          system_error ? std::strerror(system_error) : "is it a file in a folder that can be written?");
    }
    default:
      return fmt::format("database {}: {}", path, reason);
  }
}

}  // namespace

/// Returns to the cache when it is destroyed.
class SqliteDatabase::Statement final : public Rows {
 public:
  Statement(SqliteDatabase& database, std::string_view sql, std::span<const Value> values)
      : database_(database), statement_(database.acquire(sql)) {
    bind(values);
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() override {
    // It may stand at a row: left there, it would hold its reading transaction, and no checkpoint could pass.
    sqlite3_reset(statement_);
    sqlite3_clear_bindings(statement_);
    database_.idle_.emplace(sqlite3_sql(statement_), statement_);
  }

  bool step() override {
    int code = sqlite3_step(statement_);
    if (code == SQLITE_ROW) return true;
    if (code != SQLITE_DONE) database_.raise(code);
    return false;
  }
  int columns() const override { return sqlite3_column_count(statement_); }
  bool is_null(int column) override { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  int64_t integer(int column) override {
    require_number(column);
    return sqlite3_column_int64(statement_, column);
  }
  double real(int column) override {
    require_number(column);
    return sqlite3_column_double(statement_, column);
  }
  std::string bytes(int column) override {
    // As it is: asked for as text SQLite might convert it, and what is stored need not be UTF-8.
    // Before its length is asked for: a conversion would change it (sqlite3_column_bytes).
    const void* bytes = sqlite3_column_blob(statement_, column);
    return bytes ? std::string(static_cast<const char*>(bytes), sqlite3_column_bytes(statement_, column))
                 : "";
  }
  std::string_view sql() const override { return sqlite3_sql(statement_); }

 private:
  void bind(std::span<const Value> values);
  /// STRICT looks at what is written, not at what a file holds already; and text, which is more than any
  /// number where rows are compared, would read as 0.
  void require_number(int column) const {
    const int type = sqlite3_column_type(statement_, column);
    if (type == SQLITE_TEXT || type == SQLITE_BLOB)
      fail(
          "database {} holds text where a number belongs, which no version of this program writes; do not "
          "trust it",
          database_.name());
  }

  SqliteDatabase& database_;
  sqlite3_stmt* statement_;
};

void SqliteDatabase::Statement::bind(std::span<const Value> values) {
  // One too few would be bound as NULL, silently.
  CHECK(sqlite3_bind_parameter_count(statement_) == static_cast<int>(values.size()), "{} values for: {}",
        values.size(), sqlite3_sql(statement_));
  int index = 0, code = SQLITE_OK;
  for (const Value& value : values) {
    ++index;
    switch (value.kind()) {
      case Value::Kind::kNull:
        code = sqlite3_bind_null(statement_, index);
        break;
      case Value::Kind::kInteger:
        code = sqlite3_bind_int64(statement_, index, value.integer());
        break;
      case Value::Kind::kReal:
        code = sqlite3_bind_double(statement_, index, value.real());
        break;
      case Value::Kind::kText:
        // No data would be bound as NULL. Copied, for values are temporaries of whoever asks.
        code = sqlite3_bind_text64(statement_, index, value.text().data() ? value.text().data() : "",
                                   value.text().size(), SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
      case Value::Kind::kBytes:
        code = sqlite3_bind_blob64(statement_, index, value.text().data() ? value.text().data() : "",
                                   value.text().size(), SQLITE_TRANSIENT);
        break;
    }
    if (code != SQLITE_OK) database_.raise(code);
  }
}

void SqliteDatabase::raise(int code) const {
  const std::string problem = explain(code, handle_, name(), busy_timeout_);
  if (is_disk_full(code)) throw DiskFullError(problem);
  // No disk's or server's trouble, which may pass.
  if ((code & 0xff) == SQLITE_NOTADB) throw Error(problem);
  const int primary = code & 0xff;
  if (primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG || primary == SQLITE_MISMATCH)
    throw RefusedValueError(problem);
  throw DatabaseError(problem);
}

SqliteDatabase::SqliteDatabase(const std::string& path, Access access, std::chrono::milliseconds busy_timeout)
    : Database(path), busy_timeout_(busy_timeout) {
  // The log's index is shared memory, which machines do not share; and locks there are often none.
  // Alone: a copy that nobody writes has no log, and may be anywhere.
  const bool is_file = access != Access::kAlone && path != ":memory:";
  if (std::string_view kind = is_file ? network_file_system(path) : ""; !kind.empty())
    fail(
        "database {} is on a network file system ({}), where its log is not safe; put it on a local disk "
        "(for several machines see docs/database.md, PostgreSQL)",
        path, kind);
  std::error_code ignored;
  // SQLite would say no more than CANTOPEN.
  if (std::filesystem::is_directory(path, ignored)) fail("cannot open database {}: it is a folder", path);
  // And a reader of a pipe would wait for somebody to write into it, for ever.
  if (std::filesystem::is_other(path, ignored)) fail("cannot open database {}: it is no regular file", path);
  // Of one byte SQLite would make a new database, and that byte would be gone.
  if (std::filesystem::exists(path, ignored) && std::filesystem::file_size(path, ignored) == 1)
    fail("{} is not a database of lathe; name another file", path);
  // Each connection is used by one thread at a time. Extended codes tell a full disk from other errors.
  int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  flags |= access == Access::kReadWrite ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
  if (access == Access::kAlone) flags |= SQLITE_OPEN_URI;
  const std::string uri = access == Access::kAlone ? immutable_uri(path) : path;
  int code = sqlite3_open_v2(uri.c_str(), &handle_, flags, nullptr);
  try {
    if (code != SQLITE_OK) raise(code);
    sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, kMostValueBytes);
    sqlite3_create_function_v2(handle_, "octet_length", 1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, nullptr,
                               octet_length, nullptr, nullptr, nullptr);
    // SQLite retries by itself, with pauses; nothing above this retries.
    sqlite3_busy_timeout(handle_, static_cast<int>(busy_timeout.count()));
    // Reads the header and the schema: a file that is no database fails here, before anything is changed.
    run("SELECT count(*) FROM sqlite_schema");
    // Off by default, for each connection anew.
    run("PRAGMA foreign_keys = ON");
    // What was acknowledged survives a loss of power: NORMAL would sync the log at checkpoints only.
    if (access == Access::kReadWrite) {
      run("PRAGMA synchronous = FULL");
      checkpointer_ = std::make_unique<SqliteCheckpointer>(handle_, path);
    }
  } catch (...) {
    // The destructor does not run for what was not constructed; a failed open has a handle all the same.
    sqlite3_close_v2(handle_);
    throw;
  }
}

SqliteDatabase::~SqliteDatabase() {
  checkpointer_.reset();  // the last connection that is closed takes the log with it
  for (sqlite3_stmt* statement : statements_) sqlite3_finalize(statement);
  sqlite3_close_v2(handle_);
}

sqlite3_stmt* SqliteDatabase::acquire(std::string_view sql) {
  // Texts are literals or made of few parts, so some hundred statements are kept at most.
  if (auto found = idle_.find(sql); found != idle_.end()) {
    sqlite3_stmt* statement = found->second;
    idle_.erase(found);
    return statement;
  }
  sqlite3_stmt* statement = nullptr;
  // Prepared once a text: of a million queries preparing would be most.
  int code = sqlite3_prepare_v3(handle_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                &statement, nullptr);
  if (code != SQLITE_OK) raise(code);
  // Its text, the key of `idle`, lives as long as the statement: sqlite3_sql() points into it.
  statements_.push_back(statement);
  return statement;
}

std::unique_ptr<Rows> SqliteDatabase::start(std::string_view sql, std::span<const Value> values) {
  return std::make_unique<Statement>(*this, sql, values);
}

int64_t SqliteDatabase::run(std::string_view sql, std::span<const Value> values) {
  Statement statement(*this, sql, values);
  // Some pragmas answer with a row.
  while (statement.step()) {
  }
  // Of the last INSERT, UPDATE or DELETE: meaningless after others, and used after these alone.
  return sqlite3_changes64(handle_);
}

void SqliteDatabase::run_script(const std::string& sql) {
  int code = sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) raise(code);
}

std::string SqliteDatabase::by_index(std::string_view index) const {
  return fmt::format("INDEXED BY {}", index);
}

/// A file that has no name any more, or whose name is another's, takes what is written and is gone with its
/// last connection.
void SqliteDatabase::require_in_place() {
  int moved = 0;
  // Of a database in memory this says nothing.
  sqlite3_file_control(handle_, nullptr, SQLITE_FCNTL_HAS_MOVED, &moved);
  if (moved)
    throw DatabaseError(fmt::format(
        "database {} was removed or replaced while it is in use: nothing more is recorded in it", name()));
}

void SqliteDatabase::begin(bool writing) {
  require_in_place();
  // A transaction that reads first and writes later could not wait for another writer, but would fail
  // (SQLITE_BUSY_SNAPSHOT).
  run(writing ? "BEGIN IMMEDIATE" : "BEGIN", std::span<const Value>());
}

// With synchronous = FULL this returns when the log is on the disk.
void SqliteDatabase::commit() {
  require_in_place();
  run("COMMIT", std::span<const Value>());
}

// SQLite rolls back by itself after some errors (a full disk).
bool SqliteDatabase::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

void SqliteDatabase::roll_back(const std::string& sql) noexcept {
  sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr);
}

std::vector<std::string> SqliteDatabase::problems() {
  std::vector<std::string> problems;
  // Reads every page and every index: minutes for gigabytes.
  for (Query row = query("PRAGMA integrity_check"); row.step();)
    if (std::string line = row.text(); line != "ok") problems.push_back(line);
  // Not part of the former (sqlite.org/pragma.html).
  for (Query row = query("PRAGMA foreign_key_check"); row.step();) {
    std::string table = row.text();
    problems.push_back(fmt::format("row {} of table {} refers to nothing", row.integer(), table));
  }
  return problems;
}

namespace {

std::filesystem::path real_name(const std::string& database) {
  std::error_code error;
  std::filesystem::path real = std::filesystem::canonical(database, error);
  if (error) fail("database {}: {}", database, error.message());
  return real;
}

/// Of a file with several names of its own SQLite makes a log beside each, and two of them damage it.
void require_one_name(const std::string& database) {
  std::error_code error;
  if (std::filesystem::hard_link_count(real_name(database), error) > 1 && !error)
    fail(
        "database {} has another name (a hard link), by which it could be written beside this one; remove "
        "that, or copy the file",
        database);
}

/// One database has one name here, whatever links lead to it.
std::string claims_path(const std::string& database) { return real_name(database).string() + "-claims"; }

struct flock lock_of(short kind, int64_t start, int64_t length) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

/// Locks of the file DATABASE-claims, byte by byte (open file description locks, fcntl(2)): byte 0 stands for
/// making jobs, byte N for job N, which need not exist. Never of the database itself: SQLite's own locks are
/// on that, and by POSIX any close() of it in this process would drop them.
class FileLocks final : public Locks {
 public:
  explicit FileLocks(const std::string& database) : path_(claims_path(database)) {
    require_one_name(database);
    // Whoever may read it could lock it, for as long as they like.
    file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ < 0) fail("{}: cannot open: {}", path_, strerror(errno));
    // Of an earlier release others may.
    struct stat status {};
    if (fstat(file_, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) != 0)
      fchmod(file_, 0600);
  }
  FileLocks(const FileLocks&) = delete;
  FileLocks& operator=(const FileLocks&) = delete;
  ~FileLocks() override { close(file_); }

  bool lock_all() override { return lock(F_WRLCK, 0, 0); }
  // Not beside a tracker, which has all bytes.
  bool lock_new() override { return lock(F_RDLCK, 0, 1); }
  bool lock_job(int64_t job) override { return lock(F_WRLCK, job, 1); }
  void require_held() override {
    struct stat held {
    }, found{};
    // Another process would make the file anew, and lock that.
    if (stat(path_.c_str(), &found) != 0 || fstat(file_, &held) != 0 || found.st_ino != held.st_ino)
      throw DatabaseError(fmt::format(
          "{} was removed while its locks are held: whoever comes now would not see that", path_));
  }

 private:
  bool lock(short kind, int64_t start, int64_t length) {
    struct flock wanted = lock_of(kind, start, length);
    // Of the open file, not of the process: two within one process exclude each other too, and no other
    // descriptor's close() ends them.
    if (fcntl(file_, F_OFD_SETLK, &wanted) == 0) return true;
    if (errno == EAGAIN || errno == EACCES) return false;
    fail("{}: cannot lock: {}", path_, strerror(errno));
  }

  const std::string path_;
  int file_ = -1;
};

}  // namespace

std::unique_ptr<Locks> SqliteDatabase::locks() { return std::make_unique<FileLocks>(name()); }

bool SqliteDatabase::may_be_worked_on(int64_t job) {
  const std::string path = claims_path(name());
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  // Nobody has ever locked anything of it.
  if (file < 0 && errno == ENOENT) return false;
  // Another user's, of which nobody here can say more.
  if (file < 0 && errno == EACCES) return true;
  if (file < 0) fail("{}: cannot open: {}", path, strerror(errno));
  bool locked = false;
  for (const int64_t byte : {int64_t{0}, job}) {
    struct flock other = lock_of(F_WRLCK, byte, 1);
    // Says who would be in the way of such a lock, in its place.
    const bool asked = fcntl(file, F_OFD_GETLK, &other) == 0;
    locked = locked || !asked || other.l_type != F_UNLCK;
  }
  close(file);
  return locked;
}

}  // namespace lathe::db
