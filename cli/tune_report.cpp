#include "cli/tune_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/told_json.h"
#include "core/support/bounded_json.h"
#include "schedules/schedule.h"
#include "tracker/search_link.h"
#include "tuner/shortfall.h"

namespace lathe::cli {
namespace {
constexpr double kNoisy = 0.2;  // disturbed samples: what was found is worth less
constexpr double kMost = 0.95;  // of the final speed: when it was reached is reported

constexpr size_t kMostRows = 12;  // of the tasks far below their limits

struct Row {
  const tuner::Task& task;
  const tuner::TaskState& state;
  double after = 0;        // seconds
  double error = 0;        // relative, of the outputs
  bool confirmed = false;  // by another measurement
  bool elsewhere = false;  // and that another worker's
  double model_share = 0;  // of the kernels' time in one run of the model
  std::string why;         // it is far below its limit; "" when it is not
  Roofline limit;
  double gflops() const { return after > 0 ? task.flops / after / 1e9 : 0; }
};

template <typename... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

nlohmann::json failures_by_kind(const tuner::TaskState& state) {
  nlohmann::json failures = nlohmann::json::object();
  for (size_t kind = 1; kind < state.outcomes.size(); ++kind)
    if (state.outcomes[kind] > 0) failures[std::string(kOutcomeNames[kind])] = state.outcomes[kind];
  return failures;
}

void add_table(std::string& out, std::span<const Row> rows) {
  append(out, "\n{:<40} {:>4} {:>10} {:>10} {:>6} {:>8} {:>7} {:>6} {:>7} {:>6}  {}\n", "task", "uses",
         "before", "after", "gain", "GFLOP/s", "limit", "share", "error", "trials", "failures");
  for (const Row& row : rows) {
    double gain = row.after > 0 ? row.state.default_seconds / row.after : 0;
    std::string failures;
    const nlohmann::json kinds = failures_by_kind(row.state);
    for (const auto& [kind, count] : kinds.items())
      failures += fmt::format("{} {} ", count.get<int64_t>(), kind);
    append(out, "{:<40} {:>4} {:>10} {:>10} {:>6} {:>8.1f} {:>7} {:>5.0f}% {:>7.0e} {:>6}  {}\n",
           in_column(row.task.name, 40), row.task.calls, duration_text(row.state.default_seconds),
           duration_text(row.after), gain > 0 ? fmt::format("{:.2f}x", gain) : "-", row.gflops(),
           row.limit.name(), 100 * row.limit.share(row.after), row.error, row.state.trials, failures);
  }
}

/// A share may pass 100%: an algorithm of fewer operations (Winograd's) is held to the limit of the direct
/// one, so that shares of one task can be compared.
void add_limits(std::string& out, const MachineLimits& limits, int threads) {
  append(out,
         "\nmachine's measured limits on {} thread{}: {:.1f} GFLOP/s, {:.1f} GB/s from memory\n"
         "share: the least time these allow the direct algorithm, over the time taken "
         "(docs/reading-a-report.md)\n",
         threads, threads == 1 ? "" : "s", limits.flops / 1e9, limits.bandwidth / 1e9);
}

/// Those far below their limits, the most of the model's time first.
std::vector<const Row*> rows_below(std::span<const Row> rows) {
  std::vector<const Row*> below;
  for (const Row& row : rows)
    if (!row.why.empty()) below.push_back(&row);
  std::stable_sort(below.begin(), below.end(),
                   [](const Row* a, const Row* b) { return a->model_share > b->model_share; });
  return below;
}

double model_share(std::span<const Row* const> rows) {
  double share = 0;
  for (const Row* row : rows) share += row->model_share;
  return share;
}

/// Tasks that have no measurement at all: nothing is known about their speed.
void add_unmeasured(std::string& out, std::span<const Row> rows) {
  std::vector<const Row*> unmeasured;
  for (const Row& row : rows)
    if (row.state.trials > 0 && row.after <= 0) unmeasured.push_back(&row);
  if (unmeasured.empty()) return;
  append(out,
         "{} of {} tasks could not be measured, all their candidates failed; their default schedules stay:\n",
         unmeasured.size(), rows.size());
  for (const Row* row : std::span(unmeasured).first(std::min(unmeasured.size(), kMostRows)))
    append(out, "  {}\n", in_column(row->task.name, 40));
  if (unmeasured.size() > kMostRows) append(out, "  and {} more\n", unmeasured.size() - kMostRows);
}

/// Bests that rest on one measurement: who is best after one was in part lucky.
void add_unconfirmed(std::string& out, std::span<const Row> rows) {
  const auto count =
      std::count_if(rows.begin(), rows.end(), [](const Row& row) { return row.after > 0 && !row.confirmed; });
  if (count > 0)
    append(out, "{} of {} bests are unconfirmed: they were measured once, and not again\n", count,
           rows.size());
}

void add_below(std::string& out, std::span<const Row> rows) {
  const std::vector<const Row*> below = rows_below(rows);
  if (below.empty()) {
    append(out, "no task is below {:.0f}% of its own limit\n", 100 * tuner::kFarBelow);
    return;
  }
  append(out, "{} of {} tasks, {:.1f}% of the kernels' time, are below {:.0f}% of their own limits:\n",
         below.size(), rows.size(), 100 * model_share(below), 100 * tuner::kFarBelow);
  for (const Row* row : std::span(below).first(std::min(below.size(), kMostRows)))
    append(out, "  {:<40} {:>5.1f}% of the time, {:>3.0f}% of {}: {}\n", in_column(row->task.name, 40),
           100 * row->model_share, 100 * row->limit.share(row->after), row->limit.name(), row->why);
  if (below.size() > kMostRows) append(out, "  and {} more\n", below.size() - kMostRows);
}

struct Report {
  const TuneJob& job;
  const TuneOutcome& outcome;
  std::vector<Row> rows;
};

constexpr const char* kEndings[] = {"budget spent",      "stopped",         "target reached",
                                    "no candidate left", "nothing to gain", "devices gone"};  // by Ending

/// All that was asked for came but some of the trials.
bool is_short_of_trials(const tuner::SessionStatus& status) {
  return status.ending == tuner::Ending::kBudget && status.budget > 0 && status.trials < status.budget;
}

const char* ended_by(const tuner::SessionStatus& status) {
  return is_short_of_trials(status) ? "time spent" : kEndings[static_cast<size_t>(status.ending)];
}

/// Why the search ended before its budget did, as a line; nothing when it did not.
std::string ending_text(const Report& report) {
  const tuner::SessionStatus& status = report.outcome.search.status;
  switch (status.ending) {
    case tuner::Ending::kTarget:
      return fmt::format("ended early: the kernels together take {}, the target is {}\n",
                         duration_text(status.model_seconds), duration_text(report.job.target_ms * 1e-3));
    case tuner::Ending::kExhausted:
      return "ended early: no task has a candidate left\n";
    case tuner::Ending::kNoGain:
      return "ended early: no further round was expected to gain 0.01% of the model's time\n";
    case tuner::Ending::kGivenUp:
      return fmt::format("ended early: its devices have gone, after {}{} trials\n", status.trials,
                         status.budget > 0 ? fmt::format(" of {}", status.budget) : "");
    case tuner::Ending::kStopped:  // which is said where it was asked for
      return "";
    case tuner::Ending::kBudget:
      if (!is_short_of_trials(status)) return "";
      return fmt::format(
          "ended early: its time was over after {} of {} trials, or no device came for the rest\n",
          status.trials, status.budget);
  }
  return "";
}

/// What became of the target, as a line: the model itself counts.
std::string target_text(const Report& report) {
  const double target = report.job.target_ms * 1e-3, model = report.outcome.shipment.seconds();
  if (target <= 0) return "";
  if (model <= 0) return fmt::format("target {}: the model was not timed\n", duration_text(target));
  return fmt::format("target {}: the model takes {}, {}\n", duration_text(target), duration_text(model),
                     model <= target ? "which meets it" : "which misses it");
}

/// A line, or nothing when no worker watched.
std::string disturbance_text(const tracker::JobDisturbance& seen) {
  if (seen.taken == 0) return "";
  if (seen.disturbed == 0) return "no sample was disturbed by other programs\n";
  return fmt::format(
      "{:.1f}% of the samples were disturbed by other programs and taken again; canary {:.2f} x at worst{}\n",
      100 * seen.share(), seen.canary,
      seen.share() > kNoisy ? "\nthis machine was busy: tune again on a quiet one for better schedules" : "");
}

std::string text_of(const Report& report) {
  std::string out;
  const auto& [search, choice, shipment, limits, families] = report.outcome;
  const tuner::SessionStatus& status = search.status;
  add_table(out, report.rows);
  add_limits(out, limits, static_cast<int>(report.job.threads));
  add_unmeasured(out, report.rows);
  add_unconfirmed(out, report.rows);
  add_below(out, report.rows);
  if (status.quality.samples > 0)
    append(out,
           "cost model on held-out candidates: rank correlation {:.2f}, recall of the fastest fifth {:.2f}\n",
           status.quality.spearman, status.quality.recall);
  append(out, "{} trials in {:.1f} s ({:.1f}/s)\n", status.trials, status.seconds,
         status.seconds > 0 ? static_cast<double>(status.trials) / status.seconds : 0);
  append(out, "{}{}", ending_text(report), disturbance_text(search.disturbance));
  if (auto most = tuner::reached(search.milestones, kMost))
    append(out, "{:.0f}% of the speed found after {} trials, {:.1f} s\n", 100 * kMost, most->trials,
           most->seconds);
  if (choice.challengers > 0)
    append(out, "whole model: {} of {} tasks exchanged, {} -> {} ({} exchanges tried)\n", choice.exchanged,
           choice.tasks, duration_text(choice.before), duration_text(choice.after), choice.challengers);
  append(out, "{}{}{}", families_text(families), shipment_text(shipment), target_text(report));
  if (shipment.rounding_error > 0)
    append(out, "large constants are kept in half precision: outputs are off by {:.1e} of the largest\n",
           shipment.rounding_error);
  if (!report.job.served)
    append(out, "module:  {}\nrecords: {} (job {})\n", shipment.module, report.job.database, search.uuid);
  return out;
}

nlohmann::json task_json(const Row& row, const MachineLimits& limits) {
  return {{"name", row.task.name},
          {"weight", row.task.calls},
          {"before_us", row.state.default_seconds * 1e6},
          {"after_us", row.after * 1e6},
          {"confirmed", row.confirmed},
          {"confirmed_elsewhere", row.elsewhere},
          {"gflops", row.gflops()},
          {"peak_share", row.gflops() * 1e9 / limits.flops},
          {"limit", row.limit.name()},
          {"limit_us", row.limit.seconds * 1e6},
          {"limit_share", row.limit.share(row.after)},
          {"model_share", row.model_share},
          {"why_below_limit", row.why},
          {"relative_error", row.error},
          {"trials", row.state.trials},
          {"failures", failures_by_kind(row.state)}};
}

/// The interval has no ends (null) where there were too few turns for one.
nlohmann::json race_json(const Shipment& shipment) {
  constexpr const char* kVerdicts[] = {"tuned is faster", "untuned is faster", "equal",
                                       "undecided"};  // by RaceVerdict
  const RaceResult& race = shipment.race;
  return {{"shipped", shipment.tuned ? "tuned" : "untuned"},
          {"verdict", kVerdicts[static_cast<size_t>(race.verdict)]},
          {"untuned_ms", race.incumbent * 1e3},
          {"tuned_ms", race.challenger * 1e3},
          {"ratio", race.ratio},
          {"low", race.low},
          {"high", race.high},
          {"pairs", race.turns}};
}

/// Seconds of one run; 0 where a task was not measured.
double kernels_together(std::span<const Row> rows) {
  double sum = 0;
  for (const Row& row : rows) {
    if (row.after <= 0) return 0;
    sum += row.task.weight() * row.after;
  }
  return sum;
}

std::string json_of(const Report& report) {
  const auto& [search, choice, shipment, limits, families] = report.outcome;
  nlohmann::json tasks = nlohmann::json::array();
  for (const Row& row : report.rows) tasks.push_back(task_json(row, limits));
  // Where the model was not raced, its kernels together, as they were measured again in the end.
  const double before = shipment.raced ? shipment.race.incumbent : search.status.default_model_seconds;
  const double after = shipment.raced ? shipment.seconds() : kernels_together(report.rows);
  nlohmann::json object = {{"model", report.job.model},
                           {"target", report.job.target},
                           {"threads", report.job.threads},
                           {"trials", search.status.trials},
                           {"seconds", search.status.seconds},
                           {"ended", ended_by(search.status)},
                           {"before_ms", before * 1e3},
                           {"after_ms", after * 1e3},
                           {"race", shipment.raced ? race_json(shipment) : nlohmann::json()},
                           {"disturbance",
                            {{"samples", search.disturbance.taken},
                             {"disturbed", search.disturbance.disturbed},
                             {"share", search.disturbance.share()},
                             {"canary", search.disturbance.canary}}},
                           {"rounding_error", shipment.rounding_error},
                           {"tasks", tasks},
                           {"share_far_below_limit", model_share(rows_below(report.rows))},
                           {"peak_gflops", limits.flops / 1e9},
                           {"memory_gbps", limits.bandwidth / 1e9},
                           {"rank_correlation", search.status.quality.spearman},
                           {"job", search.uuid}};
  if (!families.empty()) object["families"] = families_json(families);
  for (const auto& [size, weight, race] : shipment.sizes)
    object["sizes"].push_back({{"size", size},
                               {"weight", weight},
                               {"untuned_ms", race.incumbent * 1e3},
                               {"tuned_ms", race.challenger * 1e3},
                               {"ratio", race.ratio},
                               {"low", race.low},
                               {"high", race.high}});
  if (!report.job.served) {
    object["module"] = shipment.module;
    object["database"] = report.job.database;
  }
  if (!shipment.why_not_raced.empty()) object["not_raced"] = shipment.why_not_raced;
  if (auto most = tuner::reached(search.milestones, kMost)) {
    object["trials_to_95"] = most->trials;
    object["seconds_to_95"] = most->seconds;
  }
  if (report.job.target_ms > 0)
    object["target_latency"] = {
        {"ms", report.job.target_ms},
        {"kernels_ms", search.status.model_seconds * 1e3},
        {"met", shipment.seconds() > 0 ? nlohmann::json(shipment.seconds() * 1e3 <= report.job.target_ms)
                                       : nlohmann::json()}};
  if (choice.challengers > 0)
    object["whole_model"] = {{"tasks", choice.tasks},
                             {"exchanged", choice.exchanged},
                             {"tried", choice.challengers},
                             {"before_ms", choice.before * 1e3},
                             {"after_ms", choice.after * 1e3}};
  // A tracker's lists of jobs have no room for tens of thousands of tasks.
  return report.job.served ? told_report(std::move(object), tracker::kToldBytes) : json_line(object);
}

/// Why the task stays far below its limit; "" when it does not, or was not measured.
std::string why_below(const Row& row) {
  if (row.after <= 0 || row.limit.share(row.after) >= tuner::kFarBelow || row.state.best_seconds <= 0)
    return "";
  return tuner::shortfall_text(
      schedule::replay(row.state.best, row.task.workload), row.after,
      {.trials = row.state.trials, .since_best = row.state.since_best, .exhausted = row.state.exhausted});
}

std::vector<Row> rows_of(std::span<const tuner::Task> tasks, const TuneOutcome& outcome) {
  std::vector<Row> rows;
  double model = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const tracker::TuneResult::Winner& winner = outcome.search.winners[i];
    rows.push_back({.task = tasks[i],
                    .state = outcome.search.status.tasks[i],
                    .after = winner.seconds,
                    .error = winner.relative_error,
                    .confirmed = winner.confirmed,
                    .elsewhere = winner.elsewhere,
                    .limit = tuner::limit_of(tasks[i], outcome.limits)});
    model += tasks[i].weight() * winner.seconds;
  }
  for (Row& row : rows) {
    if (model > 0) row.model_share = row.task.weight() * row.after / model;
    row.why = why_below(row);
  }
  return rows;
}

}  // namespace

TuneReport report_tune_job(const TuneJob& job, std::span<const tuner::Task> tasks,
                           const TuneOutcome& outcome) {
  const Report report{job, outcome, rows_of(tasks, outcome)};
  const bool measured = tasks.empty() || std::any_of(report.rows.begin(), report.rows.end(),
                                                     [](const Row& row) { return row.after > 0; });
  const bool undecided = outcome.shipment.race.verdict == RaceVerdict::kUndecided;
  return {.text = text_of(report),
          .json = json_of(report),
          .measured = measured,
          .undecided = job.decide && undecided};
}

int print_report(const TuneReport& report, bool json) {
  if (json)
    fmt::print("{}\n", report.json);
  else
    fmt::print("{}", report.text);
  if (!report.measured) {
    put_on_stderr("nothing was measured: every candidate failed\n");
    return kNegative;
  }
  return report.undecided ? kInconclusive : kSuccess;
}

}  // namespace lathe::cli
