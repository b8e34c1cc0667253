// The schema of a database, and how it gets to this program's. Each backend has steps of its own under the
// same numbers (sqlite_schema.cpp); docs/database.md explains the tables.
#pragma once

#include <span>

#include "db/database.h"

namespace lathe::db {

/// The step that brings a database to `version` from the step before.
struct Migration {
  int version;
  const char* title;
  const char* sql;
};

/// The version this program writes and reads: of each backend's last migration. A released migration is never
/// edited: a change is a new row at the end, of all backends.
inline constexpr int kSchemaVersion = 11;

/// Brings `database` to the last of `steps`, oldest first; each is one transaction, so killed at any moment
/// the database is at one version or the next. A file that holds data is first copied to PATH.vN.backup.
/// Throws Error naming both versions, with the database untouched, when it is newer than `steps`.
void migrate(Database& database, std::span<const Migration> steps);

/// Throws that Error for a database newer than this program; for a reader, who can't migrate, for an older
/// one; and for one with triggers, views or virtual tables that are not ours.
void require_version(Database& database, Access access);

}  // namespace lathe::db
