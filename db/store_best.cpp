// Measurements: what is best, and how well a model is covered.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/support/error.h"
#include "core/support/text.h"
#include "db/device_kind.h"
#include "db/store.h"

namespace lathe::db {

namespace {

constexpr std::string_view kRungNames[] = {"this device", "this target, another device",
                                           "a compatible target"};

/// `by_index`: of Database::by_index, or "".
/// Columns in the order of read_measurement; NULLs only where it asks for maybe_integer().
std::string select_measurement(std::string_view by_index = "") {
  return fmt::format(
      "SELECT m.id, m.workload, m.target, m.device, m.threads, m.seconds, coalesce(m.told_seconds, "
      "m.seconds), m.median, m.p25, m.min, m.mad, "
      "m.samples, candidate.trace, candidate.program, m.relative_error, m.compiler, m.revision, "
      "m.recorded_ms, m.imported_ms, m.confirmed, m.suspect, m.confirmed_elsewhere FROM measurement m {} "
      "JOIN candidate ON candidate.id = m.candidate ",
      by_index);
}

Measurement read_measurement(Query& row) {
  return Measurement{
      .id = row.integer(),
      .workload = row.integer(),
      .target = row.integer(),
      .device = row.integer(),
      .threads = static_cast<int>(row.integer()),
      .seconds = row.real(),
      .told_seconds = row.real(),
      .summary = {.median = row.real(), .p25 = row.real(), .min = row.real(), .mad = row.real()},
      .samples = row.floats(),
      .trace = row.text(),
      .program = row.text(),
      .relative_error = row.real(),
      .compiler = row.text(),
      .revision = row.text(),
      .recorded_ms = row.integer(),
      .imported_ms = row.maybe_integer(),
      .confirmed = row.boolean(),
      .suspect = row.boolean(),
      .confirmed_elsewhere = row.boolean()};
}

/// The least number of threads above `above` with a result on the rung.
std::optional<int64_t> next_threads(Database& database, const BestQuery& query, bool confirmed,
                                    int64_t above) {
  // A skip through the index, one seek a number of threads; DISTINCT would walk all of its entries.
  Query row =
      query.device
          ? database.query(
                fmt::format("SELECT min(threads) FROM measurement {} WHERE workload = ? AND target = ? "
                            "AND confirmed = ? AND device = ? AND threads > ? AND suspect = 0",
                            database.by_index("measurement_best")),
                {query.workload, query.target, confirmed, *query.device, above})
          : database.query(
                fmt::format("SELECT min(threads) FROM measurement {} WHERE workload = ? AND target = ? "
                            "AND confirmed = ? AND threads > ? AND suspect = 0",
                            database.by_index("measurement_rank")),
                {query.workload, query.target, confirmed, above});
  CHECK(row.step());
  const std::optional<int64_t> threads = row.maybe_integer();
  if (threads && *threads > std::numeric_limits<int>::max())
    fail("database {} holds a measurement by {} threads; do not trust it", database.name(), *threads);
  return threads;
}

/// The least number of a device above `above` with a result on the rung.
std::optional<DeviceId> next_device(Database& database, const BestQuery& query, bool confirmed,
                                    DeviceId above) {
  // As next_threads().
  Query row = database.query(fmt::format("SELECT min(device) FROM measurement {} WHERE workload = ? AND "
                                         "target = ? AND confirmed = ? AND device > ? AND suspect = 0",
                                         database.by_index("measurement_best")),
                             {query.workload, query.target, confirmed, above});
  CHECK(row.step());
  return row.maybe_integer();
}

bool is_of(Database& database, DeviceId device, const DeviceKind& kind) {
  Query row = database.query("SELECT 1 FROM device WHERE id = ? AND model = ? AND cores = ?",
                             {device, kind.model, kind.cores});
  return row.step();
}

void keep_fastest(std::vector<Measurement>& found, int limit) {
  std::sort(found.begin(), found.end(), [](const Measurement& a, const Measurement& b) {
    // The older of equals, so that the answer does not depend on the order of rows.
    return std::pair(a.seconds, a.id) < std::pair(b.seconds, b.id);
  });
  if (found.size() > static_cast<size_t>(limit)) found.resize(static_cast<size_t>(limit));
}

/// The fastest first, read off an index in their order for each number of threads: among a million results no
/// more than the answer is looked at. The index is named, for without statistics SQLite takes the one that
/// covers most.
std::vector<Measurement> fastest(Database& database, BestQuery query, bool confirmed, int limit) {
  std::vector<Measurement> found;
  if (query.kind) {
    const DeviceKind kind = *std::exchange(query.kind, std::nullopt);
    if (query.device)
      return is_of(database, *query.device, kind) ? fastest(database, query, confirmed, limit) : found;
    // The index that has devices is sorted by seconds within each of them only: short ranges, merged. By the
    // other one all results of a faster kind would be looked at before the first of these.
    for (auto device = next_device(database, query, confirmed, 0); device;
         device = next_device(database, query, confirmed, *device)) {
      if (!is_of(database, *device, kind)) continue;
      BestQuery one = query;
      one.device = device;
      for (Measurement& each : fastest(database, one, confirmed, limit)) found.push_back(std::move(each));
    }
    keep_fastest(found, limit);
    return found;
  }
  if (query.threads == 0) {
    // Sorted by seconds within each number of threads only: so many short ranges, merged.
    for (auto threads = next_threads(database, query, confirmed, 0); threads;
         threads = next_threads(database, query, confirmed, *threads)) {
      query.threads = static_cast<int>(*threads);
      for (Measurement& each : fastest(database, query, confirmed, limit)) found.push_back(std::move(each));
    }
    keep_fastest(found, limit);
    return found;
  }
  const std::string index = database.by_index(query.device ? "measurement_best" : "measurement_rank");
  // The conditions are spelled out (no "? = 0 OR ...") so that the indexes serve them.
  std::string sql =
      fmt::format("{}WHERE m.workload = ? AND m.target = ? AND m.suspect = 0 AND m.confirmed = {:d}",
                  select_measurement(index), confirmed);
  std::vector<Value> values = {query.workload, query.target};
  if (query.device) sql += " AND m.device = ?", values.emplace_back(*query.device);
  sql += " AND m.threads = ?", values.emplace_back(query.threads);
  if (std::isfinite(query.max_relative_error))
    sql += " AND m.relative_error <= ?", values.emplace_back(query.max_relative_error);
  sql += " ORDER BY m.seconds, m.id LIMIT ?";
  values.emplace_back(limit);
  for (Query row = database.query(sql, values); row.step();) found.push_back(read_measurement(row));
  return found;
}

bool is_subset(const std::string& features, const std::string& of) {
  std::vector<std::string> wanted = split_text(features, ','), had = split_text(of, ',');
  // Target names may list features in any order; std::includes wants both sorted.
  std::sort(wanted.begin(), wanted.end());
  std::sort(had.begin(), had.end());
  return std::includes(had.begin(), had.end(), wanted.begin(), wanted.end());
}

/// Targets whose code runs on `id`, other than itself.
std::vector<TargetId> compatible_targets(Database& database, TargetId id, const Target& target) {
  std::vector<TargetId> compatible;
  for (Query row =
           database.query("SELECT id, features FROM target WHERE architecture = ? AND id <> ? ORDER BY id",
                          {target.architecture, id});
       row.step();) {
    TargetId other = row.integer();
    // A target's code uses no more than its features: what has them all can run it (Q2).
    if (is_subset(row.text(), target.features)) compatible.push_back(other);
  }
  return compatible;
}

}  // namespace

std::string of_kind(std::string_view column, const std::optional<DeviceKind>& kind,
                    std::vector<Value>& values) {
  if (!kind) return "";
  values.emplace_back(kind->model);
  values.emplace_back(kind->cores);
  return fmt::format("AND {} IN (SELECT id FROM device WHERE model = ? AND cores = ?) ", column);
}

std::string_view to_string(Rung rung) { return kRungNames[static_cast<int>(rung)]; }

/// The best of one rung: those threads before any other number, a confirmed result before one that is not.
std::optional<Measurement> Store::best_on(BestQuery query) {
  while (true) {
    // The fastest of many unconfirmed is so in part by luck.
    for (bool confirmed : {true, false}) {
      if (!confirmed && !query.accept_unconfirmed) continue;
      std::vector<Measurement> found = fastest(*database_, query, confirmed, 1);
      if (!found.empty()) return std::move(found.front());
    }
    // What is fast with other threads is still a better guess than no measurement.
    if (query.threads == 0 || query.strict) return std::nullopt;
    query.threads = 0;
  }
}

std::optional<Best> Store::best(const BestQuery& query) {
  if (query.device)
    if (auto found = best_on(query)) return Best{std::move(*found), Rung::kDevice};
  if (query.device && query.strict) return std::nullopt;
  BestQuery wider = query;
  wider.device.reset();
  if (auto found = best_on(wider)) return Best{std::move(*found), Rung::kTarget};
  if (query.strict) return std::nullopt;
  std::optional<Best> nearest;
  for (TargetId other : compatible_targets(*database_, query.target, target(query.target))) {
    wider.target = other;
    auto found = best_on(wider);
    if (found && (!nearest || found->seconds < nearest->measurement.seconds))
      nearest = Best{std::move(*found), Rung::kCompatible};
  }
  return nearest;
}

std::vector<Measurement> Store::top(const BestQuery& query, int limit) {
  // Two ranges of the index, which has `confirmed` before the times.
  std::vector<Measurement> found = fastest(*database_, query, true, limit);
  for (Measurement& each : fastest(*database_, query, false, limit)) found.push_back(std::move(each));
  keep_fastest(found, limit);
  return found;
}

std::vector<Measurement> Store::top_suspect(const BestQuery& query, int limit) {
  std::vector<Measurement> found;
  std::vector<Value> values = {query.workload, query.target, query.threads, query.max_relative_error};
  if (query.device) values.emplace_back(*query.device);
  const std::string on_kind = of_kind("m.device", query.kind, values);
  values.emplace_back(limit);
  for (Query row = database_->query(
           fmt::format("{}WHERE m.workload = ? AND m.target = ? AND m.suspect = 1 AND m.threads = ? "
                       "AND m.relative_error <= ? {}{}ORDER BY m.seconds, m.id LIMIT ?",
                       select_measurement(database_->by_index("measurement_suspect")),
                       query.device ? "AND m.device = ? " : "", on_kind),
           values);
       row.step();)
    found.push_back(read_measurement(row));
  return found;
}

std::vector<MeasurementId> Store::history_ids(WorkloadId workload, TargetId target, int limit,
                                              const std::optional<DeviceKind>& kind) {
  std::vector<std::pair<double, MeasurementId>> all;
  std::vector<Value> values = {workload, target};
  const std::string on_kind = of_kind("device", kind, values);
  for (Query row = database_->query(
           fmt::format("SELECT id, seconds FROM measurement {} WHERE workload = ? AND target = ? "
                       "AND suspect = 0 {}ORDER BY id",
                       database_->by_index("measurement_history"), on_kind),
           values);
       row.step();) {
    const MeasurementId id = row.integer();
    all.emplace_back(row.real(), id);
  }
  const auto most = static_cast<size_t>(std::max(limit, 0));
  if (all.size() > most) {
    const auto newest = all.end() - static_cast<ptrdiff_t>(most / 2);
    const auto fastest = all.begin() + static_cast<ptrdiff_t>(most - most / 2);
    std::nth_element(all.begin(), fastest, newest);
    all.erase(fastest, newest);
  }
  std::vector<MeasurementId> ids;
  for (const auto& [seconds, id] : all) ids.push_back(id);
  // By id, the order in which it became known: a cost model learns in the same order each time.
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<Measurement> Store::measurements(WorkloadId workload, TargetId target,
                                             std::span<const MeasurementId> ids, size_t bytes,
                                             const std::optional<DeviceKind>& kind) {
  std::vector<Measurement> found;
  if (ids.empty()) return found;
  std::vector<Value> values = {workload, target, ids.front(), ids.back()};
  const std::string on_kind = of_kind("m.device", kind, values);
  // One statement for the range that they span, which as a rule has no others.
  for (Query row = database_->query(
           fmt::format("{}WHERE m.workload = ? AND m.target = ? AND m.suspect = 0 AND m.id BETWEEN ? AND ? {}"
                       "ORDER BY m.id",
                       select_measurement(database_->by_index("measurement_history")), on_kind),
           values);
       row.step();) {
    Measurement one = read_measurement(row);
    if (!std::binary_search(ids.begin(), ids.end(), one.id)) continue;
    const size_t texts = one.trace.size() + one.program.size();
    if (!found.empty() && texts > bytes) break;
    bytes -= std::min(bytes, texts);
    found.push_back(std::move(one));
  }
  return found;
}

std::vector<Measurement> Store::history(WorkloadId workload, TargetId target, int limit) {
  return measurements(workload, target, history_ids(workload, target, limit));
}

std::optional<Measurement> Store::measurement(WorkloadId workload, TargetId target, MeasurementId id) {
  std::vector<Measurement> found = measurements(workload, target, std::span(&id, 1));
  return found.empty() ? std::optional<Measurement>() : std::move(found.front());
}

std::vector<Measurement> Store::measured(WorkloadId workload, TargetId target, const std::string& program) {
  return measured(workload, target, program, {});
}

std::vector<Measurement> Store::measured(WorkloadId workload, TargetId target, const std::string& program,
                                         const std::optional<DeviceKind>& kind) {
  std::vector<Measurement> found;
  const std::string digest = candidate_digest(workload, target, program);
  std::vector<Value> values = {digest};
  const std::string on_kind = of_kind("m.device", kind, values);
  // A candidate is one row, whose digest is indexed.
  for (Query row = database_->query(
           fmt::format(
               "{}WHERE m.candidate = (SELECT id FROM candidate WHERE digest = ?) AND m.suspect = 0 {}"
               "ORDER BY m.id",
               select_measurement(), on_kind),
           values);
       row.step();)
    found.push_back(read_measurement(row));
  return found;
}

std::vector<Measurement> Store::latest(WorkloadId workload, TargetId target, int limit) {
  std::vector<Measurement> found;
  for (Query row = database_->query(
           fmt::format("{}WHERE m.workload = ? AND m.target = ? AND m.suspect = 0 ORDER BY m.id DESC LIMIT ?",
                       select_measurement(database_->by_index("measurement_history"))),
           {workload, target, limit});
       row.step();)
    found.push_back(read_measurement(row));
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<MeasuredTwice> Store::measured_on_both(WorkloadId workload, TargetId target, DeviceId first,
                                                   DeviceId second) {
  // Each read is one range of an index that covers it; a join in SQL would look up rows one by one.
  const auto on = [&](DeviceId device) {
    // confirmed IN (0, 1) instead of leaving it out: so both ranges of the index are used, which has
    // it before the device.
    return database_->query(
        fmt::format(
            "SELECT candidate, threads, seconds FROM measurement {} "
            "WHERE workload = ? AND target = ? AND confirmed IN (0, 1) AND device = ? AND suspect = 0",
            database_->by_index("measurement_best")),
        {workload, target, device});
  };
  std::map<std::pair<CandidateId, int64_t>, double> known;
  for (Query row = on(first); row.step();) {
    const CandidateId candidate = row.integer();
    const int64_t threads = row.integer();
    known[{candidate, threads}] = row.real();
  }
  std::vector<MeasuredTwice> pairs;
  for (Query row = on(second); row.step();) {
    const CandidateId candidate = row.integer();
    const int64_t threads = row.integer();
    if (const auto found = known.find({candidate, threads}); found != known.end())
      pairs.push_back({static_cast<int>(threads), found->second, row.real()});
  }
  return pairs;
}

std::vector<Coverage> Store::coverage(ModelId model, BestQuery query) {
  std::vector<Coverage> tasks;
  for (const ModelTask& task : model_tasks(model, query.target)) {
    query.workload = task.workload;
    Query counts = database_->query(
        fmt::format("SELECT (SELECT flops FROM workload WHERE id = ?1), (SELECT count(*) FROM measurement {} "
                    "WHERE workload = ?1 AND target = ?2 AND suspect = 0)",
                    database_->by_index("measurement_history")),
        {task.workload, query.target});
    CHECK(counts.step());
    tasks.push_back(
        {.task = task, .flops = counts.real(), .measured = counts.integer(), .best = best(query)});
  }
  return tasks;
}

std::optional<Measurement> Store::chosen(const Choice& choice, const BestQuery& query) {
  auto task = std::find_if(choice.tasks.begin(), choice.tasks.end(),
                           [&](const Choice::Task& t) { return t.workload == query.workload; });
  if (task == choice.tasks.end()) return std::nullopt;
  auto alone = best(query);
  // What is known by now was not part of the choice, and may be better than what it chose.
  if (!alone || alone->measurement.id == task->measurement ||
      alone->measurement.known_ms() > choice.chosen_ms)
    return std::nullopt;
  Query row = database_->query(fmt::format("{}WHERE m.id = ?", select_measurement()), {task->measurement});
  if (!row.step()) return std::nullopt;
  Measurement found = read_measurement(row);
  if (found.suspect || found.relative_error > query.max_relative_error) return std::nullopt;
  if (query.kind && !is_of(*database_, found.device, *query.kind)) return std::nullopt;
  return found;
}

}  // namespace lathe::db
