// The best known schedule of each task of a model, and those far below their limits.
#include <algorithm>
#include <cmath>

#include "cli/queries/question.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/tir/roofline.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "tuner/nearest_shape.h"
#include "tuner/shortfall.h"
#include "tuner/tasks.h"
#include "workers/device.h"

namespace lathe::cli {
namespace {

/// What limits the task on the device and the threads of its best measurement; nothing where the device has
/// told nothing of itself.
std::optional<Roofline> limit_of(db::Store& store, const db::Coverage& task, const Target& target) {
  const db::Measurement& measurement = task.best->measurement;
  const auto limits = worker::limits_of(store.device(measurement.device).details, measurement.threads);
  if (!limits) return std::nullopt;
  const db::Workload workload = store.workload(task.task.workload);
  double products = 1;
  try {
    products = tuner::product_rate(tir::parse_func(workload.text), target);
  } catch (const Error&) {  // of a version whose programs no longer parse
  }
  return roofline(task.flops / products, workload.bytes, *limits);
}

/// The limit that binds and the share of it achieved.
std::vector<nlohmann::json> achieved(db::Store& store, const db::Coverage& task, const Target& target) {
  const std::optional<Roofline> limit = limit_of(store, task, target);
  if (!limit) return {nullptr, nullptr};
  return {limit->name(), thousandths(limit->share(task.best->measurement.told_seconds))};
}

std::vector<nlohmann::json> best_row(db::Store& store, const db::Coverage& task, const Target& target) {
  const db::Measurement& measurement = task.best->measurement;
  std::vector<nlohmann::json> row{microseconds(measurement.told_seconds),
                                  std::round(task.flops / measurement.told_seconds / 1e7) / 1e2};
  for (nlohmann::json& cell : achieved(store, task, target)) row.push_back(std::move(cell));
  row.insert(row.end(),
             {task.measured, measurement.confirmed, measurement.confirmed_elsewhere,
              std::string(db::to_string(task.best->rung)), time_text(measurement.recorded_ms), nullptr});
  return row;
}

/// The last rung is for information and for a search to start from: its time is another task's.
std::vector<nlohmann::json> nearest_row(const db::Coverage& task,
                                        const std::optional<tuner::NearestShape>& nearest) {
  std::vector<nlohmann::json> row{nullptr, nullptr, nullptr, nullptr, task.measured, nullptr, nullptr};
  if (!nearest) {
    row.insert(row.end(), {nullptr, nullptr, nullptr});
    return row;
  }
  row.insert(row.end(),
             {nearest->applies ? "nearest shape, whose schedule applies"
                               : "nearest shape, whose schedule does not apply",
              time_text(nearest->measurement.recorded_ms), microseconds(nearest->measurement.told_seconds)});
  return row;
}

/// What is measured by the best record of each task, against the roofline of its device.
struct Standing {
  const db::Coverage* task;
  Roofline limit;
  double model_share = 0;
};

std::vector<Standing> standings(db::Store& store, std::span<const db::Coverage> tasks, const Target& target) {
  std::vector<Standing> result;
  double model = 0;
  for (const db::Coverage& task : tasks) {
    if (!task.best) continue;
    const std::optional<Roofline> limit = limit_of(store, task, target);
    if (!limit) continue;
    result.push_back({&task, *limit});
    result.back().model_share = static_cast<double>(task.task.calls) * task.best->measurement.told_seconds;
    model += result.back().model_share;
  }
  for (Standing& standing : result) standing.model_share /= model;
  std::stable_sort(result.begin(), result.end(),
                   [](const Standing& a, const Standing& b) { return a.model_share > b.model_share; });
  return result;
}

/// "" when the record is of a version whose schedules no longer apply.
std::string why_below(db::Store& store, const db::Coverage& task) {
  const db::Measurement& measurement = task.best->measurement;
  try {
    tir::Func workload = tir::parse_func(store.workload(task.task.workload).text);
    return tuner::shortfall_text(schedule::replay(schedule::parse_trace(measurement.trace), workload),
                                 measurement.told_seconds, {.trials = task.measured});
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Answer answer_best(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  db::BestQuery query = query_for(store, question);
  const Target target = codegen::resolve_target(question.target);
  Answer answer{{"task", "calls", "us", "gflops", "limit", "share", "measured", "confirmed", "elsewhere",
                 "from", "recorded", "nearest_us"},
                {},
                false};
  for (const db::Coverage& task : store.coverage(model, query)) {
    std::vector<nlohmann::json> row{task.task.name, task.task.calls};
    std::vector<nlohmann::json> rest;
    if (task.best) {
      rest = best_row(store, task, target);
    } else {
      query.workload = task.task.workload;
      rest = nearest_row(task, question.strict ? std::nullopt : tuner::nearest_shape(store, query));
    }
    row.insert(row.end(), rest.begin(), rest.end());
    answer.found |= task.best.has_value();
    answer.rows.push_back(std::move(row));
  }
  return answer;
}

Answer answer_below_limit(db::Store& store, const Question& question) {
  db::ModelId model = required_model(store, question);
  Answer answer{{"task", "calls", "us", "model_share", "limit", "share", "measured", "why"}, {}, false};
  const std::vector<db::Coverage> tasks = store.coverage(model, query_for(store, question));
  for (const Standing& standing : standings(store, tasks, codegen::resolve_target(question.target))) {
    answer.found = true;
    const db::Measurement& measurement = standing.task->best->measurement;
    double share = standing.limit.share(measurement.told_seconds);
    if (share >= tuner::kFarBelow) continue;
    answer.rows.push_back({standing.task->task.name, standing.task->task.calls,
                           microseconds(measurement.told_seconds), thousandths(standing.model_share),
                           standing.limit.name(), thousandths(share), standing.task->measured,
                           why_below(store, *standing.task)});
  }
  return answer;
}

}  // namespace lathe::cli
