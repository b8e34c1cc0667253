// Confirmations: what other processes and workers say that a candidate takes, whom to believe of them, and
// how measurements rank by it.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "core/support/error.h"
#include "db/conditions.h"
#include "db/latencies.h"
#include "db/store.h"

namespace lathe::db {

namespace {

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

}  // namespace

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
