// The tracker's journal in the database.
#pragma once

#include <memory>
#include <string>

#include "tracker/journal.h"

namespace lathe::tracker {

/// Keeps trials, leases and results in the database at `path`. What commit() gets is one transaction.
/// Candidates name workloads of the database, and jobs are its jobs. Throws Error as db::Store does. Use it
/// on the thread that made it.
std::unique_ptr<Journal> open_store_journal(const std::string& path);

}  // namespace lathe::tracker
