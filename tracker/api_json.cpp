#include "tracker/api_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "db/conditions.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

// null is "not known" in all answers; 0 would be a measurement.
json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }
json or_null(int64_t milliseconds) { return milliseconds > 0 ? json(milliseconds) : json(); }

/// What our own programs wrote, if the database says so; null for what they would not have written.
json parse_own(const std::string& text) {
  constexpr int kDepth = 64;
  try {
    // A row that is damaged makes a hole in the answer, not an error of the whole page.
    json value = parse_bounded_json(text, kDepth, "a record");
    return value.is_discarded() ? json() : value;
  } catch (const Error&) {
    return {};
  }
}

double number_member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

/// Never by way of a double, which may hold what no int64 does.
int64_t whole_member(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

/// Its members that are numbers, or null: whoever lists jobs reads these of all of them. Null for no object.
json figures_of(const json& object) {
  if (!object.is_object()) return {};
  json figures = json::object();
  for (const auto& [name, value] : object.items())
    if (value.is_number() || value.is_null()) figures[name] = value;
  return figures;
}

constexpr const char* kCurveColumns[] = {"seconds",          "trials", "model_seconds",
                                         "rank_correlation", "recall", "samples"};

/// `all` cut into half so many equal stretches, as [begin, end).
std::vector<std::pair<size_t, size_t>> stretches(size_t all, int points) {
  std::vector<std::pair<size_t, size_t>> result;
  // Each stretch becomes two points at most.
  const size_t count = std::max<size_t>(1, static_cast<size_t>(points) / 2);
  const size_t width = std::max<size_t>(1, (all + count - 1) / count);
  for (size_t begin = 0; begin < all; begin += width)
    result.emplace_back(begin, std::min(all, begin + width));
  return result;
}

/// One run of the model by the best that was measured of each task, with the 95% interval that the spread of
/// their samples gives its sum; null until every task has a measurement.
json estimate_json(std::span<const db::TaskBest> tasks) {
  double seconds = 0, variance = 0;
  for (const db::TaskBest& task : tasks) {
    if (!task.seconds) return {};
    // Of a median of n samples, where the median absolute deviation stands for the standard one.
    // 1.2533 is the root of pi/2, by which a median of normal samples varies more than their mean; 1.4826
    // makes a median absolute deviation a standard one.
    // MAD as the estimate, for a sample that was disturbed moves a standard deviation at will.
    const double deviation = 1.2533 * 1.4826 * task.mad / std::sqrt(task.samples);
    seconds += task.weight * *task.seconds;
    variance += task.weight * task.weight * deviation * deviation;
  }
  // The tasks' errors are taken as independent, so their variances add.
  const double half = 1.96 * std::sqrt(variance);
  return {{"seconds", seconds}, {"low", seconds - half}, {"high", seconds + half}};
}

/// One run of the model by what each task's winner took when it was measured again; nothing while that is not
/// known.
std::optional<double> confirmed_seconds(const json& report) {
  const auto tasks = report.is_object() ? report.find("tasks") : report.end();
  if (tasks == report.end() || !tasks->is_array()) return {};
  double seconds = 0;
  for (const json& task : *tasks) {
    const double after = number_member(task, "after_us") * 1e-6;
    if (after <= 0) return {};
    seconds += number_member(task, "weight") * after;
  }
  return seconds;
}

/// Of the whole model, by the race that ended the job; null where there was none.
json raced_json(const ReportFigures& figures) {
  if (!figures.raced_seconds) return {};
  return {{"untuned_seconds", figures.raced_seconds->first},
          {"tuned_seconds", figures.raced_seconds->second}};
}

json leases_json(std::span<const db::LeaseSpan> leases) {
  json list = json::array();
  for (const db::LeaseSpan& lease : leases)
    list.push_back({{"attempt", lease.attempt},
                    {"worker", lease.worker},
                    {"epoch", lease.epoch},
                    {"granted_ms", lease.granted_ms},
                    {"ended_ms", or_null(lease.ended_ms)},
                    {"ending", lease.ending}});
  return list;
}

json clock_json(const std::optional<db::WorkerClock>& clock) {
  if (!clock) return {};
  return {{"measurements", clock->measurements}, {"latest_hz", clock->latest},
          {"lowest_hz", clock->lowest},          {"highest_hz", clock->highest},
          {"is_throttled", clock->is_throttled}, {"throttled", clock->throttled},
          {"disturbed", clock->disturbed}};
}

json last_of(db::Store& store, const db::ServedJob& job, const char* kind) {
  const auto event = store.last_served_event(job.id, kind);
  return event ? parse_own(event->body) : json();
}

}  // namespace

