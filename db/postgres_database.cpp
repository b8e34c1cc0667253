#include "db/postgres_database.h"

#include <fmt/core.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/support/error.h"
#include "core/support/printable.h"
#include "db/database_error.h"

namespace lathe::db {

namespace {

// Of pg_type; they are fixed (src/include/catalog/pg_type.dat).
enum Type : Oid { kUnknown = 0, kBool = 16, kBytea = 17, kInt8 = 20, kText = 25, kFloat8 = 701 };

/// Two of them are a place among the server's advisory locks that no other program is likely to have.
constexpr int kWriters = 0x4c415448;  // "LATH"

constexpr const char* kRollBack = "ROLLBACK";  // as Transaction says it

/// Our statements have `?` or `?N` where PostgreSQL has $N.
std::string numbered(std::string_view sql) {
  std::string out;
  int next = 1;
  bool quoted = false;
  for (size_t i = 0; i < sql.size(); ++i) {
    quoted ^= sql[i] == '\'';
    if (sql[i] != '?' || quoted) {
      out += sql[i];
      continue;
    }
    out += '$';
    if (i + 1 < sql.size() && isdigit(static_cast<unsigned char>(sql[i + 1])) != 0) continue;
    out += fmt::format("{}", next++);
  }
  return out;
}

/// Texts come from strangers (what a candidate wrote to stderr, say): what the server would refuse becomes
/// U+FFFD.
std::string acceptable(std::string_view text) {
  std::string out = as_utf8(text);
  for (size_t at; (at = out.find('\0')) != std::string::npos;) out.replace(at, 1, "\xef\xbf\xbd");
  return out;
}

int nibble(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

/// Of bytes the server's text is \x and two digits for each.
std::string from_hex(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 2; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(nibble(text[i]) << 4 | nibble(text[i + 1]));
  return bytes;
}

std::string_view without_line_end(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

/// Whoever lists processes sees arguments, and who reads logs what is in them.
void require_no_password(const std::string& url) {
  char* problem = nullptr;
  PQconninfoOption* options = PQconninfoParse(url.c_str(), &problem);
  if (!options) {
    std::string why(without_line_end(problem ? problem : "out of memory"));
    PQfreemem(problem);
    // It quotes what it cannot read, which may be the password.
    if (url.find('@') != std::string::npos || url.find("password") != std::string::npos)
      why = why.substr(0, why.find('"')) + "...";
    fail("{}: {}", url.substr(0, url.find("//") + 2) + "...", why);
  }
  bool has_password = false;
  // Of each option it says whether it is to be shown: "*", a password, of a user or of a key.
  for (PQconninfoOption* option = options; option->keyword; ++option)
    has_password |= option->val && *option->val && std::strchr(option->dispchar, '*');
  PQconninfoFree(options);
  if (has_password)
    fail(
        "the database's address holds a password, which others can see; put it into ~/.pgpass, or a file "
        "that PGPASSFILE names");
}

}  // namespace

/// A statement's values as libpq takes them.
struct PostgresDatabase::Parameters {
  std::vector<Oid> types;
  std::vector<std::string> texts;
  std::vector<const char*> values;
  std::vector<int> lengths, formats;

  explicit Parameters(std::span<const Value> all) {
    texts.reserve(all.size());  // pointers into them stay good
    for (const Value& value : all) add(value);
  }
  int count() const { return static_cast<int>(types.size()); }

 private:
  void add(const Value& value) {
    using Kind = Value::Kind;
    // As in SQLite a number that is none is nothing.
    const bool is_null =
        value.kind() == Kind::kNull || (value.kind() == Kind::kReal && std::isnan(value.real()));
    switch (value.kind()) {
      case Kind::kNull:
        put(kUnknown, "");
        break;
      case Kind::kInteger:
        put(kInt8, fmt::format("{}", value.integer()));
        break;
      case Kind::kReal:
        put(kFloat8, std::isinf(value.real()) ? (value.real() > 0 ? "Infinity" : "-Infinity")
                                              : fmt::format("{}", value.real()));
        break;
      case Kind::kText:
        put(kText, acceptable(value.text()));
        break;
      case Kind::kBytes:
        put(kBytea, std::string(value.text()));
        break;
    }
    if (is_null) values.back() = nullptr;
  }
  void put(Oid type, std::string text) {
    types.push_back(type);
    texts.push_back(std::move(text));
    values.push_back(texts.back().data());
    lengths.push_back(static_cast<int>(texts.back().size()));
    formats.push_back(type == kBytea || type == kText ? 1
                                                      : 0);  // of these the bytes are the binary format, too
  }
};

/// All rows of a statement.
class PostgresDatabase::Result final : public Rows {
 public:
  Result(std::string_view sql, PGresult* result) : sql_(sql), result_(result) {}
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() override { PQclear(result_); }

  bool step() override { return ++row_ < PQntuples(result_); }
  int columns() const override { return PQnfields(result_); }
  bool is_null(int column) override { return PQgetisnull(result_, row_, column) != 0; }
  int64_t integer(int column) override {
    const std::string_view text = at(column);
    if (PQftype(result_, column) == kBool) return text == "t" ? 1 : 0;
    int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }
  double real(int column) override { return std::strtod(PQgetvalue(result_, row_, column), nullptr); }
  std::string bytes(int column) override {
    return PQftype(result_, column) == kBytea && !is_null(column) ? from_hex(at(column))
                                                                  : std::string(at(column));
  }
  std::string_view sql() const override { return sql_; }

 private:
  std::string_view at(int column) const {
    return {PQgetvalue(result_, row_, column), static_cast<size_t>(PQgetlength(result_, row_, column))};
  }

  const std::string sql_;
  PGresult* result_;
  int row_ = -1;
};

/// Rows without number, some at a time.
class PostgresDatabase::Cursor final : public Rows {
 public:
  Cursor(PostgresDatabase& database, std::string_view sql, std::span<const Value> values)
      : database_(database), sql_(sql), name_(fmt::format("cursor{}", ++database.cursors_)) {
    const Parameters parameters(values);
    const std::string declare = fmt::format("DECLARE {} NO SCROLL CURSOR FOR {}", name_, numbered(sql));
    PQclear(database_.checked(PQexecParams(database_.connection_, declare.c_str(), parameters.count(),
                                           parameters.types.data(), parameters.values.data(),
                                           parameters.lengths.data(), parameters.formats.data(), 0)));
    fetch();
  }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  ~Cursor() override {
    // Else it would stay until the transaction's end.
    if (database_.in_transaction()) database_.roll_back(fmt::format("CLOSE {}", name_));
  }

  bool step() override {
    if (rows_->step()) return true;
    if (over_) return false;
    fetch();
    over_ = !rows_->step();
    return !over_;
  }
  int columns() const override { return rows_->columns(); }
  bool is_null(int column) override { return rows_->is_null(column); }
  int64_t integer(int column) override { return rows_->integer(column); }
  double real(int column) override { return rows_->real(column); }
  std::string bytes(int column) override { return rows_->bytes(column); }
  std::string_view sql() const override { return sql_; }

 private:
  void fetch() {
    rows_.emplace(sql_, database_.checked(
                            PQexec(database_.connection_, fmt::format("FETCH 1000 FROM {}", name_).c_str())));
  }

  PostgresDatabase& database_;
  const std::string sql_, name_;
  std::optional<Result> rows_;
  bool over_ = false;
};

PostgresDatabase::PostgresDatabase(const std::string& url, Access access,
                                   std::chrono::milliseconds busy_timeout)
    : Database(url), access_(access), busy_timeout_(busy_timeout) {
  require_no_password(url);
  connect();
}

void PostgresDatabase::connect() {
  // What comes later counts: the address may say otherwise, but for the encoding. A server that vanishes
  // without a word (its power, a cable) is given up after half a minute, not after the hours that are usual.
  const std::pair<const char*, const char*> settings[] = {
      {"connect_timeout", "10"},  {"keepalives_idle", "10"},     {"keepalives_interval", "5"},
      {"keepalives_count", "4"},  {"tcp_user_timeout", "30000"}, {"fallback_application_name", "lathe"},
      {"dbname", name().c_str()}, {"client_encoding", "UTF8"},   {nullptr, nullptr}};
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : settings) {
    keywords.push_back(keyword);
    values.push_back(value);
  }
  connection_ = PQconnectdbParams(keywords.data(), values.data(), /*expand_dbname=*/1);
  try {
    if (PQstatus(connection_) != CONNECTION_OK)
      throw DatabaseError(
          fmt::format("cannot reach database {}: {}", name(), without_line_end(PQerrorMessage(connection_))));
    if (const char* encoding = PQparameterStatus(connection_, "server_encoding");
        !encoding || std::strcmp(encoding, "UTF8") != 0)
      fail("database {} has texts in {}; make it with ENCODING 'UTF8'", name(), encoding ? encoding : "?");
    // 0 would be to wait for ever.
    run_script(fmt::format("SET lock_timeout = {}; SET client_min_messages = warning",
                           std::max<int64_t>(1, busy_timeout_.count())));
    // What was acknowledged survives a loss of power, whatever is usual there.
    run_script(
        "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = "
        "'off'");
    if (access_ != Access::kReadWrite) run_script("SET default_transaction_read_only = on");
  } catch (...) {
    PQfinish(std::exchange(connection_, nullptr));
    throw;
  }
}

bool PostgresDatabase::is_connected() {
  if (PQstatus(connection_) != CONNECTION_OK) return false;
  // Between statements nothing comes, so that this is one poll() as a rule.
  pollfd socket{.fd = PQsocket(connection_), .events = POLLIN, .revents = 0};
  if (poll(&socket, 1, 0) <= 0) return true;
  // A notice, or that the session ends, after which the server hangs up in its own time: whoever goes on
  // answers.
  PQclear(PQexec(connection_, ""));
  return PQstatus(connection_) == CONNECTION_OK;
}

void PostgresDatabase::revive() {
  // What a transaction has done so far is lost with its connection: the next statement of it must fail, not
  // be committed alone.
  if (open_) return;
  // Whoever holds locks has to hear that they are gone, for another may hold them by now.
  if (locks_ > 0 || is_connected()) return;
  PQfinish(std::exchange(connection_, nullptr));
  prepared_.clear();  // they were the session's
  connect();
}

PostgresDatabase::~PostgresDatabase() { PQfinish(connection_); }

void PostgresDatabase::raise(const PGresult* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const std::string_view code = state ? state : "";
  const char* const primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string_view reason = without_line_end(primary ? primary : PQerrorMessage(connection_));
  // Class 53 and 55: see Appendix A of PostgreSQL's manual.
  if (code == "53100")
    throw DatabaseError(
        fmt::format("database {} can't grow: the disk or a quota is full; free some space and run again "
                    "(what was recorded is safe)",
                    name()));
  if (code == "55P03")
    throw DatabaseError(fmt::format(
        "database {} is being written by another process (waited {} ms); try again when it is done", name(),
        busy_timeout_.count()));
  if (PQstatus(connection_) != CONNECTION_OK)
    throw DatabaseError(fmt::format("lost the connection to database {}: {}", name(), reason));
  // Data, constraints, and what is beyond a limit of the server's program.
  if (code.starts_with("22") || code.starts_with("23") || code.starts_with("54"))
    throw RefusedValueError(fmt::format("database {}: {}", name(), reason));
  throw DatabaseError(fmt::format("database {}: {}", name(), reason));
}

PGresult* PostgresDatabase::checked(PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) return result;
  const std::unique_ptr<PGresult, void (*)(PGresult*)> owned(result, PQclear);
  raise(result);
}

PGresult* PostgresDatabase::execute(std::string_view sql, std::span<const Value> values) {
  revive();
  const Parameters parameters(values);
  // With the types, for a null has none of its own: the server settles it by what it is compared with.
  std::string key(sql);
  for (const Oid type : parameters.types) key += fmt::format(",{}", type);
  auto found = prepared_.find(key);
  if (found == prepared_.end()) {
    const std::string name = fmt::format("s{}", prepared_.size());
    PQclear(checked(PQprepare(connection_, name.c_str(), numbered(sql).c_str(), parameters.count(),
                              parameters.types.data())));
    found = prepared_.emplace(std::move(key), name).first;
  }
  return checked(PQexecPrepared(connection_, found->second.c_str(), parameters.count(),
                                parameters.values.data(), parameters.lengths.data(),
                                parameters.formats.data(), /*resultFormat=*/0));
}

std::unique_ptr<Rows> PostgresDatabase::start(std::string_view sql, std::span<const Value> values) {
  return std::make_unique<Result>(sql, execute(sql, values));
}

std::unique_ptr<Rows> PostgresDatabase::start_stream(std::string_view sql, std::span<const Value> values) {
  CHECK(in_transaction(), "a stream outside of a transaction: {}", sql);
  return std::make_unique<Cursor>(*this, sql, values);
}

int64_t PostgresDatabase::run(std::string_view sql, std::span<const Value> values) {
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(execute(sql, values), PQclear);
  return std::strtoll(PQcmdTuples(result.get()), nullptr, 10);
}

void PostgresDatabase::run_script(const std::string& sql) {
  PQclear(checked(PQexec(connection_, sql.c_str())));
}

std::string PostgresDatabase::keep_rows(std::string_view table) const {
  return fmt::format(" FOR UPDATE OF {} SKIP LOCKED", table);
}

void PostgresDatabase::begin(bool writing) {
  revive();
  run_script(writing ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  open_ = true;
  if (!writing) return;
  try {
    // One transaction writes at a time, as in a file: what is read before it is written is still so then, no
    // two wait for each other's rows, and numbers of events are in the order in which they are seen.
    run_script(fmt::format("SELECT pg_advisory_xact_lock({}, hashtext(current_schema()))", kWriters));
  } catch (...) {
    roll_back(kRollBack);
    throw;
  }
}

void PostgresDatabase::commit() {
  const std::unique_ptr<PGresult, void (*)(PGresult*)> result(checked(PQexec(connection_, "COMMIT")),
                                                              PQclear);
  open_ = false;
  // A transaction in which a statement has failed is rolled back by COMMIT, which is no error to the server.
  if (std::strcmp(PQcmdStatus(result.get()), "COMMIT") != 0)
    throw DatabaseError(
        fmt::format("database {}: a statement of this transaction has failed before", name()));
}

// Of ours: the server has forgotten one whose connection was lost, and still nothing else may begin before
// whoever has it gives it up.
bool PostgresDatabase::in_transaction() const { return open_; }

void PostgresDatabase::roll_back(const std::string& sql) noexcept {
  PQclear(PQexec(connection_, sql.c_str()));
  if (sql == kRollBack) open_ = false;
}

/// Advisory locks of this session: job N by its number, and 0 for what all have in common.
class PostgresDatabase::SessionLocks final : public Locks {
 public:
  explicit SessionLocks(PostgresDatabase& database) : database_(database) {}
  SessionLocks(const SessionLocks&) = delete;
  SessionLocks& operator=(const SessionLocks&) = delete;
  ~SessionLocks() override {
    for (const std::string& unlock : held_) database_.roll_back(unlock);
    database_.locks_ -= held_.size();
  }

  bool lock_all() override { return lock("", 0); }
  bool lock_new() override { return lock("_shared", 0); }
  bool lock_job(int64_t job) override { return lock("_shared", 0) && lock("", job); }

 private:
  bool lock(const char* kind, int64_t number) {
    // A schema's own, in the upper half.
    const std::string arguments =
        fmt::format("{}((hashtext(current_schema())::bigint << 32) | {})", kind, number & 0xffffffff);
    Query row = database_.query("SELECT pg_try_advisory_lock" + arguments);
    const bool locked = row.step() && row.boolean();
    if (!locked) return false;
    held_.push_back("SELECT pg_advisory_unlock" + arguments);
    ++database_.locks_;  // from here on the connection is not made anew
    return true;
  }

  PostgresDatabase& database_;
  std::vector<std::string> held_;
};

std::unique_ptr<Locks> PostgresDatabase::locks() { return std::make_unique<SessionLocks>(*this); }

bool PostgresDatabase::may_be_worked_on(int64_t job) {
  // The two halves of the number by which SessionLocks names them; 1: of a number of 64 bits.
  Query row = query(
      "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 "
      "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
      "AND classid = (hashtext(current_schema())::bigint & 4294967295)::oid AND objid IN (0, (? & "
      "4294967295)::oid)",
      {job});
  return row.step() && row.boolean();
}

}  // namespace lathe::db
