// Who works on a database: a tracker on all of it, or processes on jobs of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "db/database.h"

namespace lathe::tracker {

/// Locks that end with the process however it ends. Two that acknowledge results of one job would each
/// believe to have recorded what the other did.
class Claims {
 public:
  /// Throws Error when the database has no place for them. REQUIRES: the database outlives it.
  explicit Claims(db::Database& database);

  /// All jobs, those to come too. Throws Error when any is another's.
  void claim_all();
  /// To make new jobs. Throws Error when all are another's.
  void claim_new();
  /// Throws Error when it is another's.
  void claim_job(uint64_t job);
  /// Throws db::DatabaseError when others could have claimed the same by now.
  void require_held() { locks_->require_held(); }

 private:
  const std::string database_;
  const std::unique_ptr<db::Locks> locks_;
};

}  // namespace lathe::tracker