ReportFigures figures_of_report(const std::string& text) {
  // Of what a searcher has written, a megabyte perhaps; 10,000 of these are kept, and 500 stand in a list.
  constexpr size_t kLongestEnding = 100;
  const json report = parse_own(text);
  ReportFigures figures{.confirmed_seconds = confirmed_seconds(report),
                        .ended = string_member(report, "ended")};
  if (figures.ended.size() > kLongestEnding) figures.ended.clear();  // no word of ours
  const double untuned = number_member(report, "before_ms"), tuned = number_member(report, "after_ms");
  if (untuned > 0 && tuned > 0) figures.raced_seconds = {untuned * 1e-3, tuned * 1e-3};
  return figures;
}

json job_json(const db::ServedJob& job, db::Store& store) {
  return job_json(job, figures_of_report(job.report), store);
}

json job_json(const db::ServedJob& job, const ReportFigures& figures, db::Store& store) {
  const json request = parse_own(job.request);
  json result = {{"id", job.uuid},
                 {"owner", job.owner},
                 {"model", job.model_name},
                 {"target", string_member(request, "target")},
                 {"device_class", job.device_class},
                 {"state", db::to_string(job.state)},
                 {"message", job.message},
                 {"priority", job.priority},
                 {"created_ms", job.created_ms},
                 {"started_ms", or_null(job.started_ms)},
                 {"ended_ms", or_null(job.ended_ms)},
                 {"crashes", job.crashes},
                 {"trial_budget", whole_member(request, "trials")},
                 {"second_budget", number_member(request, "seconds")},
                 {"progress", figures_of(last_of(store, job, "progress"))},
                 {"confirmed_seconds", or_null(figures.confirmed_seconds)},
                 {"raced", raced_json(figures)},
                 {"ended", figures.ended},
                 {"trials", 0}};
  // Of the tasks' counters, not a count over the trials, which may be a million.
  if (job.job) result["trials"] = store.ended_trials(*job.job);
  return result;
}

json job_details_json(const db::ServedJob& job, db::Store& store) {
  json result = job_json(job, store);
  result["request"] = parse_own(job.request);
  result["tasks"] = last_of(store, job, "tasks");
  result["task_state"] = last_of(store, job, "task_state");
  result["report"] = job.report.empty() ? json() : parse_own(job.report);
  if (job.job) {
    json outcomes = json::object();
    const db::JobProgress progress = store.job_progress(*job.job);
    for (size_t i = 0; i < kOutcomeNames.size(); ++i)
      if (progress.outcomes[i] > 0) outcomes[std::string(kOutcomeNames[i])] = progress.outcomes[i];
    result["outcomes"] = outcomes;
    json workloads = json::array();
    const std::vector<db::TaskBest> bests =
        // What later jobs found is not of this one.
        store.task_bests(*job.job, kind_of_class(job.device_class), job.ended_ms ? job.ended_ms : INT64_MAX);
    for (const db::TaskBest& task : bests) workloads.push_back(task.workload);
    result["workloads"] = workloads;  // of `tasks`, in their order
    result["estimate"] = estimate_json(bests);
  }
  // Asked last: an event in between is told twice rather than never.
  result["last_event"] = store.last_event();  // a stream after it tells what is new
  return result;
}

json trial_json(const db::TrialRow& trial) {
  return {{"id", trial.id},
          {"workload", trial.workload},
          {"purpose", trial.purpose == db::Purpose::kSearch ? "search" : "confirm"},
          {"state", db::to_string(trial.state)},
          {"outcome", trial.outcome ? json(to_string(*trial.outcome)) : json()},
          {"predicted", trial.predicted},
          {"seconds", or_null(trial.seconds)},
          {"relative_error", or_null(trial.relative_error)},
          {"attempts", trial.attempts},
          {"worker", trial.worker},
          {"error", trial.error},
          {"created_ms", trial.created_ms},
          {"ended_ms", or_null(trial.ended_ms)}};
}

