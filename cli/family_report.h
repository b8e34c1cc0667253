// What a report says of kernels for open dimensions: which values each serves, and what it loses.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/tune_job.h"
#include "db/reader.h"
#include "tuner/open_families.h"

namespace lathe::cli {

struct ReportedFamily {
  std::string name;  // of the program, as its tasks have it
  std::vector<tuner::TunedMember> members;
};

/// Of the job's programs that were measured, in the order of its tasks. REQUIRES: the search is over.
std::vector<ReportedFamily> families_of(const TuneJob& job, const PreparedJob& prepared, db::Reader& records);

/// Lines, each with its newline; "" without families.
std::string families_text(const std::vector<ReportedFamily>& families);
nlohmann::json families_json(const std::vector<ReportedFamily>& families);

}  // namespace lathe::cli
