#include "tuner/whole_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/program/stretches.h"
#include "core/support/error.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/primitive.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/final_build.h"
#include "tuner/model_race.h"

namespace lathe::tuner {
namespace {

constexpr int kRecords = 300;  // looked at for each task
constexpr size_t kMostAlternatives = 4;
constexpr double kNearAlgorithm = 1.4, kNearStructure = 1.1,
                 kNear = 1.05;  // times the best's time

/// What tells algorithms of one operator apart: its name with its sizes; "" for the direct one.
std::string algorithm_of(const schedule::Trace& trace) {
  // Which step gave each handle: an algorithm's sizes are sampled numbers, and the decisions behind them tell
  // them apart.
  std::map<int, const schedule::Step*> sampled_by;
  std::string text;
  for (const schedule::Step& step : trace.steps) {
    for (const schedule::Output& output : step.outputs)
      if (const auto* number = std::get_if<schedule::IntHandle>(&output)) sampled_by[number->id] = &step;
    if (!step.primitive->is_algorithm) continue;
    text += step.primitive->name;
    for (const schedule::Input& input : step.inputs)
      if (const auto* number = std::get_if<schedule::IntHandle>(&input))
        text += fmt::format(" {}", fmt::join(sampled_by.at(number->id)->decision, " "));
  }
  return text;
}

/// The names of the steps: schedules of one structure differ in sampled numbers alone.
std::string structure_of(const schedule::Trace& trace) {
  std::string text;
  for (const schedule::Step& step : trace.steps) text += fmt::format("{} ", step.primitive->name);
  return text;
}

/// Of what the main part reads in each run: constants as they are, and what a prologue made of others.
double constant_bytes(const tir::Func& scheduled) {
  tir::SplitProgram parts = tir::split_prologue(scheduled);
  double bytes = 0;
  for (size_t i = 0; i < parts.main_params.size(); ++i)
    if (parts.main_params[i].from_prologue || tir::is_constant_param(scheduled, parts.main_params[i].number))
      bytes += static_cast<double>(tir::byte_size(parts.main->params[i]));
  return bytes;
}

/// Takes records, the best first.
class Collector {
 public:
  Collector(const tir::Func& workload, double best_seconds)
      : workload_(workload), best_seconds_(best_seconds) {}

  /// Adds the record when it is near the best and `kind` of its trace is new.
  void offer(const db::Measurement& record, std::string (*kind)(const schedule::Trace&), double near) {
    // Each alternative adds races: with four, a model of 30 tasks has some hundred exchanges to consider.
    if (list_.size() >= kMostAlternatives || record.seconds > near * best_seconds_) return;
    try {
      schedule::Trace trace = schedule::parse_trace(record.trace);
      if (kinds_.contains(kind(trace))) return;
      tir::Func scheduled = schedule::replay(trace, workload_);
      // All three kinds of each that is kept, so that a later round with a finer kind does not take the same
      // record again.
      kinds_.insert(algorithm_of(trace));
      kinds_.insert(structure_of(trace));
      kinds_.insert(schedule::to_json(trace));
      list_.push_back({record.id, scheduled, constant_bytes(scheduled)});
    } catch (const Error&) {  // of another version
    }
  }

  std::vector<Alternative> take() { return std::move(list_); }

