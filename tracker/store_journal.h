// The tracker's journal in the database.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tracker/journal.h"

namespace lathe::tracker {

/// Keeps trials, leases and results in the database at `path`. What commit() gets is one transaction.
/// Candidates name workloads of the database, and jobs are its jobs. `only`: of the trials open at start,
/// take up those of this job alone (0: none), for several programs may serve jobs of one database, each its
/// own; without it, all are this tracker's (claims.h). start() and add() throw Error where they are
/// another's, and as db::Store does. Use it on the thread that made it.
std::unique_ptr<Journal> open_store_journal(const std::string& path, std::optional<JobId> only = {});

}  // namespace lathe::tracker
