#include "db/store.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "core/support/disk.h"
#include "core/support/error.h"
#include "core/support/service_error.h"
#include "core/support/user_folder.h"
#include "db/backup.h"
#include "db/database_error.h"
#include "db/schema.h"

namespace lathe::db {

namespace {

int64_t wall_clock_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// A database from a newer program must stay as it is; even closing a writable connection may touch the file.
void require_not_newer(const std::string& path, std::chrono::milliseconds busy_timeout) {
  std::error_code error;
  // A new file, or none yet: SQLite makes it on the first write, so an empty one is new.
  if (std::filesystem::file_size(path, error) == 0 || error) return;
  const auto peek = open_database(path, Access::kReadOnly, busy_timeout);
  // As whoever writes: an older version is no fault, for it is migrated.
  require_version(*peek, Access::kReadWrite);
}

void create_folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) make_folder(folder);
}

std::optional<int64_t> found_id(Query query) {
  return query.step() ? std::optional(query.integer()) : std::nullopt;
}

/// The row that must be there: ids come from the store itself.
Query the_row(Query query, const char* what, int64_t id) {
  if (!query.step()) fail("the database has no {} {}", what, id);
  return query;
}

constexpr std::string_view kSelectDevice =
    "SELECT id, host, model, architecture, features, cores, memory_bytes, system, details FROM device ";

/// Behind columns that the caller has read.
Target read_target(Query& row) {
  return Target{.name = row.text(), .architecture = row.text(), .features = row.text()};
}

std::pair<DeviceId, Device> read_device(Query& row) {
  DeviceId id = row.integer();
  // Each call takes the next column: braces keep their order, as the arguments of a function would not.
  return {id, Device{.host = row.text(),
                     .model = row.text(),
                     .architecture = row.text(),
                     .features = row.text(),
                     .cores = static_cast<int>(row.integer()),
                     .memory_bytes = row.integer(),
                     .system = row.text(),
                     .details = row.text()}};
}

/// Nobody writes into a schema that changes under them: statements that a running tracker has prepared would
/// fail, or mean something else. Another process that brings it up at this moment is waited for.
void migrate_alone(Database& database, std::chrono::milliseconds patience) {
  const auto is_older = [&] {
    const int found = database.version();
    return found > 0 && found < kSchemaVersion;
  };
  if (!is_older()) return migrate(database, database.migrations());
  const std::unique_ptr<Locks> locks = database.locks();
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!locks->lock_all()) {
    if (!is_older()) return;
    if (std::chrono::steady_clock::now() >= end)
      throw ServiceError(fmt::format(
          "{} is in use: a tracker serves it, or `tune` runs a job of it; stop that one before it is "
          "brought from schema version {} to {}",
          database.name(), database.version(), kSchemaVersion));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  migrate(database, database.migrations());
}

}  // namespace

std::string default_database_path() { return data_folder() + "/lathe.db"; }

Store::Store(const std::string& path, StoreOptions options)
    : now_ms_(options.now_ms ? options.now_ms : wall_clock_ms) {
  if (options.read_only) {
    if (!is_server(path) && !std::filesystem::exists(path))
      fail("there is no database {}; `tune` makes one", path);
    database_ = open_database(path, Access::kReadOnly, options.busy_timeout);
    require_version(*database_, Access::kReadOnly);
    return;
  }
  if (!is_server(path)) {
    if (options.made && !std::filesystem::exists(path))
      throw DatabaseError(fmt::format("database {} is not there any more", path));
    require_not_newer(path, options.busy_timeout);
    create_folder_of(path);
  }
  database_ = open_database(path, Access::kReadWrite, options.busy_timeout);
  if (is_server(path)) require_version(*database_, Access::kReadWrite);
  // Whoever may write brings it up; readers are told how.
  migrate_alone(*database_, options.busy_timeout);
}

Store::~Store() = default;
Store::Store(Store&&) noexcept = default;

Transaction Store::begin() { return database_->transaction(); }

std::vector<std::string> Store::problems() { return database_->problems(); }

TargetId Store::add_target(const Target& target) {
  // Setting a column to itself has the row returned; DO NOTHING would return none.
  return *database_->insert(
      "INSERT INTO target(name, architecture, features) VALUES(?, ?, ?) "
      "ON CONFLICT(name) DO UPDATE SET name = excluded.name RETURNING id",
      {target.name, target.architecture, target.features});
}

DeviceId Store::add_device(const Device& device) {
  // The fingerprint is of what makes it this device; memory, system and details may be others next time.
  return *database_->insert(
      "INSERT INTO device(fingerprint, host, model, architecture, features, cores, memory_bytes, system, "
      "details, "
      "seen_ms) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(fingerprint) DO UPDATE SET "
      "memory_bytes = excluded.memory_bytes, system = excluded.system, details = excluded.details, "
      "seen_ms = excluded.seen_ms RETURNING id",
      {fingerprint(device), device.host, device.model, device.architecture, device.features, device.cores,
       device.memory_bytes, device.system, device.details, now_ms_()});
}

