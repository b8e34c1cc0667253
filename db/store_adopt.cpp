// What was measured elsewhere: packs of other databases, and records of other tuners.
#include "core/support/error.h"
#include "core/support/statistics.h"
#include "db/conditions.h"
#include "db/store.h"

namespace lathe::db {

std::pair<DeviceId, bool> Store::adopt_device(const Device& device) {
  // Unlike add_device(): what this database knows of a device is not replaced by what a pack says.
  const int64_t added = database_->run(
      "INSERT INTO device(fingerprint, host, model, architecture, features, cores, memory_bytes, system, "
      "details, seen_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(fingerprint) DO NOTHING",
      {fingerprint(device), device.host, device.model, device.architecture, device.features, device.cores,
       device.memory_bytes, device.system, device.details, now_ms_()});
  Query row = database_->query("SELECT id FROM device WHERE fingerprint = ?", {fingerprint(device)});
  CHECK(row.step());
  return {row.integer(), added == 1};
}

bool Store::adopt_model(const AdoptedModel& model) {
  Transaction transaction = begin();
  database_->run(
      "INSERT INTO model(name, digest, added_ms) VALUES(?, ?, ?) ON CONFLICT(name, digest) DO NOTHING",
      {model.name, model.digest, model.added_ms});
  Query row =
      database_->query("SELECT id FROM model WHERE name = ? AND digest = ?", {model.name, model.digest});
  CHECK(row.step());
  const ModelId id = row.integer();
  // What this database has worked out itself is not replaced by what others say.
  // By target: the model may be known for another one.
  const bool fresh = model_tasks(id, model.target).empty();
  if (fresh) set_model_tasks(id, model.target, model.tasks);
  transaction.commit();
  return fresh;
}

bool Store::adopt(const Adopted& adopted) {
  const Measurement& m = adopted.measurement;
  Transaction transaction = begin();
  // Where the candidate is known, its own trace stays: see add_candidate.
  const CandidateId candidate =
      add_candidate(m.target, {.workload = m.workload, .trace = m.trace, .program = m.program});
  const Summary summary = summarize(m.samples);
  // What was measured here is believed before what a pack says of the same device.
  std::vector<Value> values = {candidate,
                               m.workload,
                               m.target,
                               m.device,
                               m.threads,
                               summary.median,
                               summary.median,
                               summary.p25,
                               summary.min,
                               summary.mad,
                               static_cast<int64_t>(m.samples.size()),
                               as_blob(m.samples),
                               m.relative_error,
                               m.compiler,
                               m.revision,
                               m.recorded_ms,
                               now_ms_()};
  append_conditions(values, adopted.conditions);
  const std::optional<MeasurementId> added = database_->insert(
      fmt::format(
          "INSERT INTO measurement(candidate, workload, target, device, threads, seconds, median, p25, "
          "min, mad, n, samples, relative_error, compiler, revision, recorded_ms, imported_ms, {}) "
          "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
          "ON CONFLICT(candidate, device, threads) DO NOTHING RETURNING id",
          condition_columns()),
      values);
  // A measurement that is here already keeps its confirmations: import twice adds nothing (Q4).
  if (added)
    for (const Confirmation& each : adopted.confirmations) add_confirmation(*added, each);
  transaction.commit();
  return added.has_value();
}

bool Store::add_foreign(const ForeignRecord& record) {
  return database_->run(
             "INSERT INTO foreign_record(digest, format, workload, workload_key, arguments, target, "
             "schedule, "
             "seconds, n, measured_ms, imported_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
             "ON CONFLICT(digest) DO NOTHING",
             {record.digest, record.format, record.workload, record.workload_key, record.arguments,
              record.target, record.schedule, record.seconds, record.n, record.measured_ms, now_ms_()}) == 1;
}

std::vector<ForeignRecord> Store::foreign_records(const std::string& workload, int limit) {
  std::vector<ForeignRecord> records;
  for (Query row = database_->query(
           "SELECT digest, format, workload, workload_key, arguments, target, schedule, seconds, n, "
           "measured_ms FROM foreign_record WHERE ?1 = '' OR workload = ?1 "
           "ORDER BY workload, target, seconds IS NULL, seconds, id LIMIT ?2",
           {workload, limit});
       row.step();)
    records.push_back({.digest = row.text(),
                       .format = row.text(),
                       .workload = row.text(),
                       .workload_key = row.text(),
                       .arguments = row.text(),
                       .target = row.text(),
                       .schedule = row.text(),
                       .seconds = row.maybe_real(),
                       .n = row.integer(),
                       .measured_ms = row.maybe_integer()});
  return records;
}

}  // namespace lathe::db
