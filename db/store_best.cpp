// Measurements: what is best, and how well a model is covered.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "core/support/error.h"
#include "core/support/text.h"
#include "db/conditions.h"
#include "db/device_kind.h"
#include "db/latencies.h"
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

/// What one process measured.
struct Process {
  std::optional<WorkerId> worker;  // none: not known
  std::vector<float> samples;
};

/// What each worker says: the median of its processes' medians.
std::map<std::optional<WorkerId>, double> words(std::span<const Process> processes) {
  std::map<std::optional<WorkerId>, std::vector<float>> medians;
  for (const Process& process : processes)
    medians[process.worker].push_back(static_cast<float>(summarize(process.samples).median));
  std::map<std::optional<WorkerId>, double> words;
  for (const auto& [worker, its] : medians) words[worker] = summarize(its).median;
  return words;
}

bool are_apart(double a, double b) { return std::max(a, b) > kWorkersAgree * std::min(a, b); }

/// Those of `wanted` to go by: all, where the workers agree. Where they do not, all are heard, with `others`
/// too, and the middle one's word counts, of an even number the slower one's of the two in the middle:
/// nothing makes a machine faster than it is (docs/decisions/085-few-lies.md).
std::vector<std::vector<float>> undisputed(std::vector<Process> wanted, std::vector<Process> others) {
  std::vector<std::vector<float>> believed;
  std::map<std::optional<WorkerId>, double> words = db::words(wanted);
  const auto [fastest, slowest] = std::minmax_element(
      words.begin(), words.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (!are_apart(fastest->second, slowest->second)) {
    for (Process& process : wanted) believed.push_back(std::move(process.samples));
    return believed;
  }
  std::vector<Process> all = wanted;
  std::move(others.begin(), others.end(), std::back_inserter(all));
  words = db::words(all);
  std::vector<double> seconds;
  for (const auto& [worker, word] : words) seconds.push_back(word);
  const double truth = median(std::move(seconds));
  for (const std::vector<Process>* processes : {&wanted, &all}) {
    for (const Process& process : *processes)
      if (!are_apart(words.at(process.worker), truth)) believed.push_back(process.samples);
    if (!believed.empty()) break;
  }
  return believed;
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

/// Of each confirmation that is not suspect and tells, or else ranks. Where there are none of that kind,
/// those of the other; and without any, its own.
std::vector<std::vector<float>> Store::confirming_samples(MeasurementId id, bool telling) {
  std::vector<Process> wanted, others;
  for (Query row = database_->query("SELECT tells, worker, samples FROM confirmation WHERE measurement = ? "
                                    "AND suspect = 0 ORDER BY id",
                                    {id});
       row.step();) {
    const bool tells = row.boolean();
    (tells == telling ? wanted : others).push_back({row.maybe_integer(), row.floats()});
  }
  if (wanted.empty()) wanted = std::exchange(others, {});
  Query first = database_->query("SELECT worker, suspect, samples FROM measurement WHERE id = ?", {id});
  if (first.step()) {
    Process process{.worker = first.maybe_integer()};
    const bool suspect = first.boolean();
    process.samples = first.floats();
    if (wanted.empty())
      wanted.push_back(std::move(process));
    else if (!suspect)
      others.push_back(std::move(process));
  }
  // Every writer checks them, but a file may come from anywhere; whoever ranks by them counts on it.
  const auto is_damaged = [](const Process& process) { return !are_latencies(process.samples); };
  if (std::any_of(wanted.begin(), wanted.end(), is_damaged))
    // Not left out: a row without times would rank first.
    fail("database {} is damaged: the samples of measurement {} are no times", database_->name(), id);
  std::erase_if(others, is_damaged);
  return undisputed(std::move(wanted), std::move(others));
}

std::vector<double> Store::told_medians(MeasurementId id) {
  std::vector<double> medians;
  for (const std::vector<float>& samples : confirming_samples(id, /*telling=*/true))
    medians.push_back(summarize(samples).median);
  return medians;
}

ProcessSpread Store::process_spread(const Measurement& of) {
  std::map<std::pair<MeasurementId, bool>, std::vector<double>> alike;
  // What ranks a candidate and what tells its time apart: who is first was lucky in the former alone.
  for (Query row = database_->query(
           fmt::format("SELECT c.measurement, c.tells, c.median FROM measurement m {} JOIN confirmation c "
                       "ON c.measurement = m.id WHERE m.workload = ? AND m.target = ? AND m.device = ? AND "
                       "m.threads = ? AND m.confirmed = 1 AND m.suspect = 0 AND c.suspect = 0",
                       database_->by_index("measurement_best")),
           {of.workload, of.target, of.device, of.threads});
       row.step();) {
    const MeasurementId id = row.integer();
    const bool tells = row.boolean();
    const double median = row.real();
    if (!(median > 0) || !std::isfinite(median))
      fail("database {} is damaged: a confirmation of measurement {} took {} s", database_->name(), id,
           median);
    alike[{id, tells}].push_back(median);
  }
  ProcessSpread spread;
  for (const auto& [which, medians] : alike) spread.add(medians);
  return spread;
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
  if (query.kind && !db::is_of(*database_, found.device, *query.kind)) return std::nullopt;
  return found;
}

bool Store::is_of(const Choice& choice, const DeviceKind& kind) {
  return std::all_of(choice.tasks.begin(), choice.tasks.end(), [&](const Choice::Task& task) {
    Query row = database_->query("SELECT device FROM measurement WHERE id = ?", {task.measurement});
    return !row.step() || db::is_of(*database_, row.integer(), kind);
  });
}

void Store::confirm(MeasurementId id, std::span<const float> samples, std::optional<WorkerId> worker,
                    bool tells) {
  Transaction transaction = begin();
  add_confirmation(id, {{samples.begin(), samples.end()}, now_ms_(), tells, worker, {}});
  transaction.commit();
}

void Store::add_confirmation(MeasurementId id, const Confirmation& confirmation) {
  const Summary summary = summarize(confirmation.samples);
  std::vector<Value> values = {id,
                               summary.median,
                               summary.p25,
                               summary.min,
                               summary.mad,
                               static_cast<int64_t>(confirmation.samples.size()),
                               as_blob(confirmation.samples),
                               confirmation.recorded_ms,
                               confirmation.worker,
                               confirmation.tells};
  append_conditions(values, confirmation.conditions);
  database_->run(
      fmt::format(
          "INSERT INTO confirmation(measurement, median, p25, min, mad, n, samples, recorded_ms, worker, "
          "tells, {}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
          condition_columns()),
      values);
  rank(id);
}

/// By the confirmations that are not suspect; without any, by its own samples. Not by both: who is confirmed
/// was the fastest of many, and its first samples were in part lucky. Who is then the first of its rank was
/// lucky in its confirmations too, so what it is said to take comes of others.
void Store::rank(MeasurementId id) {
  // Process by process: what is peculiar to one all its samples have in common.
  const auto seconds = [&](bool telling) {
    std::vector<float> medians;
    for (const std::vector<float>& samples : confirming_samples(id, telling))
      medians.push_back(static_cast<float>(summarize(samples).median));
    return summarize(medians).median;
  };
  Query counts = database_->query(
      "SELECT count(*), max(CASE WHEN c.worker <> m.worker THEN 1 ELSE 0 END), max(c.tells) "
      "FROM confirmation c "
      "JOIN measurement m ON m.id = c.measurement WHERE c.measurement = ? AND c.suspect = 0",
      {id});
  CHECK(counts.step());
  const bool confirmed = counts.integer() > 0;
  const bool elsewhere = counts.boolean();
  std::optional<double> told;
  if (counts.maybe_integer() == 1) told = seconds(/*telling=*/true);
  database_->run(
      "UPDATE measurement SET confirmed = ?, confirmed_elsewhere = ?, seconds = ?, told_seconds = ? WHERE id "
      "= ?",
      {confirmed, elsewhere, seconds(/*telling=*/false), told, id});
}

int64_t Store::set_suspect(WorkerId worker, int64_t since_ms) {
  Transaction transaction = begin();
  // Confirmations first: a measurement stays believed while one of another worker's is left.
  std::vector<MeasurementId> changed;
  std::vector<MeasurementId> withdrawn;
  std::map<TargetId, int64_t> taught;  // since when
  // Who confirmed is not known of old rows: then it was the device that measured.
  for (Query row = database_->query(
           "UPDATE confirmation SET suspect = 1 WHERE suspect = 0 AND recorded_ms >= ?2 AND (worker = ?1 OR "
           "(worker IS NULL AND measurement IN (SELECT id FROM measurement WHERE worker = ?1))) "
           "RETURNING measurement",
           {worker, since_ms});
       row.step();)
    changed.push_back(row.integer());
  for (Query row = database_->query(
           "UPDATE measurement SET suspect = 1 WHERE worker = ? AND recorded_ms >= ? AND suspect = 0 "
           "AND NOT EXISTS(SELECT 1 FROM confirmation c WHERE c.measurement = measurement.id "
           "AND c.suspect = 0) RETURNING id, target, recorded_ms",
           {worker, since_ms});
       row.step();) {
    changed.push_back(row.integer());
    withdrawn.push_back(changed.back());
    int64_t& first = taught.try_emplace(row.integer(), INT64_MAX).first->second;
    first = std::min(first, row.integer());
  }
  // What was learnt since from any of these; later jobs would begin with it. A search that is under way
  // forgets by itself (Measurer::withdrawn), unless it ends before: then it is not to go on with what its own
  // taught.
  for (const auto& [target, first] : taught)
    database_->run(
        "DELETE FROM cost_model WHERE target = ? AND created_ms >= ? AND NOT EXISTS(SELECT 1 FROM job "
        "WHERE job.id = cost_model.job AND job.state IN ('queued', 'running'))",
        {target, first});
  for (MeasurementId id : withdrawn)
    database_->run(
        "DELETE FROM cost_model WHERE job = (SELECT trial.job FROM trial JOIN measurement ON "
        "measurement.trial = trial.id WHERE measurement.id = ?)",
        {id});
  std::sort(changed.begin(), changed.end());
  // A measurement may stand there by itself and by several of its confirmations.
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  // Each may have other samples to go by now, or none but its own.
  for (MeasurementId id : changed) rank(id);
  transaction.commit();
  return static_cast<int64_t>(changed.size());
}

}  // namespace lathe::db
