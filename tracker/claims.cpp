#include "tracker/claims.h"

#include <fmt/core.h>

#include "core/support/service_error.h"

namespace lathe::tracker {

Claims::Claims(db::Database& database) : database_(database.name()), locks_(database.locks()) {}

void Claims::claim_all() {
  if (!locks_->lock_all())
    throw ServiceError(
        fmt::format("{} is in use: a tracker serves it, or `tune` runs a job of it", database_));
}

void Claims::claim_new() {
  if (!locks_->lock_new())
    fail("{} is served by a tracker: stop that one, or tune with another --db", database_);
}

void Claims::claim_job(uint64_t job) {
  if (!locks_->lock_job(static_cast<int64_t>(job)))
    fail("another process works on job {} of {}", job, database_);
}

}  // namespace lathe::tracker
