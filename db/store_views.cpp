// Trials as people look at them: lists, points of charts, one trial's life.
#include <fmt/core.h>

#include <algorithm>

#include "db/conditions.h"
#include "db/device_kind.h"
#include "db/purpose.h"
#include "db/store.h"

namespace lathe::db {

namespace {

// As subqueries of a row, each a seek: a join over leases would count before the limit. {}: of the error.
constexpr const char* kSelectTrialRow =
    "SELECT trial.id, candidate.workload, purpose, tells, state, coalesce(outcome, ''), predicted, "
    "measurement.seconds, measurement.relative_error, "
    "(SELECT count(*) FROM lease WHERE lease.trial = trial.id), "
    "coalesce((SELECT worker.name FROM lease JOIN worker ON worker.id = lease.worker "
    "          WHERE lease.trial = trial.id ORDER BY lease.id DESC LIMIT 1), ''), "
    "{}, trial.created_ms, trial.ended_ms "
    "FROM trial JOIN candidate ON candidate.id = trial.candidate "
    "LEFT JOIN measurement ON measurement.trial = trial.id ";

TrialRow read_trial_row(Query& row) {
  TrialRow trial{.id = row.integer(), .workload = row.integer()};
  trial.purpose = read_purpose(row);
  const std::string state = row.text();
  for (int i = 0; i < kTrialStates; ++i)
    if (to_string(static_cast<TrialState>(i)) == state) trial.state = static_cast<TrialState>(i);
  trial.outcome = parse_outcome(row.text());
  trial.predicted = row.real();
  trial.seconds = row.maybe_real();
  trial.relative_error = row.maybe_real();
  trial.attempts = static_cast<int>(row.integer());
  trial.worker = row.text();
  trial.error = row.text();
  trial.created_ms = row.integer();
  trial.ended_ms = row.maybe_integer().value_or(0);
  return trial;
}

constexpr std::string_view kSelectLeaseSpan =
    "SELECT lease.id, trial, attempt, worker.name, epoch, granted_ms, coalesce(ended_ms, 0), "
    "coalesce(ending, '') FROM lease JOIN worker ON worker.id = lease.worker ";

std::vector<LeaseSpan> read_lease_spans(Query row) {
  std::vector<LeaseSpan> spans;
  while (row.step())
    spans.push_back({.id = row.integer(),
                     .trial = row.integer(),
                     .attempt = static_cast<int>(row.integer()),
                     .worker = row.text(),
                     .epoch = row.integer(),
                     .granted_ms = row.integer(),
                     .ended_ms = row.integer(),
                     .ending = row.text()});
  return spans;
}

}  // namespace

std::vector<TrialRow> Store::trial_rows(const TrialQuery& query) {
  std::vector<TrialRow> rows;
  // Conditions that are not asked for are true for all rows: trial_of_job is the index in any case.
  const std::string outcome(query.outcome ? to_string(*query.outcome) : "");
  for (Query row = database_->query(
           fmt::format("{}WHERE trial.job = ?1 AND trial.id > ?2 AND (?3 = 0 OR trial.id < ?3) "
                       "AND (?4 = 0 OR candidate.workload = ?4) AND (?5 = '' OR outcome = ?5) "
                       "ORDER BY trial.id {} LIMIT ?6",
                       fmt::format(kSelectTrialRow, fmt::format("substr(error, 1, {})", kListedError)),
                       query.newest_first ? "DESC" : "ASC"),
           {query.job, query.after, query.before, query.workload, outcome, query.limit});
       row.step();)
    rows.push_back(read_trial_row(row));
  return rows;
}

// Some 40 bytes a point: a job of 100,000 trials is thinned out by the caller
// (tracker/api_json.cpp), which needs all.
std::vector<TrialPoint> Store::trial_points(JobId job, WorkloadId workload) {
  std::vector<TrialPoint> points;
  for (Query row = database_->query("SELECT trial.id, workload, recorded_ms, predicted, seconds FROM trial "
                                    "JOIN measurement ON measurement.trial = trial.id "
                                    "WHERE job = ?1 AND (?2 = 0 OR workload = ?2) ORDER BY trial.id",
                                    {job, workload});
       row.step();)
    points.push_back({.id = row.integer(),
                      .workload = row.integer(),
                      .recorded_ms = row.integer(),
                      .predicted = row.real(),
                      .seconds = row.real()});
  return points;
}

std::optional<TrialLife> Store::trial_life(TrialId id) {
  TrialLife life;
  {
    Query row = database_->query(fmt::format(kSelectTrialRow, "error") + "WHERE trial.id = ?", {id});
    if (!row.step()) return std::nullopt;
    life.row = read_trial_row(row);
  }
  Trial trial = this->trial(id);
  life.job = trial.job;
  life.trace = std::move(trial.trace);
  life.signal = trial.signal;
  // All of them: which workers it took away is what people look here for.
  life.leases = read_lease_spans(
      database_->query(fmt::format("{}WHERE trial = ? ORDER BY lease.id", kSelectLeaseSpan), {id}));
  Query row = database_->query(
      fmt::format(
          "SELECT samples, compiler, revision, confirmed, suspect, {} FROM measurement WHERE trial = ?",
          condition_columns()),
      {id});
  if (row.step()) {
    life.samples = row.floats();
    life.compiler = row.text();
    life.revision = row.text();
    life.confirmed = row.integer() != 0;
    life.suspect = row.integer() != 0;
    life.conditions = read_conditions(row);
  }
  return life;
}

int64_t Store::ended_trials(JobId job) {
  // Of searches, as end_trial() counts them; confirmations are not in it.
  Query row = database_->query("SELECT coalesce(sum(trials), 0) FROM job_task WHERE job = ?", {job});
  row.step();
  return row.integer();
}

std::vector<TaskBest> Store::task_bests(JobId job, const std::optional<DeviceKind>& kind, int64_t until_ms) {
  std::vector<TaskBest> bests;
  std::vector<Value> values;
  const std::string on_kind = of_kind("m.device", kind, values);
  values.emplace_back(until_ms);
  values.emplace_back(job);
  for (Query row = database_->query(
           fmt::format("SELECT job_task.workload, weight, coalesce(told_seconds, seconds), coalesce(mad, 0), "
                       "coalesce(n, 0) FROM job_task "
                       "JOIN job ON job.id = job_task.job LEFT JOIN measurement ON measurement.id = "
                       "(SELECT m.id FROM measurement m WHERE m.workload = job_task.workload AND m.target = "
                       "job.target AND m.threads = job.threads AND m.suspect = 0 {}AND m.recorded_ms <= ? "
                       "ORDER BY m.seconds LIMIT 1) "
                       "WHERE job_task.job = ? ORDER BY position",
                       on_kind),
           values);
       row.step();)
    bests.push_back({.workload = row.integer(),
                     .weight = row.real(),
                     .seconds = row.maybe_real(),
                     .mad = row.real(),
                     .samples = row.integer()});
  return bests;
}

std::vector<LeaseSpan> Store::open_leases(const std::string& worker, int limit) {
  return read_lease_spans(database_->query(
      fmt::format("{}WHERE lease.worker = (SELECT id FROM worker WHERE name = ?) AND ended_ms IS NULL "
                  "ORDER BY lease.id LIMIT ?",
                  kSelectLeaseSpan),
      {worker, limit}));
}

std::optional<WorkerClock> Store::worker_clock(const std::string& worker, int newest) {
  std::vector<double> clocks;
  WorkerClock clock;
  for (Query row = database_->query("SELECT clock_hz, coalesce(disturbed, 0) FROM measurement "
                                    "WHERE worker = (SELECT id FROM worker WHERE name = ?) "
                                    "ORDER BY recorded_ms DESC LIMIT ?",
                                    {worker, newest});
       row.step();) {
    const std::optional<double> hz = row.maybe_real();
    // Of a worker of an older release, which did not say.
    if (!hz) continue;
    clocks.push_back(*hz);
    clock.disturbed += row.real();
  }
  if (clocks.empty()) return std::nullopt;
  // Against its own best lately: what a processor's nominal clock is, no worker needs to know.
  const auto [lowest, highest] = std::minmax_element(clocks.begin(), clocks.end());
  clock.measurements = static_cast<int64_t>(clocks.size());
  clock.latest = clocks.front();
  clock.lowest = *lowest;
  clock.highest = *highest;
  // A twentieth: turbo steps and readings vary by less.
  const auto is_throttled = [&](double hz) { return hz < 0.95 * clock.highest; };
  clock.is_throttled = is_throttled(clock.latest);
  const auto count = static_cast<double>(clocks.size());
  clock.throttled = static_cast<double>(std::count_if(clocks.begin(), clocks.end(), is_throttled)) / count;
  clock.disturbed /= count;
  return clock;
}

std::vector<Quarantined> Store::quarantined(TrialId before, int limit) {
  std::vector<Quarantined> list;
  for (Query row = database_->query(
           "SELECT trial.id, trial.job, coalesce(model_task.name, ''), signal, error, trial.ended_ms "
           "FROM trial JOIN candidate ON candidate.id = trial.candidate "
           "JOIN job ON job.id = trial.job "
           "LEFT JOIN model_task ON model_task.model = job.model AND model_task.target = job.target "
           "  AND model_task.workload = candidate.workload "
           "WHERE trial.state = 'quarantined' AND (?1 = 0 OR trial.id < ?1) ORDER BY trial.id DESC LIMIT ?2",
           {before, limit});
       row.step();)
    list.push_back({.id = row.integer(),
                    .job = row.integer(),
                    .task = row.text(),
                    .signal = static_cast<int>(row.integer()),
                    .error = row.text(),
                    .ended_ms = row.integer()});
  for (Quarantined& one : list)
    one.leases = read_lease_spans(
        database_->query(fmt::format("{}WHERE trial = ? ORDER BY lease.id", kSelectLeaseSpan), {one.id}));
  return list;
}

}  // namespace lathe::db
