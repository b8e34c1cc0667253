#include "cli/tune_report.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/best_build.h"
#include "cli/exit_codes.h"
#include "cli/progress.h"
#include "cli/roofline.h"
#include "core/runtime/executor.h"
#include "core/runtime/thread_pool.h"
#include "tuner/final_build.h"

namespace lathe::cli {
namespace {
namespace fs = std::filesystem;

constexpr double kMost = 0.95;  // of the final speed: when it was reached is reported

struct BeforeAfter {
  double before = 0, after = 0;  // seconds
};

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Both modules in turn on the same random inputs; the medians of the turns' medians.
BeforeAfter time_in_turn(std::shared_ptr<const runtime::Module> before,
                         std::shared_ptr<const runtime::Module> after, int threads) {
  runtime::ThreadPool pool(threads);
  runtime::Executor executors[] = {{std::move(before), pool.parallel()}, {std::move(after), pool.parallel()}};
  for (runtime::Executor& executor : executors) {
    runtime::set_random_inputs(executor, /*seed=*/0);
    executor.run();
  }
  constexpr int kTurns = 7;
  constexpr double kTurnSeconds = 0.15;
  std::vector<double> medians[2];
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int side : {turn % 2, 1 - turn % 2}) {
      std::vector<double> samples;
      for (double spent = 0; spent < kTurnSeconds || samples.size() < 3; spent += samples.back()) {
        auto start = std::chrono::steady_clock::now();
        executors[side].run();
        samples.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
      medians[side].push_back(median_of(samples));
    }
  }
  return {median_of(medians[0]), median_of(medians[1])};
}

struct Row {
  const tuner::Task& task;
  const tuner::TaskState& state;
  double after = 0;  // seconds, confirmed
  double error = 0;  // relative, of the outputs
  Roofline limit;
  double gflops() const { return after > 0 ? task.flops / after / 1e9 : 0; }
};

nlohmann::json failures_by_kind(const tuner::TaskState& state) {
  nlohmann::json failures = nlohmann::json::object();
  for (size_t kind = 1; kind < state.outcomes.size(); ++kind)
    if (state.outcomes[kind] > 0) failures[std::string(kOutcomeNames[kind])] = state.outcomes[kind];
  return failures;
}

void print_table(std::span<const Row> rows) {
  fmt::print("\n{:<40} {:>4} {:>10} {:>10} {:>6} {:>8} {:>7} {:>6} {:>7} {:>6}  {}\n", "task", "uses",
             "before", "after", "gain", "GFLOP/s", "limit", "share", "error", "trials", "failures");
  for (const Row& row : rows) {
    std::string name = row.task.name.size() > 40 ? row.task.name.substr(0, 37) + "..." : row.task.name;
    double gain = row.after > 0 ? row.state.default_seconds / row.after : 0;
    std::string failures;
    const nlohmann::json kinds = failures_by_kind(row.state);
    for (const auto& [kind, count] : kinds.items())
      failures += fmt::format("{} {} ", count.get<int64_t>(), kind);
    fmt::print("{:<40} {:>4} {:>10} {:>10} {:>6} {:>8.1f} {:>7} {:>5.0f}% {:>7.0e} {:>6}  {}\n", name,
               row.task.calls, duration_text(row.state.default_seconds), duration_text(row.after),
               gain > 0 ? fmt::format("{:.2f}x", gain) : "-", row.gflops(), row.limit.name(),
               100 * row.limit.share(row.after), row.error, row.state.trials, failures);
  }
}

void print_limits(const worker::MachineLimits& limits, int threads) {
  fmt::print(
      "\nmachine's measured limits on {} thread{}: {:.1f} GFLOP/s, {:.1f} GB/s from memory\n"
      "share: the least time these allow the direct algorithm, over the time taken "
      "(docs/reading-a-report.md)\n",
      threads, threads == 1 ? "" : "s", limits.flops / 1e9, limits.bandwidth / 1e9);
}

}  // namespace

