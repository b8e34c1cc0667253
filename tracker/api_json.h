// What the API tells, as JSON. docs/jobs.md has the fields.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>

#include "db/store.h"
#include "tracker/farm.h"

namespace lathe::tracker {

/// What lists tell of a job's report.
struct ReportFigures {
  std::optional<double> confirmed_seconds;                 // of one run of the model, by the tasks' winners
  std::optional<std::pair<double, double>> raced_seconds;  // of the model, untuned and tuned
  std::string ended;
};
/// The report may be a megabyte, which takes a while to read.
ReportFigures figures_of_report(const std::string& report);
nlohmann::json job_json(const db::ServedJob& job, const ReportFigures& figures, db::Store& store);
nlohmann::json job_json(const db::ServedJob& job, db::Store& store);
/// With its tasks, what is known of each now, and the report.
nlohmann::json job_details_json(const db::ServedJob& job, db::Store& store);
nlohmann::json trial_json(const db::TrialRow& trial);
/// With its leases, its samples and its schedule. `job` is the served job's uuid, or "".
nlohmann::json trial_life_json(const db::TrialLife& life, const std::string& job);
/// `leases` are those that it holds, or the first of them.
nlohmann::json worker_json(const WorkerStatus& worker, std::span<const db::LeaseSpan> leases,
                           const std::optional<db::WorkerClock>& clock);
/// `job` is the served job, if a tracker owns it.
nlohmann::json quarantined_json(const db::Quarantined& trial, const std::optional<db::ServedJob>& job);
/// The model's latency and the cost model's quality over time, at most so many points, extremes kept.
nlohmann::json curve_json(const db::ServedJob& job, db::Store& store, int points);
/// What was measured for a job, of one workload or of all (0), at most so many points, extremes kept.
nlohmann::json points_json(const db::ServedJob& job, db::Store& store, db::WorkloadId workload, int points);
/// Prometheus' text format.
std::string metrics_text(const FarmStatus& farm, db::Store& store);

}  // namespace lathe::tracker
