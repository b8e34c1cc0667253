// Workers: how their canaries do, which of them take no work, and who measured what last.
#include "core/support/error.h"
#include "db/store.h"

namespace lathe::db {

void Store::set_worker_health(const WorkerHealth& health, bool good) {
  // good_ms never falls: what was measured before that canary stays believed, whatever comes after.
  Transaction transaction = begin();
  database_->run(
      "INSERT INTO canary(worker, device_class, kernels, compute_seconds, compute_tolerance, compute_drift, "
      "memory_seconds, memory_tolerance, memory_drift, suspect, good_ms, taken_ms) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(worker) DO UPDATE SET "
      "device_class = excluded.device_class, "
      "kernels = excluded.kernels, compute_seconds = excluded.compute_seconds, "
      "compute_tolerance = excluded.compute_tolerance, compute_drift = excluded.compute_drift, "
      "memory_seconds = excluded.memory_seconds, memory_tolerance = excluded.memory_tolerance, "
      "memory_drift = excluded.memory_drift, suspect = excluded.suspect, "
      "good_ms = CASE WHEN canary.good_ms > excluded.good_ms THEN canary.good_ms ELSE excluded.good_ms END, "
      "taken_ms = excluded.taken_ms",
      // A worker may be judged before its first lease wrote it down.
      {add_worker(health.worker), health.device_class, static_cast<int64_t>(health.kernels),
       health.compute.seconds, health.compute.tolerance, health.compute.drift, health.memory.seconds,
       health.memory.tolerance, health.memory.drift, health.suspect, good ? now_ms_() : 0, now_ms_()});
  transaction.commit();
}

std::vector<WorkerHealth> Store::worker_healths() {
  std::vector<WorkerHealth> all;
  for (Query row = database_->query(
           "SELECT worker.name, device_class, kernels, compute_seconds, compute_tolerance, compute_drift, "
           "memory_seconds, memory_tolerance, memory_drift, suspect, good_ms, taken_ms FROM canary "
           "JOIN worker ON worker.id = canary.worker ORDER BY worker.name");
       row.step();)
    all.push_back({.worker = row.text(),
                   .device_class = row.text(),
                   .kernels = static_cast<uint32_t>(row.integer()),
                   .compute = {row.real(), row.real(), row.real()},
                   .memory = {row.real(), row.real(), row.real()},
                   .suspect = row.text(),
                   .good_ms = row.integer(),
                   .taken_ms = row.integer()});
  return all;
}

std::optional<int64_t> Store::last_good_canary(const std::string& worker, const std::string& device_class) {
  Query row = database_->query(
      "SELECT good_ms FROM canary JOIN worker ON worker.id = canary.worker "
      "WHERE worker.name = ? AND device_class = ? AND good_ms BETWEEN 1 AND ?",
      // By a clock that was ahead, and has been set: nothing is known of it.
      {worker, device_class, now_ms_()});
  return row.step() ? std::optional(row.integer()) : std::nullopt;
}

void Store::set_drained(const std::string& worker, bool drained) {
  Transaction transaction = begin();
  // By name, whether or not such a worker ever came: an order may precede it.
  database_->run("UPDATE worker SET drained = ? WHERE id = ?", {drained, add_worker(worker)});
  transaction.commit();
}

std::vector<std::string> Store::drained_workers() {
  std::vector<std::string> names;
  for (Query row = database_->query("SELECT name FROM worker WHERE drained = 1 ORDER BY name"); row.step();)
    names.push_back(row.text());
  return names;
}

std::vector<Testimony> Store::testimonies(TrialId trial) {
  // Of one millisecond the later confirmation counts; the measurement itself, number 0, was before all of
  // them.
  std::vector<Testimony> all;
  for (Query row = database_->query(
           "WITH known AS (SELECT m.id, m.worker, m.median, m.recorded_ms, m.suspect, device.model, "
           "device.cores FROM trial JOIN measurement m ON m.candidate = trial.candidate "
           "AND m.threads = trial.threads JOIN device ON device.id = m.device WHERE trial.id = ?) "
           "SELECT worker.name, told.model, told.cores, told.median, told.suspect FROM ("
           "SELECT worker, median, recorded_ms, suspect, model, cores, 0 AS number FROM known UNION ALL "
           "SELECT c.worker, c.median, c.recorded_ms, c.suspect, known.model, known.cores, c.id "
           "FROM known JOIN confirmation c ON c.measurement = known.id) AS told "
           "JOIN worker ON worker.id = told.worker ORDER BY recorded_ms, number",
           {trial});
       row.step();)
    all.push_back({.worker = row.text(),
                   .model = row.text(),
                   .cores = row.integer(),
                   .seconds = row.real(),
                   .suspect = row.boolean()});
  return all;
}

}  // namespace lathe::db