void Store::set_machine(const Machine& machine) {
  database_->run(
      "INSERT INTO machine(device, target, numbers, measured_ms) VALUES(?, ?, ?, ?) ON CONFLICT(device, "
      "target) "
      "DO UPDATE SET numbers = excluded.numbers, measured_ms = excluded.measured_ms",
      {machine.device, machine.target, machine.numbers, now_ms_()});
}

std::optional<Machine> Store::find_machine(const std::string& target) {
  Query row = database_->query(
      "SELECT device, target, numbers, measured_ms FROM machine WHERE target = ? "
      "ORDER BY measured_ms DESC, device DESC LIMIT 1",
      {target});
  if (!row.step()) return {};
  return Machine{
      .device = row.integer(), .target = row.text(), .numbers = row.text(), .measured_ms = row.integer()};
}

WorkerId Store::add_worker(const std::string& name, std::optional<DeviceId> device) {
  // Who names it without a device (a lease does) takes none away.
  return *database_->insert(
      "INSERT INTO worker(name, device, seen_ms) VALUES(?, ?, ?) "
      "ON CONFLICT(name) DO UPDATE SET device = coalesce(excluded.device, worker.device), "
      "seen_ms = excluded.seen_ms RETURNING id",
      {name, device, now_ms_()});
}

WorkloadId Store::add_workload(const Workload& workload) {
  return *database_->insert(
      "INSERT INTO workload(digest, text, flops, bytes) VALUES(?, ?, ?, ?) "
      // How work is counted may change with a release; the text is what it was.
      "ON CONFLICT(digest) DO UPDATE SET flops = excluded.flops, bytes = excluded.bytes RETURNING id",
      {workload.digest, workload.text, workload.flops, workload.bytes});
}

ModelId Store::add_model(const std::string& name, const std::string& digest) {
  // Of the models of one name the last added is meant (find_model): one that comes again is that one.
  return *database_->insert(
      "INSERT INTO model(name, digest, added_ms) VALUES(?, ?, ?) "
      "ON CONFLICT(name, digest) DO UPDATE SET added_ms = excluded.added_ms RETURNING id",
      {name, digest, now_ms_()});
}

void Store::set_model_tasks(ModelId model, TargetId target, std::span<const ModelTask> tasks) {
  Transaction transaction = begin();
  // Another release may cut the model into other tasks: the newest cut counts.
  database_->run("DELETE FROM model_task WHERE model = ? AND target = ?", {model, target});
  int position = 0;
  for (const ModelTask& task : tasks)
    database_->run(
        "INSERT INTO model_task(model, target, position, workload, name, calls) VALUES(?, ?, ?, ?, ?, ?)",
        {model, target, position++, task.workload, task.name, task.calls});
  transaction.commit();
}

std::optional<TargetId> Store::find_target(const std::string& name) {
  return found_id(database_->query("SELECT id FROM target WHERE name = ?", {name}));
}

std::optional<WorkloadId> Store::find_workload(const std::string& digest) {
  return found_id(database_->query("SELECT id FROM workload WHERE digest = ?", {digest}));
}

std::optional<ModelId> Store::find_model(const std::string& name) {
  return found_id(database_->query(
      "SELECT id FROM model WHERE name = ? ORDER BY added_ms DESC, id DESC LIMIT 1", {name}));
}

Target Store::target(TargetId id) {
  Query row = the_row(database_->query("SELECT name, architecture, features FROM target WHERE id = ?", {id}),
                      "target", id);
  return read_target(row);
}

std::vector<std::pair<TargetId, Target>> Store::targets() {
  std::vector<std::pair<TargetId, Target>> targets;
  for (Query row = database_->query("SELECT id, name, architecture, features FROM target ORDER BY id");
       row.step();) {
    const TargetId id = row.integer();
    targets.emplace_back(id, read_target(row));
  }
  return targets;
}

Device Store::device(DeviceId id) {
  Query row = the_row(database_->query(fmt::format("{}WHERE id = ?", kSelectDevice), {id}), "device", id);
  return read_device(row).second;
}

Workload Store::workload(WorkloadId id) {
  Query row = the_row(database_->query("SELECT digest, text, flops, bytes FROM workload WHERE id = ?", {id}),
                      "workload", id);
  return Workload{.digest = row.text(), .text = row.text(), .flops = row.real(), .bytes = row.real()};
}

std::vector<std::pair<DeviceId, Device>> Store::devices() {
  std::vector<std::pair<DeviceId, Device>> devices;
  for (Query row = database_->query(fmt::format("{}ORDER BY id", kSelectDevice)); row.step();)
    devices.push_back(read_device(row));
  return devices;
}

