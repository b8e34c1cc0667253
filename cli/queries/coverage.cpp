// How much of a model is tuned, and whether its kernels' times explain its own.
#include <algorithm>
#include <cmath>

#include "cli/queries/question.h"
#include "core/support/signed_rank.h"

namespace lathe::cli {
namespace {

constexpr double kConfidence = 0.95;

struct Interval {
  double seconds = 0, low = 0, high = 0;
};

/// Of what a best record is said to take; as wide as its samples where there are too few for the confidence.
Interval interval_of(db::Store& store, const db::Measurement& measurement) {
  const std::vector<float> samples = store.told_samples(measurement.id);
  const std::vector<double> values(samples.begin(), samples.end());
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const Location location = hodges_lehmann(values, kConfidence);
  const double seconds = measurement.told_seconds;
  return {seconds, std::min(std::max(location.low, *least), seconds),
          std::max(std::min(location.high, *most), seconds)};
}

struct Estimate {
  int64_t tasks = 0, tuned = 0;
  double tuned_flops = 0, other_flops = 0;  // of one run of the model
  Interval model;                           // of the tuned tasks alone

  /// By time: what is not measured counts as if it were as fast as what is.
  double share() const {
    const double all = tuned_flops + other_flops;
    return all > 0     ? tuned_flops / all
           : tasks > 0 ? static_cast<double>(tuned) / static_cast<double>(tasks)
                       : 0;
  }
};

/// The sum over the tasks, whose errors are independent: half widths add up as squares do.
Estimate estimate(db::Store& store, std::span<const db::Coverage> tasks) {
  Estimate result;
  double below = 0, above = 0;
  for (const db::Coverage& task : tasks) {
    const auto calls = static_cast<double>(task.task.calls);
    ++result.tasks;
    (task.best ? result.tuned_flops : result.other_flops) += calls * task.flops;
    if (!task.best) continue;
    ++result.tuned;
    const Interval interval = interval_of(store, task.best->measurement);
    result.model.seconds += calls * interval.seconds;
    below += std::pow(calls * (interval.seconds - interval.low), 2);
    above += std::pow(calls * (interval.high - interval.seconds), 2);
  }
  result.model.low = result.model.seconds - std::sqrt(below);
  result.model.high = result.model.seconds + std::sqrt(above);
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
  if (known.tuned > 0)
    for (double seconds : {known.model.seconds, known.model.low, known.model.high})
      row.push_back(milliseconds(seconds));
  else
    row.insert(row.end(), {nullptr, nullptr, nullptr});
  if (const auto measured = store.find_model_latency(store.model_digest(model), query.target, query.threads))
    row.insert(row.end(), {milliseconds(measured->seconds), milliseconds(measured->low),
                           milliseconds(measured->high), time_text(measured->recorded_ms)});
  else
    row.insert(row.end(), {nullptr, nullptr, nullptr, nullptr});
  answer.rows.push_back(std::move(row));
  return answer;
}

}  // namespace lathe::cli