 private:
  const tir::Func& workload_;
  double best_seconds_;
  std::set<std::string> kinds_;
  std::vector<Alternative> list_;
};

/// What an earlier choice has for the tasks, or the best, as a combination.
Combination earlier(db::Reader& store, const db::Choice& choice, const db::BestQuery& base,
                    std::span<const db::WorkloadId> workloads, std::span<Alternatives> tasks) {
  Combination combination;
  for (size_t i = 0; i < tasks.size(); ++i) {
    combination.push_back(tasks[i].best);
    db::BestQuery query = base;
    query.workload = workloads[i];
    auto chosen = store.chosen(choice, query);
    for (size_t a = 0; chosen && a < tasks[i].list.size(); ++a)
      if (tasks[i].list[a].measurement == chosen->id) combination.back() = a;
  }
  return combination;
}

}  // namespace

Alternatives find_alternatives(db::Reader& store, const db::BestQuery& query, const tir::Func& workload,
                               const Target& target) {
  std::optional<db::Best> best = query.workload ? store.best(query) : std::nullopt;
  Alternatives found;
  if (best) {
    Collector collector(workload, best->measurement.seconds);
    std::vector<db::Measurement> records = store.top(query, kRecords);
    collector.offer(best->measurement, algorithm_of, kNearAlgorithm);
    // From the coarsest difference to the finest: places are few, and another algorithm is the most likely to
    // behave otherwise inside a model.
    for (const db::Measurement& record : records) collector.offer(record, algorithm_of, kNearAlgorithm);
    for (const db::Measurement& record : records) collector.offer(record, structure_of, kNearStructure);
    for (const db::Measurement& record : records) collector.offer(record, schedule::to_json, kNear);
    found.list = collector.take();
  }
  // Without the best first in the list the times of the others mean nothing: it no longer replays, and the
  // task is taken as untuned.
  bool applies = best && !found.list.empty() && found.list[0].measurement == best->measurement.id;
  if (!applies)
    found.list = {{std::nullopt, schedule::replay(schedule::default_trace(workload, target), workload)}};
  std::optional<db::MeasurementId> first = found.list[0].measurement;
  std::stable_sort(found.list.begin(), found.list.end(), [](const Alternative& a, const Alternative& b) {
    return a.constant_bytes < b.constant_bytes;
  });
  // Where sorting put what was first.
  while (found.list[found.best].measurement != first) ++found.best;
  return found;
}

WholeModelResult choose_whole_model(const relay::Module& fused, const Target& target, db::Store& store,
                                    const db::ChoiceKey& key, const ChoiceLimits& limits) {
  ModelBuilder builder(fused, target);
  const db::BestQuery base{.target = key.target,
                           .threads = key.threads,
                           .accept_unconfirmed = true,
                           .max_relative_error = key.max_relative_error};
  std::vector<db::WorkloadId> workloads;
  std::vector<Alternatives> tasks;
  std::vector<size_t> counts;
  Combination best;
  std::vector<std::vector<tir::Func>> scheduled(builder.size());
  for (size_t i = 0; i < builder.size(); ++i) {
    db::BestQuery query = base;
    query.workload = store.find_workload(tir::workload_digest(builder.workload(i))).value_or(0);
    workloads.push_back(query.workload);
    tasks.push_back(find_alternatives(store, query, builder.workload(i), target));
    counts.push_back(tasks[i].list.size());
    best.push_back(tasks[i].best);
    for (const Alternative& alternative : tasks[i].list) scheduled[i].push_back(alternative.scheduled);
  }
  WholeModelResult result{.tasks = static_cast<int>(tasks.size())};
  // Only its host can run a model that calls library functions.
  if (program::calls_library(fused)) return result;
  if (std::all_of(counts.begin(), counts.end(), [](size_t count) { return count == 1; })) return result;
  std::vector<Combination> proposals;
  if (auto choice = store.find_choice(key))
    proposals.push_back(earlier(store, *choice, base, workloads, tasks));

  ModelRace race(builder, std::move(scheduled), best, key.threads);
  Chosen chosen = choose_combination(counts, best, proposals, race, limits);
  result.challengers = chosen.challengers;
  result.before = chosen.before;
  result.after = chosen.after;
  if (chosen.challengers == 0) return result;
  db::Choice choice{.key = key, .seconds_before = chosen.before, .seconds_after = chosen.after};
  for (size_t i = 0; i < tasks.size(); ++i)
    if (chosen.combination[i] != best[i])
      // Only a task with a record has alternatives, so what differs from the best is a measurement.
      choice.tasks.push_back({workloads[i], *tasks[i].list[chosen.combination[i]].measurement});
  result.exchanged = static_cast<int>(choice.tasks.size());
  store.set_choice(choice);
  return result;
}

}  // namespace lathe::tuner
