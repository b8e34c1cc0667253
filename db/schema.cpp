#include "db/schema.h"

#include "core/support/error.h"
#include "db/postgres_database.h"
#include "db/sqlite_database.h"

namespace lathe::db {

namespace {

[[noreturn]] void fail_newer(const Database& database, int found, int version) {
  fail(
      "database {} has schema version {}, newer than version {} of this program; use a newer program or "
      "another "
      "database",
      database.name(), found, version);
}

}  // namespace

std::unique_ptr<Database> open_database(const std::string& name, Access access,
                                        std::chrono::milliseconds busy_timeout) {
  if (is_server(name)) return std::make_unique<PostgresDatabase>(name, access, busy_timeout);
  return std::make_unique<SqliteDatabase>(name, access, busy_timeout);
}

void require_version(Database& database, Access access) {
  const int found = database.version(), version = kSchemaVersion;
  if (found > version) fail_newer(database, found, version);
  // Also for readers: to read a view runs what its maker wrote.
  database.refuse_strange_code();
  if (access == Access::kReadOnly && found < version)
    fail(
        "database {0} has schema version {1}, older than version {2} of this program; `tune db migrate --db "
        "{0}` "
        "brings it up",
        database.name(), found, version);
}

void migrate(Database& database, std::span<const Migration> steps) {
  const int version = steps.back().version;
  const int found = database.version();
  if (found > version) fail_newer(database, found, version);
  if (found == version) return;
  database.prepare_migration(found);
  for (const Migration& step : steps) {
    // One a step, so that a database of a million trials is not rewritten in one go, and a step that fails
    // leaves those before it done.
    Transaction transaction = database.transaction();
    const int now = database.version();  // another process may have migrated while we waited for the lock
    if (now > version) fail_newer(database, now, version);
    if (now >= step.version) continue;
    // Step and version in one transaction: killed anywhere, the database is old or new (Q5).
    database.run_script(step.sql);
    database.set_version(step.version);
    transaction.commit();
  }
}

}  // namespace lathe::db
