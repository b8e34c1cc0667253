// The schema of the store and how a database gets to it. docs/database.md explains the tables.
#pragma once

#include <span>

#include "db/database.h"

namespace lathe::db {

/// One step from schema version i to i+1, where i is its index in the list.
struct Migration {
  const char* title;
  const char* sql;
};

/// All migrations, oldest first. A released one is never edited: a change is a new row at the end.
std::span<const Migration> migrations();

/// The schema version this program writes and reads.
int schema_version();

/// The version of `database`: 0 for an empty one. Throws Error when the file is some other program's
/// database.
int version_of(Database& database);

/// Brings `database` to the last of `steps`; each step is one transaction, so killed at any moment the file
/// is at one version or the next. A database that holds data is first copied to PATH.vN.backup. Throws Error
/// naming both versions, with the file untouched, when the database is newer than `steps`.
void migrate(Database& database, std::span<const Migration> steps);

/// Throws that Error for a database newer than `version`; for a reader, who can't migrate, for an older one;
/// and for one with triggers, views or virtual tables that are not ours.
void require_version(Database& database, int version, Access access);

}  // namespace lathe::db
