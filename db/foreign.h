// Records of other tuners, read as what they are: kept and queryable, but never mixed with what was measured
// here, for neither their programs nor their way to measure are ours.
#pragma once

#include <string>

#include "db/lines.h"
#include "db/store.h"

namespace lathe::db {

struct ForeignReport {
  int64_t added = 0, known = 0;
  int64_t bad = 0;  // lines left out
  std::vector<std::string> reasons;
};

/// Reads a log of AutoTVM, version 0.2: JSON lines of input, config and result. Throws Error, with the
/// database as it was, for a file that is none (Tolerance).
ForeignReport import_autotvm(Store& store, const std::string& path);

/// Reads a database of MetaSchedule: two files of JSON lines, in which a record names its workload by the
/// number of its line. Throws Error as import_autotvm does.
ForeignReport import_metaschedule(Store& store, const std::string& workloads, const std::string& records);

}  // namespace lathe::db
