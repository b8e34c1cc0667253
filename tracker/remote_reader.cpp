#include "tracker/remote_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "core/support/error.h"
#include "tracker/confirm.h"
#include "tracker/device_class.h"

namespace lathe::tracker {
namespace {

using nlohmann::json;

// Of one answer, which may have six times as many of JSON (search_link.h bounds it): histories of years have
// gigabytes.
constexpr size_t kPageBytes = 16 << 20, kPageRows = 512;

/// Of the fastest, so many.
int few(int limit) { return std::clamp(limit, 0, kMostSuspect); }

/// JSON has no infinity, which is no limit.
json limit_json(double value) { return std::isfinite(value) ? json(value) : json(); }
double limit_of(const json& value) {
  return value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

template <typename T>
std::optional<T> maybe(const json& value) {
  return value.is_null() ? std::optional<T>() : std::optional<T>(value.get<T>());
}

// Both ends are this program, and start together: rows are lists, without names.
json to(const db::BestQuery& query) {
  return {query.workload,
          query.target,
          query.device ? json(*query.device) : json(),
          query.threads,
          query.strict,
          query.accept_unconfirmed,
          limit_json(query.max_relative_error)};
}
db::BestQuery best_query_of(const json& value) {
  return {.workload = value.at(0),
          .target = value.at(1),
          .device = maybe<db::DeviceId>(value.at(2)),
          .threads = value.at(3),
          .strict = value.at(4),
          .accept_unconfirmed = value.at(5),
          .max_relative_error = limit_of(value.at(6))};
}

json to(const db::Measurement& m) {
  return {{"id", m.id},
          {"workload", m.workload},
          {"target", m.target},
          {"device", m.device},
          {"threads", m.threads},
          {"seconds", m.seconds},
          {"told_seconds", m.told_seconds},
          {"summary", {m.summary.median, m.summary.p25, m.summary.min, m.summary.mad}},
          {"samples", m.samples},
          {"trace", m.trace},
          {"program", m.program},
          {"relative_error", m.relative_error},
          {"compiler", m.compiler},
          {"revision", m.revision},
          {"recorded_ms", m.recorded_ms},
          {"imported_ms", m.imported_ms ? json(*m.imported_ms) : json()},
          {"confirmed", m.confirmed},
          {"suspect", m.suspect},
          {"confirmed_elsewhere", m.confirmed_elsewhere}};
}
db::Measurement measurement_of(const json& value) {
  const json& summary = value.at("summary");
  return {.id = value.at("id"),
          .workload = value.at("workload"),
          .target = value.at("target"),
          .device = value.at("device"),
          .threads = value.at("threads"),
          .seconds = value.at("seconds"),
          .told_seconds = value.at("told_seconds"),
          .summary = {summary.at(0), summary.at(1), summary.at(2), summary.at(3)},
          .samples = value.at("samples").get<std::vector<float>>(),
          .trace = value.at("trace"),
          .program = value.at("program"),
          .relative_error = value.at("relative_error"),
          .compiler = value.at("compiler"),
          .revision = value.at("revision"),
          .recorded_ms = value.at("recorded_ms"),
          .imported_ms = maybe<int64_t>(value.at("imported_ms")),
          .confirmed = value.at("confirmed"),
          .suspect = value.at("suspect"),
          .confirmed_elsewhere = value.at("confirmed_elsewhere")};
}
std::vector<db::Measurement> measurements_of(const json& value) {
  std::vector<db::Measurement> all;
  for (const json& one : value) all.push_back(measurement_of(one));
  return all;
}

json to(const db::ChoiceKey& key) {
  return {key.model_digest, key.target, key.threads, limit_json(key.max_relative_error)};
}
db::ChoiceKey choice_key_of(const json& value) {
  return {value.at(0), value.at(1), value.at(2), limit_of(value.at(3))};
}

json to(const db::Choice& choice) {
  json tasks = json::array();
  for (const db::Choice::Task& task : choice.tasks) tasks.push_back({task.workload, task.measurement});
  return {to(choice.key), choice.seconds_before, choice.seconds_after, choice.chosen_ms, std::move(tasks)};
}
db::Choice choice_of(const json& value) {
  db::Choice choice{.key = choice_key_of(value.at(0)),
                    .seconds_before = value.at(1),
                    .seconds_after = value.at(2),
                    .chosen_ms = value.at(3)};
  for (const json& task : value.at(4)) choice.tasks.push_back({task.at(0), task.at(1)});
  return choice;
}

json to(const db::CostModelRecord& model) {
  return {model.target, model.round, model.samples, model.spearman, model.recall, model.model};
}
std::optional<db::CostModelRecord> cost_model_of_json(const json& value) {
  if (value.is_null()) return std::nullopt;
  return db::CostModelRecord{.target = value.at(0),
                             .round = value.at(1),
                             .samples = value.at(2),
                             .spearman = value.at(3),
                             .recall = value.at(4),
                             .model = value.at(5)};
}

json to(const db::JobTask& task) {
  return {task.workload,
          task.weight,
          task.trials,
          task.round,
          task.best_seconds ? json(*task.best_seconds) : json(),
          task.checkpoint};
}

json to(const db::KnownCandidate& known) { return {known.program, known.trace, known.tried}; }

json to(const db::TrialEnd& end) {
  return {static_cast<int>(end.state), end.outcome ? json(to_string(*end.outcome)) : json(), end.error,
          end.samples};
}

template <typename T>
json to(const std::optional<T>& value) {
  return value ? to(*value) : json();
}

template <typename T>
json list(const std::vector<T>& values) {
  json all = json::array();
  for (const T& value : values) all.push_back(to(value));
  return all;
}

}  // namespace

/// Throws what the link throws: a search without its tracker is over.
json RemoteReader::ask(const char* what, json arguments) {
  return ask_({{"what", what}, {"arguments", std::move(arguments)}}).at("answer");
}

json answer_reader(db::Store& store, db::JobId job, const std::string& device_class, const json& question) {
  // What is missing or of another type throws, and ends the searcher that asked so (search_server.cpp).
  const std::string& what = question.at("what").get_ref<const std::string&>();
  const json& argument = question.at("arguments");
  const auto answer = [](json value) { return json{{"answer", std::move(value)}}; };
  const std::optional<db::DeviceKind> kind = kind_of_class(device_class);
  const auto query_of = [&](const json& value) {
    db::BestQuery query = best_query_of(value);
    query.kind = kind;
    return query;
  };
  if (what == "target") {
    const auto id = store.find_target(argument.at(0));
    return answer(id ? json(*id) : json());
  }
  if (what == "workload_id") {
    const auto id = store.find_workload(argument.at(0));
    return answer(id ? json(*id) : json());
  }
  if (what == "workload") {
    const db::Workload workload = store.workload(argument.at(0));
    return answer({workload.digest, workload.text, workload.flops, workload.bytes});
  }
  if (what == "measured_workloads") return answer(store.measured_workloads(argument.at(0)));
  if (what == "best") {
    const auto best = store.best(query_of(argument.at(0)));
    return answer(best ? json{to(best->measurement), static_cast<int>(best->rung)} : json());
  }
  if (what == "top") return answer(list(store.top(query_of(argument.at(0)), few(argument.at(1)))));
  if (what == "top_suspect") {
    std::vector<db::Measurement> doubtful = store.top_suspect(query_of(argument.at(0)), few(argument.at(1)));
    for (db::Measurement& one : doubtful) one.samples.clear();
    return answer(list(doubtful));
  }
  if (what == "history") {
    const int limit = argument.at(2);
    return answer(store.history_ids(argument.at(0), argument.at(1), std::min(limit, db::kHistory), kind));
  }
  if (what == "measurements") {
    const std::vector<db::MeasurementId> ids = argument.at(2);
    std::vector<db::Measurement> some =
        store.measurements(argument.at(0), argument.at(1), ids, kPageBytes, kind);
    // Of them there may be many, and a search reads their summaries.
    for (db::Measurement& one : some) one.samples.clear();
    return answer(list(some));
  }
  if (what == "measured")
    return answer(list(store.measured(argument.at(0), argument.at(1), argument.at(2), kind)));
  if (what == "choice") {
    db::ChoiceKey key = choice_key_of(argument.at(0));
    key.kind = kind;
    return answer(to(store.find_choice(key)));
  }
  if (what == "chosen") return answer(to(store.chosen(choice_of(argument.at(0)), query_of(argument.at(1)))));
  if (what == "latest_cost_model")
    return answer(to(kind ? store.latest_cost_model(argument.at(0), device_class)
                          : store.latest_cost_model(argument.at(0))));
  // From here on it is the searcher's own job that is asked about, whichever it names.
  if (what == "tasks") return answer(list(store.job_tasks(job)));
  if (what == "progress") {
    const db::JobProgress progress = store.job_progress(job);
    return answer({progress.states, progress.outcomes});
  }
  if (what == "cost_model") return answer(to(store.cost_model_of(job)));
  if (what == "candidates") {
    const auto [some, last] =
        store.candidates_after(job, argument.at(0), argument.at(1), argument.at(2), kPageBytes);
    return answer({list(some), last});
  }
  if (what == "confirmations") {
    json counts = json::array();
    for (const auto& [candidate, count] : store.confirmations(job))
      counts.push_back({candidate.first, candidate.second, count.ranked, count.told});
    return answer(std::move(counts));
  }
  if (what == "trial_end") return answer(to(store.trial_end(job, argument.at(0), kind)));
  fail("a searcher asks for `{}`, which is unknown", what);
}

std::optional<db::TargetId> RemoteReader::find_target(const std::string& name) {
  return maybe<db::TargetId>(ask("target", {name}));
}

std::optional<db::WorkloadId> RemoteReader::find_workload(const std::string& digest) {
  return maybe<db::WorkloadId>(ask("workload_id", {digest}));
}

db::Workload RemoteReader::workload(db::WorkloadId id) {
  const json value = ask("workload", {id});
  return {value.at(0), value.at(1), value.at(2), value.at(3)};
}

std::vector<db::WorkloadId> RemoteReader::measured_workloads(db::TargetId target) {
  return ask("measured_workloads", {target});
}

std::optional<db::Best> RemoteReader::best(const db::BestQuery& query) {
  const json value = ask("best", json::array({to(query)}));
  if (value.is_null()) return std::nullopt;
  return db::Best{measurement_of(value.at(0)), static_cast<db::Rung>(value.at(1).get<int>())};
}

std::vector<db::Measurement> RemoteReader::top(const db::BestQuery& query, int limit) {
  return measurements_of(ask("top", {to(query), limit}));
}

std::vector<db::Measurement> RemoteReader::top_suspect(const db::BestQuery& query, int limit) {
  return measurements_of(ask("top_suspect", {to(query), limit}));
}

std::vector<db::Measurement> RemoteReader::history(db::WorkloadId workload, db::TargetId target, int limit) {
  const std::vector<db::MeasurementId> all = ask("history", {workload, target, limit});
  std::vector<db::Measurement> found;
  for (std::span<const db::MeasurementId> left(all); !left.empty();) {
    const auto some = left.first(std::min(left.size(), kPageRows));
    std::vector<db::Measurement> page = measurements_of(ask("measurements", {workload, target, some}));
    // The others of them do not count any more.
    if (page.empty()) {
      left = left.subspan(some.size());
      continue;
    }
    left = left.subspan(std::upper_bound(left.begin(), left.end(), page.back().id) - left.begin());
    std::move(page.begin(), page.end(), std::back_inserter(found));
  }
  return found;
}

std::optional<db::Measurement> RemoteReader::measurement(db::WorkloadId workload, db::TargetId target,
                                                         db::MeasurementId id) {
  std::vector<db::Measurement> found =
      measurements_of(ask("measurements", {workload, target, json::array({id})}));
  return found.empty() ? std::optional<db::Measurement>() : std::move(found.front());
}

std::vector<db::Measurement> RemoteReader::measured(db::WorkloadId workload, db::TargetId target,
                                                    const std::string& program) {
  return measurements_of(ask("measured", {workload, target, program}));
}

std::optional<db::Choice> RemoteReader::find_choice(const db::ChoiceKey& key) {
  const json value = ask("choice", json::array({to(key)}));
  return value.is_null() ? std::optional<db::Choice>() : choice_of(value);
}

std::optional<db::Measurement> RemoteReader::chosen(const db::Choice& choice, const db::BestQuery& query) {
  const json value = ask("chosen", {to(choice), to(query)});
  return value.is_null() ? std::optional<db::Measurement>() : measurement_of(value);
}

std::optional<db::CostModelRecord> RemoteReader::latest_cost_model(db::TargetId target) {
  return cost_model_of_json(ask("latest_cost_model", {target}));
}

std::vector<db::JobTask> RemoteReader::job_tasks(db::JobId) {
  std::vector<db::JobTask> tasks;
  for (const json& value : ask("tasks", json::array()))
    tasks.push_back({.workload = value.at(0),
                     .weight = value.at(1),
                     .trials = value.at(2),
                     .round = value.at(3),
                     .best_seconds = maybe<double>(value.at(4)),
                     .checkpoint = value.at(5)});
  return tasks;
}

db::JobProgress RemoteReader::job_progress(db::JobId) {
  const json value = ask("progress", json::array());
  db::JobProgress progress;
  value.at(0).get_to(progress.states);
  value.at(1).get_to(progress.outcomes);
  return progress;
}

std::optional<db::CostModelRecord> RemoteReader::cost_model_of(db::JobId) {
  return cost_model_of_json(ask("cost_model", json::array()));
}

std::vector<db::KnownCandidate> RemoteReader::candidates(db::JobId, db::WorkloadId workload,
                                                         db::TargetId target) {
  std::vector<db::KnownCandidate> known;
  for (db::CandidateId after = 0;;) {
    const json page = ask("candidates", {workload, target, after});
    if (page.at(0).empty()) return known;
    for (const json& value : page.at(0)) known.push_back({value.at(0), value.at(1), value.at(2)});
    after = page.at(1);
  }
}

std::map<std::pair<db::WorkloadId, std::string>, db::MeasuredAgain> RemoteReader::confirmations(db::JobId) {
  std::map<std::pair<db::WorkloadId, std::string>, db::MeasuredAgain> counts;
  for (const json& value : ask("confirmations", json::array()))
    counts[{value.at(0).get<db::WorkloadId>(), value.at(1).get<std::string>()}] = {value.at(2), value.at(3)};
  return counts;
}

std::optional<db::TrialEnd> RemoteReader::trial_end(db::JobId, db::TrialId trial) {
  const json value = ask("trial_end", {trial});
  if (value.is_null()) return std::nullopt;
  db::TrialEnd end{.state = static_cast<db::TrialState>(value.at(0).get<int>()),
                   .error = value.at(2),
                   .samples = value.at(3).get<std::vector<float>>()};
  if (!value.at(1).is_null()) end.outcome = parse_outcome(value.at(1).get<std::string>());
  return end;
}

}  // namespace lathe::tracker
