// Whole models: how long they take, and choices over them.
#include <fmt/core.h>

#include "db/store.h"

namespace lathe::db {

void Store::add_model_latency(const ModelLatency& latency) {
  database_->run(
      "INSERT INTO model_latency(model_digest, target, threads, seconds, low, high, n, recorded_ms) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
      {latency.model_digest, latency.target, latency.threads, latency.seconds, latency.low, latency.high,
       latency.n, now_ms_()});
}

std::optional<ModelLatency> Store::find_model_latency(const std::string& model_digest, TargetId target,
                                                      int threads) {
  // The newest, not the fastest: it is of the schedules that are chosen now.
  Query row = database_->query(
      "SELECT threads, seconds, low, high, n, recorded_ms FROM model_latency "
      "WHERE model_digest = ?1 AND target = ?2 AND (?3 = 0 OR threads = ?3) ORDER BY id DESC LIMIT 1",
      {model_digest, target, threads});
  if (!row.step()) return std::nullopt;
  return ModelLatency{.model_digest = model_digest,
                      .target = target,
                      .threads = static_cast<int>(row.integer()),
                      .seconds = row.real(),
                      .low = row.real(),
                      .high = row.real(),
                      .n = row.integer(),
                      .recorded_ms = row.integer()};
}

namespace {

/// Of all devices that measured what is chosen; nothing where they are of several.
std::optional<DeviceKind> kind_of(Database& database, const Choice& choice) {
  std::optional<DeviceKind> kind;
  for (const Choice::Task& task : choice.tasks) {
    Query row = database.query(
        "SELECT device.model, device.cores FROM measurement JOIN device ON device.id = device "
        "WHERE measurement.id = ?",
        {task.measurement});
    if (!row.step()) return std::nullopt;
    DeviceKind one{.model = row.text()};
    one.cores = static_cast<int>(row.integer());
    if (kind && *kind != one) return std::nullopt;
    kind = std::move(one);
  }
  return kind;
}

}  // namespace

void Store::set_choice(const Choice& choice) {
  const ChoiceKey& key = choice.key;
  // Replaced as a whole: half an old choice and half a new one was never raced.
  Transaction transaction = begin();
  const std::optional<DeviceKind> kind = key.kind ? key.kind : kind_of(*database_, choice);
  std::vector<Value> values = {key.model_digest, key.target, key.threads, key.max_relative_error};
  if (kind) values.insert(values.end(), {kind->model, kind->cores});
  database_->run(
      // Its tasks go with it.
      fmt::format("DELETE FROM choice WHERE model_digest = ? AND target = ? AND threads = ? AND "
                  "max_relative_error = ?{}",
                  kind ? " AND device_model = ? AND device_cores = ?" : ""),
      values);
  if (!kind) values.insert(values.end(), {"", 0});
  values.insert(values.end(), {choice.seconds_before, choice.seconds_after, now_ms_()});
  const int64_t id = *database_->insert(
      "INSERT INTO choice(model_digest, target, threads, max_relative_error, device_model, device_cores, "
      "seconds_before, seconds_after, chosen_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
      values);
  for (const Choice::Task& task : choice.tasks)
    database_->run("INSERT INTO choice_task(choice, workload, measurement) VALUES(?, ?, ?)",
                   {id, task.workload, task.measurement});
  transaction.commit();
}

std::optional<Choice> Store::find_choice(const ChoiceKey& key) {
  std::vector<Value> values = {key.model_digest, key.target, key.threads, key.max_relative_error};
  if (key.kind) values.insert(values.end(), {key.kind->model, key.kind->cores});
  Query row = database_->query(
      fmt::format("SELECT id, seconds_before, seconds_after, chosen_ms FROM choice WHERE model_digest = ? "
                  "AND target = ? AND threads = ? AND max_relative_error = ? {}ORDER BY chosen_ms DESC, "
                  "id DESC LIMIT 1",
                  key.kind ? "AND device_model = ? AND device_cores = ? " : ""),
      values);
  if (!row.step()) return std::nullopt;
  int64_t id = row.integer();
  Choice choice{
      .key = key, .seconds_before = row.real(), .seconds_after = row.real(), .chosen_ms = row.integer()};
  // A digest is of the tasks of a model, so a choice holds for every file that comes to the same ones.
  for (Query task = database_->query(
           "SELECT workload, measurement FROM choice_task WHERE choice = ? ORDER BY workload", {id});
       task.step();)
    choice.tasks.push_back({.workload = task.integer(), .measurement = task.integer()});
  return choice;
}

}  // namespace lathe::db
