// How much of a model is tuned, and whether its kernels' times explain its own.
#include <cmath>
#include <optional>
#include <vector>

#include "cli/queries/question.h"
#include "core/support/process_spread.h"

namespace lathe::cli {
namespace {

constexpr double kConfidence = 0.95;

struct Estimate {
  int64_t tasks = 0, tuned = 0;
  double tuned_flops = 0, other_flops = 0;  // of one run of the model
  double seconds = 0;                       // of the tuned tasks alone
  std::optional<TimeInterval> interval;     // none: nothing was measured twice

  /// By time: what is not measured counts as if it were as fast as what is.
  double share() const {
    const double all = tuned_flops + other_flops;
    return all > 0     ? tuned_flops / all
           : tasks > 0 ? static_cast<double>(tuned) / static_cast<double>(tasks)
                       : 0;
  }
};

/// By what different processes took for the same: samples of one have much in common.
Estimate estimate(db::Store& store, std::span<const db::Coverage> tasks) {
  Estimate result;
  std::vector<TimedTerm> terms;
  for (const db::Coverage& task : tasks) {
    const auto calls = static_cast<double>(task.task.calls);
    ++result.tasks;
    (task.best ? result.tuned_flops : result.other_flops) += calls * task.flops;
    if (!task.best) continue;
    ++result.tuned;
    const db::Measurement& best = task.best->measurement;
    terms.push_back(
        {calls * best.told_seconds, store.told_medians(best.id).size(), store.process_spread(best)});
    result.seconds += terms.back().seconds;
  }
  result.interval = interval_of_sum(terms, kConfidence);
  return result;
}

nlohmann::json milliseconds(double seconds) { return std::round(seconds * 1e7) / 1e4; }

}  // namespace

Answer answer_coverage(db::Store& store, const Question& question) {
  const db::ModelId model = required_model(store, question);
  const db::BestQuery query = query_for(store, question);
  const Estimate known = estimate(store, store.coverage(model, query));
  Answer answer{{"tasks", "tuned", "time_share", "estimated_ms", "estimated_low", "estimated_high",
                 "measured_ms", "measured_low", "measured_high", "measured"},
                {},
                known.tuned > 0};
  std::vector<nlohmann::json> row{known.tasks, known.tuned, thousandths(known.share())};
  row.push_back(known.tuned > 0 ? milliseconds(known.seconds) : nullptr);
  if (known.interval)
    row.insert(row.end(), {milliseconds(known.interval->low), milliseconds(known.interval->high)});
  else
    row.insert(row.end(), {nullptr, nullptr});
  if (const auto measured = store.find_model_latency(store.model_digest(model), query.target, query.threads))
    row.insert(row.end(), {milliseconds(measured->seconds), milliseconds(measured->low),
                           milliseconds(measured->high), time_text(measured->recorded_ms)});
  else
    row.insert(row.end(), {nullptr, nullptr, nullptr, nullptr});
  answer.rows.push_back(std::move(row));
  return answer;
}

}  // namespace lathe::cli
