// What the API tells, as JSON. docs/http-api.md has the fields.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "db/store.h"
#include "tracker/farm.h"

namespace lathe::tracker {

nlohmann::json job_json(const db::ServedJob& job, db::Store& store);
/// With its tasks, what is known of each now, and the report.
nlohmann::json job_details_json(const db::ServedJob& job, db::Store& store);
nlohmann::json trial_json(const db::TrialRow& trial);
nlohmann::json worker_json(const WorkerStatus& worker);
/// Best estimate of the model's latency over time, at most so many points, extremes kept.
nlohmann::json curve_json(const db::ServedJob& job, db::Store& store, int points);
/// Prometheus' text format.
std::string metrics_text(const FarmStatus& farm, db::Store& store);

}  // namespace lathe::tracker
