// An error that a caller may want to tell apart: the disk's or the database's, not of what was given to us.
#pragma once

#include "core/support/error.h"

namespace lathe::db {

/// SQLite refused: a full disk, a damaged file, another writer. The same call may succeed later.
class DatabaseError : public Error {
 public:
  using Error::Error;
};

/// A value broke a rule of a table, or is more than a database takes: the fault of what was given to us, and
/// the same call fails again.
class RefusedValueError : public DatabaseError {
 public:
  using DatabaseError::DatabaseError;
};

/// There is no room for what was to be written.
class DiskFullError : public DatabaseError {
 public:
  using DatabaseError::DatabaseError;
};

}  // namespace lathe::db
