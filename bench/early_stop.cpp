// What stopping early on losers saves of a search's measuring time, and whether it finds the same winners. A
// search is recorded with all samples; the very same record is then replayed with the rule, sample by sample,
// each candidate against the incumbent of those measured before it but for the last one, whose result is on
// its way to the tracker (workers/agent.h).
//
//   ./run bench early-stop [--models resnet18,net.onnx:x=1x3x64x64] [--tasks 4] [--trials 256] [--seed 1]
//
// One thread. The record is early_stop.jsonl in the current folder; one that is there is replayed, and
// nothing is measured. Measuring time is what a candidate holds up all others for: its timed window of
// warm-up, emptying of caches and samples. That caches are emptied costs what it does here now.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "bench/flags.h"
#include "bench/model_argument.h"
#include "bench/pipeline_measurer.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/statistics.h"
#include "core/support/text.h"
#include "schedules/schedule.h"
#include "tracker/incumbents.h"
#include "tracker/sampling.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"
#include "workers/build.h"
#include "workers/sampler.h"

namespace lathe::bench {
namespace {
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kRecord = "early_stop.jsonl";
constexpr size_t kLeaders = 5;  // are measured again at the end of a job

struct Settings {
  std::string models = "resnet18";
  size_t tasks = 4;
  int64_t trials = 256;
  uint64_t seed = 1;
};

struct Trial {
  std::string task, trace;
  double run_seconds = 0;  // of the child: its start, the check of its outputs, and the timed window
  std::vector<float> samples;
};

json to_json(const Trial& trial) {
  return {{"task", trial.task},
          {"trace", trial.trace},
          {"run_seconds", trial.run_seconds},
          {"samples", trial.samples}};
}

std::vector<Trial> load_record() {
  std::vector<Trial> trials;
  std::ifstream file(kRecord);
  for (std::string line; std::getline(file, line);) {
    const json record = json::parse(line);
    trials.push_back({record.at("task"), record.at("trace"), record.at("run_seconds"),
                      record.at("samples").get<std::vector<float>>()});
  }
  return trials;
}

/// Writes down what is measured.
class Recorder final : public tuner::Measurer {
 public:
  Recorder(std::span<const tuner::Task> tasks, const std::string& model, const Target& target)
      : machine_(tasks, target, /*builders=*/1), file_(kRecord, std::ios::app) {
    machine_.on_ran = [=, this](const tuner::Measured& measured, const wire::Result& result) {
      if (result.outcome != Outcome::kOk) return;
      const Trial trial{model + " " + tasks[measured.task].name, schedule::to_json(measured.trace),
                        result.run_seconds, result.samples};
      file_ << to_json(trial).dump() << std::endl;
    };
  }
  void submit(size_t task, std::span<const tuner::Proposal> proposals) override {
    machine_.submit(task, proposals);
  }
  std::vector<tuner::Measured> wait(std::chrono::milliseconds timeout) override {
    return machine_.wait(timeout);
  }
  size_t in_flight() const override { return machine_.in_flight(); }
  size_t capacity() const override { return machine_.capacity(); }

 private:
  PipelineMeasurer machine_;
  std::ofstream file_;
};

void record(const Settings& settings, const Target& target) {
  for (const std::string& text : split_text(settings.models, ',')) {
    const ModelArgument argument = parse_model(text);
    std::vector<tuner::Task> tasks = tuner::extract_tasks(tuner::optimize(load(argument), target));
    tasks.resize(std::min(tasks.size(), settings.tasks));  // the heaviest
    fmt::print(stderr, "{}: {} trials of {} tasks\n", argument.name, settings.trials, tasks.size());
    Recorder recorder(tasks, argument.name, target);
    tuner::Session session(tasks, target, recorder, {.trials = settings.trials, .seed = settings.seed});
    session.run([](const tuner::SessionStatus&) {}, [] { return false; });
  }
}

// ---- The replay

/// Of one sample beside its run: twice L2 is read, as workers/measure.cpp does.
double eviction_seconds() {
  const size_t bytes = 2 * static_cast<size_t>(std::max<long>(sysconf(_SC_LEVEL2_CACHE_SIZE), 1 << 20));
  std::vector<uint64_t> memory(bytes / sizeof(uint64_t), 1);
  std::vector<float> times;
  [[maybe_unused]] static volatile uint64_t sink;
  for (int i = 0; i < 101; ++i) {
    const auto start = Clock::now();
    uint64_t sum = 0;
    for (size_t k = 0; k < memory.size(); k += 8) sum += memory[k];
    sink = sum;
    times.push_back(std::chrono::duration<float>(Clock::now() - start).count());
  }
  return summarize(times).median;
}

struct Replayed {
  double seconds = 0;  // the median, by which candidates are ranked
  double window = 0;
  size_t samples = 0;
};

Replayed replay(const Trial& trial, double incumbent, double eviction) {
  wire::Evaluation evaluation = tracker::evaluation_for(db::Purpose::kSearch);
  evaluation.incumbent_seconds = incumbent;
  worker::Sampler sampler(evaluation);
  Replayed result;
  // The warm-up, which was not recorded, takes what the first sample does.
  result.window = trial.samples.front();
  while (result.samples < trial.samples.size()) {
    const double seconds = trial.samples[result.samples++];
    result.window += eviction + seconds;
    sampler.add(seconds, /*disturbed=*/false);
    if (sampler.done(result.window)) break;
  }
  result.seconds = summarize(sampler.samples()).median;
  return result;
}

struct Totals {
  size_t trials = 0, stopped = 0, samples_before = 0, samples_after = 0;
  double before = 0, after = 0;  // seconds of timed windows
  double runs = 0;               // seconds of children, with all samples