std::vector<std::string> Store::model_names() {
  std::vector<std::string> names;
  for (Query row = database_->query("SELECT DISTINCT name FROM model ORDER BY name"); row.step();)
    names.push_back(row.text());
  return names;
}

std::vector<ModelTask> Store::model_tasks(ModelId model, TargetId target) {
  std::vector<ModelTask> tasks;
  for (Query row = database_->query(
           "SELECT workload, name, calls FROM model_task WHERE model = ? AND target = ? ORDER BY position",
           {model, target});
       row.step();)
    tasks.push_back({.workload = row.integer(), .name = row.text(), .calls = row.integer()});
  return tasks;
}

std::string Store::model_digest(ModelId id) {
  return the_row(database_->query("SELECT digest FROM model WHERE id = ?", {id}), "model", id).text();
}

std::vector<WorkloadId> Store::measured_workloads(TargetId target) {
  // One seek a workload; a join over a million measurements would visit all.
  std::vector<WorkloadId> workloads;
  for (Query row =
           database_->query("SELECT id FROM workload WHERE EXISTS(SELECT 1 FROM measurement "
                            "WHERE workload = workload.id AND target = ? AND suspect = 0) ORDER BY id",
                            {target});
       row.step();)
    workloads.push_back(row.integer());
  return workloads;
}

void Store::add_cost_model(const CostModelRecord& record) {
  Transaction transaction = begin();
  // Only the last round's is ever read, and each may have megabytes.
  // Where job is null, of no job, `= NULL` deletes nothing.
  database_->run("DELETE FROM cost_model WHERE job = ?", {record.job});
  database_->run(
      "INSERT INTO cost_model(job, target, round, samples, spearman, recall, model, created_ms) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
      {record.job, record.target, record.round, record.samples, record.spearman, record.recall,
       as_blob(record.model), now_ms_()});
  transaction.commit();
}

namespace {
constexpr std::string_view kSelectCostModel =
    "SELECT job, target, round, samples, spearman, recall, model FROM cost_model ";

std::optional<CostModelRecord> read_cost_model(Query row) {
  if (!row.step()) return std::nullopt;
  return CostModelRecord{.job = row.maybe_integer(),
                         .target = row.integer(),
                         .round = static_cast<int>(row.integer()),
                         .samples = row.integer(),
                         .spearman = row.real(),
                         .recall = row.real(),
                         .model = row.text()};
}
}  // namespace

std::optional<CostModelRecord> Store::latest_cost_model(TargetId target) {
  return read_cost_model(database_->query(
      // A search that is under way changes its model each round; others begin with what an ended one has
      // learnt.
      fmt::format("{}WHERE target = ? AND NOT EXISTS(SELECT 1 FROM job WHERE job.id = cost_model.job AND "
                  "job.state IN ('queued', 'running')) ORDER BY id DESC LIMIT 1",
                  kSelectCostModel),
      {target}));
}

std::optional<CostModelRecord> Store::latest_cost_model(TargetId target, const std::string& device_class) {
  return read_cost_model(database_->query(
      fmt::format("{}WHERE target = ? AND NOT EXISTS(SELECT 1 FROM job WHERE job.id = cost_model.job AND "
                  "job.state IN ('queued', 'running')) AND EXISTS(SELECT 1 FROM served_job WHERE "
                  "served_job.job = cost_model.job AND device_class = ?) ORDER BY id DESC LIMIT 1",
                  kSelectCostModel),
      {target, device_class}));
}

std::optional<CostModelRecord> Store::cost_model_of(JobId job) {
  return read_cost_model(database_->query(fmt::format("{}WHERE job = ?", kSelectCostModel), {job}));
}

int64_t Store::add_event(std::optional<JobId> job, const std::string& kind, const std::string& body) {
  // Numbers are in the order of commits, for a reader goes on after the last it has seen.
  Transaction transaction = begin();
  const auto id =
      database_->insert("INSERT INTO event(job, kind, body, created_ms) VALUES(?, ?, ?, ?) RETURNING id",
                        {job, kind, body, now_ms_()});
  transaction.commit();
  return *id;
}

std::vector<Event> Store::events_after(int64_t id, int limit) {
  std::vector<Event> events;
  for (Query row = database_->query(
           "SELECT id, job, served_job, kind, body, created_ms FROM event WHERE id > ? ORDER BY id LIMIT ?",
           {id, limit});
       row.step();)
    events.push_back({.id = row.integer(),
                      .job = row.maybe_integer(),
                      .served_job = row.maybe_integer(),
                      .kind = row.text(),
                      .body = row.text(),
                      .created_ms = row.integer()});
  return events;
}

}  // namespace lathe::db
