// What a gate found, for people and for the programs that read such things.
#pragma once

#include <string>
#include <vector>

#include "gate/run.h"
#include "workers/doctor.h"

namespace lathe::gate {

struct Report {
  GateResult result;
  Rule rule;
  uint64_t seed = 0;
  int threads = 1;
  double seconds = 0;                     // it took
  std::string device;                     // that it ran on
  std::string revision;                   // of what was measured; "": not said
  std::vector<worker::Finding> findings;  // of the doctor, right before
};

/// One line about a unit and why it has its verdict: "slower by 4.6% (2.1% .. 7.0%), margin 3%, 12 pairs".
std::string explain(const UnitResult& unit, const Rule& rule);

/// Of a control that differs from itself: "this machine tells equal modules apart: net against itself is
/// slower by ...".
std::string explain_control(const UnitResult& control, const Rule& rule);

/// For a terminal.
std::string table_text(const Report& report);
/// For a page: a merge request's comment, the summary of a CI job.
std::string markdown_text(const Report& report);
/// One object, on one line.
std::string json_text(const Report& report);
/// JUnit's XML: a test case for each unit; FAIL is a failure, BROKEN an error, INCONCLUSIVE is skipped. Of an
/// unfit gate what made it so is an error, a control too, and all else is skipped: servers count failures by
/// themselves.
std::string junit_text(const Report& report);
/// SARIF 2.1.0: a result for each unit that is slower, broken or undecided; of an unfit gate for what made it
/// so alone.
std::string sarif_text(const Report& report);
/// A line of JSON for each measured unit, for `tune timeline`. `when`: UTC, ISO 8601.
std::string history_text(const Report& report, const std::string& when);

/// "+3.2%", or "unbounded".
std::string change_text(double ln_ratio);

}  // namespace lathe::gate