  void operator+=(const Totals& other) {
    trials += other.trials, stopped += other.stopped;
    samples_before += other.samples_before, samples_after += other.samples_after;
    before += other.before, after += other.after, runs += other.runs;
  }
};

void print_row(const std::string& name, const Totals& t, const std::string& winner) {
  fmt::print("| {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {:.0f}% | {:.0f}% | {} |\n", name, t.trials,
             t.stopped, t.samples_before, t.samples_after, t.before, t.after, 100 * (1 - t.after / t.before),
             100 * (t.before - t.after) / t.runs, winner);
}

/// Traces of the fastest, the fastest first.
std::vector<std::string> fastest(std::vector<std::pair<double, std::string>> measured) {
  std::stable_sort(measured.begin(), measured.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> traces;
  for (size_t i = 0; i < std::min(measured.size(), kLeaders); ++i) traces.push_back(measured[i].second);
  return traces;
}

/// By all samples: of two that are as fast the noise may choose.
std::string winner_text(std::span<const std::pair<double, std::string>> measured, const std::string& before,
                        const std::string& after) {
  if (before == after) return "same";
  const auto seconds = [&](const std::string& trace) {
    return std::find_if(measured.begin(), measured.end(),
                        [&](const auto& each) { return each.second == trace; })
        ->first;
  };
  return fmt::format("ANOTHER, {:.1f}% slower", 100 * (seconds(after) / seconds(before) - 1));
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("What stopping early on losers saves, on a recorded search.");
  flags.add("--models", settings.models, "separated by commas");
  flags.add("--tasks", settings.tasks, 1, 1000, "the heaviest of each");
  flags.add("--trials", settings.trials, 8, 100000, "of each model");
  flags.add("--seed", settings.seed, 0, UINT32_MAX, "of the search");
  flags.parse(argc, argv);
  if (!std::filesystem::exists(kRecord)) record(settings, codegen::host_target());

  const double eviction = eviction_seconds();
  std::map<std::string, std::vector<Trial>> tasks;
  for (Trial& trial : load_record()) tasks[trial.task].push_back(std::move(trial));
  fmt::print(
      "Emptying the caches takes {:.0f} us a sample.\n\n"
      "| task | trials | stopped early | samples | with the rule | s measured | with the rule | less | "
      "less of whole runs | winner; leaders |\n|---|---|---|---|---|---|---|---|---|---|\n",
      eviction * 1e6);
  Totals sum;
  bool same = true;
  for (const auto& [name, trials] : tasks) {
    Totals totals;
    std::vector<std::pair<double, std::string>> with_all, with_rule;
    tracker::Incumbent incumbent;
    double last = 0;
    for (size_t i = 0; i < trials.size(); ++i) {
      const Trial& trial = trials[i];
      const Replayed all = replay(trial, 0, eviction);
      const Replayed early = replay(trial, incumbent.seconds("one"), eviction);
      if (i > 0) incumbent.note(static_cast<tracker::CandidateId>(i), "one", last);
      last = early.seconds;
      totals += {1,
                 early.samples < all.samples,
                 all.samples,
                 early.samples,
                 all.window,
                 early.window,
                 trial.run_seconds};
      with_all.emplace_back(all.seconds, trial.trace);
      with_rule.emplace_back(early.seconds, trial.trace);
    }
    const auto before = fastest(with_all), after = fastest(with_rule);
    same &= before[0] == after[0];
    print_row(name, totals,
              fmt::format("{}; {} of {}", winner_text(with_all, before[0], after[0]),
                          std::count_if(before.begin(), before.end(),
                                        [&](const std::string& trace) {
                                          return std::find(after.begin(), after.end(), trace) != after.end();
                                        }),
                          before.size()));
    sum += totals;
  }
  print_row("all", sum, same ? "same" : "ANOTHER");
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return lathe::worker::internal_sandbox_main(argc, argv);
  return lathe::bench::guarded_main(lathe::bench::run, argc, argv);
}