json trial_life_json(const db::TrialLife& life, const std::string& job) {
  json result = trial_json(life.row);
  result["job"] = job;
  result["trace"] = parse_own(life.trace);
  result["signal"] = life.signal;
  result["samples"] = life.samples;
  result["compiler"] = life.compiler;
  result["revision"] = life.revision;
  result["confirmed"] = life.confirmed;
  result["suspect"] = life.suspect;
  for (const db::ConditionColumn& column : db::kConditions)
    result[column.name] = or_null(life.conditions.*column.value);
  result["driver"] = life.conditions.driver;
  result["leases"] = leases_json(life.leases);
  return result;
}

namespace {

json level_json(const db::CanaryLevel& level) {
  if (level.seconds <= 0) return {};
  return {{"seconds", level.seconds}, {"tolerance", level.tolerance}, {"drift", level.drift}};
}

/// `drift`: the larger one's of both kernels, as a share of its baseline; null until there is one.
json canary_json(const WorkerStatus& worker) {
  const db::WorkerHealth& health = worker.health;
  return {{"age_ms", worker.canary_age ? json(worker.canary_age->count()) : json()},
          {"drift", health.compute.seconds > 0 ? json(worker.drift) : json()},
          {"compute", level_json(health.compute)},
          {"memory", level_json(health.memory)}};
}

}  // namespace

json worker_json(const WorkerStatus& worker, std::span<const db::LeaseSpan> leases,
                 const std::optional<db::WorkerClock>& clock) {
  json device = parse_own(worker.device->text);
  // Dozens of numbers that no page shows.
  if (device.is_object()) device.erase("machine");
  json holding = json::array();
  for (const db::LeaseSpan& lease : leases)
    holding.push_back({{"trial", lease.trial}, {"since_ms", lease.granted_ms}});
  return {{"name", worker.name},           {"device_class", worker.device_class},
          {"backends", worker.backends},   {"slots", worker.slots},
          {"leases", worker.leases},       {"silent_ms", worker.silent.count()},
          {"state", worker.state()},       {"suspect", worker.health.suspect},
          {"canary", canary_json(worker)}, {"device", std::move(device)},
          {"holding", std::move(holding)}, {"clock", clock_json(clock)}};
}

json quarantined_json(const db::Quarantined& trial, const std::optional<db::ServedJob>& job) {
  return {{"id", trial.id},
          {"job", job ? job->uuid : ""},
          {"model", job ? job->model_name : ""},
          {"task", trial.task},
          {"signal", trial.signal},
          {"error", trial.error},
          {"ended_ms", trial.ended_ms},
          {"leases", leases_json(trial.leases)}};
}

/// The estimate only falls, so the first and the last of a stretch are its extremes, and only these are
/// parsed.
json curve_json(const db::ServedJob& job, db::Store& store, int points) {
  // By number: what they say may be more than fits in memory.
  const std::vector<int64_t> all = store.served_event_ids(job.id, "progress");
  json rows = json::array();
  const auto add = [&](int64_t id) {
    const auto event = store.served_event(id);
    const json body = parse_own(event ? event->body : "");
    // Until every task has a measurement the model has no estimate.
    if (number_member(body, "model_seconds") <= 0) return;
    json row = json::array();
    for (const char* column : kCurveColumns) row.push_back(body.value(column, json()));
    rows.push_back(std::move(row));
  };
  for (const auto& [begin, end] : stretches(all.size(), points)) {
    add(all[begin]);
    // Bodies of tens of thousands of events are small; to parse them is what costs.
    if (end - begin > 1) add(all[end - 1]);
  }
  return {{"columns", kCurveColumns}, {"points", std::move(rows)}};
}

json points_json(const db::ServedJob& job, db::Store& store, db::WorkloadId workload, int points) {
  std::vector<db::TrialPoint> all;
  if (job.job) all = store.trial_points(*job.job, workload);
  json rows = json::array();
  const auto add = [&](const db::TrialPoint& point) {
    rows.push_back({point.id, point.workload, point.recorded_ms, point.predicted, point.seconds});
  };
  const auto faster = [](const db::TrialPoint& a, const db::TrialPoint& b) { return a.seconds < b.seconds; };
  for (const auto& [begin, end] : stretches(all.size(), points)) {
    // Both extremes of each stretch, in the order of time: a chart of fewer points has the same outline.
    auto [low, high] = std::minmax_element(all.data() + begin, all.data() + end, faster);
    if (high < low) std::swap(low, high);
    add(*low);
    if (high != low) add(*high);
  }
  return {{"columns", {"id", "workload", "recorded_ms", "predicted", "seconds"}},
          {"measured", all.size()},
          {"points", std::move(rows)}};
}

