// What a tuning job ends with: a table by task, and what became of the model.
#pragma once

#include <span>

#include "cli/family_report.h"
#include "cli/ship.h"
#include "cli/tune_job.h"
#include "tracker/tune_job.h"
#include "tuner/whole_model.h"

namespace lathe::cli {

struct TuneOutcome {
  const tracker::TuneResult& search;
  const tuner::WholeModelResult& choice;
  const Shipment& shipment;
  MachineLimits limits;
  std::vector<ReportedFamily> families = {};  // where dimensions are open
};

struct TuneReport {
  std::string text, json;  // for people, with its newlines; one line
  bool measured = true;    // else every candidate failed
  bool undecided = false;  // the job was asked to decide which build is the faster and could not
};

TuneReport report_tune_job(const TuneJob& job, std::span<const tuner::Task> tasks,
                           const TuneOutcome& outcome);

/// Prints it to stdout, as text or JSON. Returns an ExitCode: kNegative when nothing was measured,
/// kInconclusive when it could not be decided.
int print_report(const TuneReport& report, bool json);

}  // namespace lathe::cli