int report_tune_job(const TuneJob& job, const Target& target, const relay::Module& fused,
                    std::span<const tuner::Task> tasks, const TuneOutcome& outcome) {
  const tracker::TuneResult& result = outcome.search;
  const tuner::WholeModelResult& choice = outcome.choice;
  int threads = static_cast<int>(job.threads);
  auto untuned =
      runtime::Module::from_image(tuner::final_build(fused, target, tuner::default_schedules(target)));
  BestBuild build = best_build(fused, target, {job.database, threads, job.max_relative_error});
  build.image.plan.model = job.model;
  fs::create_directories(job.folder);
  std::string path = (fs::path(job.folder) / (fs::path(job.model).stem().string() + ".lathe")).string();
  runtime::write_module(path, build.image);
  BeforeAfter times = time_in_turn(untuned, runtime::Module::open(path), threads);
  worker::MachineLimits limits = worker::measure_limits(threads);

  std::vector<Row> rows;
  bool measured = tasks.empty();
  nlohmann::json table = nlohmann::json::array();
  for (size_t i = 0; i < tasks.size(); ++i) {
    rows.push_back({tasks[i], result.status.tasks[i], result.winners[i].seconds,
                    result.winners[i].relative_error, roofline(tasks[i].flops, tasks[i].bytes, limits)});
    const Row& row = rows.back();
    measured |= row.after > 0;
    table.push_back({{"name", row.task.name},
                     {"weight", row.task.calls},
                     {"before_us", row.state.default_seconds * 1e6},
                     {"after_us", row.after * 1e6},
                     {"gflops", row.gflops()},
                     {"peak_share", row.gflops() * 1e9 / limits.flops},
                     {"limit", row.limit.name()},
                     {"limit_us", row.limit.seconds * 1e6},
                     {"limit_share", row.limit.share(row.after)},
                     {"relative_error", row.error},
                     {"trials", row.state.trials},
                     {"failures", failures_by_kind(row.state)}});
  }
  if (!job.json) {
    print_table(rows);
    print_limits(limits, threads);
    if (result.status.quality.samples > 0)
      fmt::print(
          "cost model on held-out candidates: rank correlation {:.2f}, recall of the fastest fifth {:.2f}\n",
          result.status.quality.spearman, result.status.quality.recall);
    fmt::print(
        "{} trials in {:.1f} s ({:.1f}/s)\n", result.status.trials, result.status.seconds,
        result.status.seconds > 0 ? static_cast<double>(result.status.trials) / result.status.seconds : 0);
    if (auto most = tuner::reached(result.milestones, kMost))
      fmt::print("{:.0f}% of the speed found after {} trials, {:.1f} s\n", 100 * kMost, most->trials,
                 most->seconds);
    if (choice.challengers > 0)
      fmt::print("whole model: {} of {} tasks exchanged, {} -> {} ({} exchanges tried)\n", choice.exchanged,
                 choice.tasks, duration_text(choice.before), duration_text(choice.after), choice.challengers);
    fmt::print("model: {} before, {} after ({:.2f}x)\n", duration_text(times.before),
               duration_text(times.after), times.before / times.after);
    if (build.difference > 0)
      fmt::print("large constants are kept in half precision: outputs are off by {:.1e} of the largest\n",
                 build.difference);
    fmt::print("module:  {}\nrecords: {} (job {})\n", path, job.database, result.uuid);
  } else {
    nlohmann::json report = {{"model", job.model},
                             {"target", job.target},
                             {"threads", threads},
                             {"trials", result.status.trials},
                             {"seconds", result.status.seconds},
                             {"before_ms", times.before * 1e3},
                             {"after_ms", times.after * 1e3},
                             {"rounding_error", build.difference},
                             {"tasks", table},
                             {"peak_gflops", limits.flops / 1e9},
                             {"memory_gbps", limits.bandwidth / 1e9},
                             {"rank_correlation", result.status.quality.spearman},
                             {"module", path},
                             {"database", job.database},
                             {"job", result.uuid}};
    if (auto most = tuner::reached(result.milestones, kMost)) {
      report["trials_to_95"] = most->trials;
      report["seconds_to_95"] = most->seconds;
    }
    if (choice.challengers > 0)
      report["whole_model"] = {{"tasks", choice.tasks},
                               {"exchanged", choice.exchanged},
                               {"tried", choice.challengers},
                               {"before_ms", choice.before * 1e3},
                               {"after_ms", choice.after * 1e3}};
    fmt::print("{}\n", report.dump());
  }
  if (!measured) fmt::print(stderr, "nothing was measured: every candidate failed\n");
  return measured ? kSuccess : kNegative;
}

}  // namespace lathe::cli