std::string metrics_text(const FarmStatus& farm, db::Store& store) {
  constexpr size_t kClassesTold = 500;  // three series each, of 2,000 in all
  std::string text;
  const auto family = [&](std::string_view name, std::string_view help) {
    text += fmt::format("# HELP lathe_{0} {1}\n# TYPE lathe_{0} gauge\n", name, help);
  };
  const auto gauge = [&](std::string_view name, std::string_view help, double value) {
    family(name, help);
    text += fmt::format("lathe_{} {}\n", name, value);
  };
  gauge("workers", "Workers connected.", static_cast<double>(farm.workers.size()));
  gauge("slots", "Leases that all workers together are willing to hold.", farm.slots);
  gauge("trials_pending", "Trials that wait for a worker.", static_cast<double>(farm.pending));
  gauge("trials_leased", "Trials that workers hold.", static_cast<double>(farm.leased));
  gauge("queue_room", "Trials that may still be submitted.", static_cast<double>(farm.room));
  gauge("epoch", "The tracker's start; a later one has a greater number.", static_cast<double>(farm.epoch));
  gauge("platforms_unserved", "Platforms of pending trials that no worker is.",
        static_cast<double>(farm.unserved.size()));
  const auto in_state = [&](auto is) { return std::count_if(farm.workers.begin(), farm.workers.end(), is); };
  gauge("workers_suspect", "Workers that are not believed and get no leases.",
        static_cast<double>(in_state([](const auto& worker) { return !worker.health.suspect.empty(); })));
  gauge("workers_drained", "Workers that an administrator keeps from taking leases.",
        static_cast<double>(in_state([](const auto& worker) { return worker.drained; })));
  struct Class {
    double slots = 0, leases = 0, drift = 0;
  };
  // A thousand workers as labels would be a thousand series, kept by Prometheus for each that ever was.
  std::map<std::string, Class> classes;  // few series, many workers
  for (const WorkerStatus& worker : farm.workers) {
    Class& its = classes[worker.device_class];
    its.slots += worker.slots;
    its.leases += worker.leases;
    its.drift = std::max(its.drift, std::abs(worker.drift));
  }
  // Workers name their devices, and may make up a new one with each HELLO: the small classes are one.
  std::vector<std::pair<std::string, Class>> told(classes.begin(), classes.end());
  std::stable_sort(told.begin(), told.end(),
                   [](const auto& a, const auto& b) { return a.second.slots > b.second.slots; });
  if (told.size() > kClassesTold) {
    Class others;
    for (const auto& [name, its] : std::span(told).subspan(kClassesTold)) {
      others.slots += its.slots;
      others.leases += its.leases;
      others.drift = std::max(others.drift, its.drift);
    }
    told.resize(kClassesTold);
    told.emplace_back("all others", others);
  }
  const auto quoted = [](const std::string& value) {
    std::string result;
    for (const char c : value) {
      if (c == '\\' || c == '"') result += '\\';
      // The format has lines: a name of a device must not begin one.
      result += c == '\n' ? ' ' : c;
    }
    return result;
  };
  const auto by_class = [&](std::string_view name, std::string_view help, double Class::*value) {
    family(name, help);
    for (const auto& [device_class, its] : told)
      text += fmt::format("lathe_{}{{device_class=\"{}\"}} {}\n", name, quoted(device_class), its.*value);
  };
  by_class("device_slots", "Slots by class of devices.", &Class::slots);
  by_class("device_leases", "Leases by class of devices.", &Class::leases);
  by_class("canary_drift",
           "How far the worst worker's canary is from its baseline, as a share, by class of devices.",
           &Class::drift);
  family("jobs", "Jobs by state.");
  for (const auto& [state, count] : store.count_served_jobs())
    text += fmt::format("lathe_jobs{{state=\"{}\"}} {}\n", db::to_string(state), count);
  return text;
}

}  // namespace lathe::tracker
