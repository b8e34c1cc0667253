// The backend for servers: PostgreSQL, by libpq. Only this, its .cpp and postgres_schema.cpp know it.
#pragma once

#include <map>
#include <string>

#include "db/database.h"

struct pg_conn;
struct pg_result;

namespace lathe::db {

class PostgresDatabase final : public Database {
 public:
  /// Throws Error when the server cannot be reached or is not to be used: its texts must be UTF-8.
  PostgresDatabase(const std::string& url, Access access, std::chrono::milliseconds busy_timeout);
  ~PostgresDatabase() override;

  using Database::run;
  int64_t run(std::string_view sql, std::span<const Value> values) override;
  void run_script(const std::string& sql) override;

  /// Nothing: the server has statistics.
  std::string by_index(std::string_view) const override { return ""; }
  std::string keep_rows(std::string_view table) const override;
  std::unique_ptr<Locks> locks() override;
  bool may_be_worked_on(int64_t job) override;

  // postgres_schema.cpp
  std::span<const Migration> migrations() const override;
  int version() override;
  void set_version(int version) override;
  void prepare_migration(int version) override;
  void refuse_strange_code() override;
  std::vector<std::string> problems() override;

 private:
  class Result;
  class Cursor;
  class SessionLocks;
  struct Parameters;

  std::unique_ptr<Rows> start(std::string_view sql, std::span<const Value> values) override;
  std::unique_ptr<Rows> start_stream(std::string_view sql, std::span<const Value> values) override;
  void begin(bool writing) override;
  void commit() override;
  bool in_transaction() const override;
  void roll_back(const std::string& sql) noexcept override;

  void connect();
  /// As far as can be told without asking the server.
  bool is_connected();
  /// Connects anew where the connection was lost (its server restarted, a firewall forgot it) and nothing
  /// rests on the old one.
  void revive();

  /// The result, unless it is an error, which is raised.
  pg_result* checked(pg_result* result);
  pg_result* execute(std::string_view sql, std::span<const Value> values);
  [[noreturn]] void raise(const pg_result* result);

  const Access access_;
  const std::chrono::milliseconds busy_timeout_;
  pg_conn* connection_ = nullptr;
  std::map<std::string, std::string, std::less<>> prepared_;  // names, by text and types of the values
  int64_t cursors_ = 0;                                       // ever opened
  size_t locks_ = 0;                                          // held by the connection's session
  bool open_ = false;                                         // a transaction
};

}  // namespace lathe::db
