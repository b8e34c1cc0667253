// How much of what is truly fastest a cost model finds in models that it was not learnt from: candidates of
// the heaviest tasks of some models are measured, and each model is then ranked by what the others taught.
//
//   ./run bench recall --cnns resnet18,net.onnx:x=1x3x64x64 --transformers encoder.onnx,...
//       [--tasks 4] [--candidates 100] [--seconds 600]
//
// Measurements are kept in recall_records.jsonl; one that was interrupted, or out of time, goes on from
// there.
#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/flags.h"
#include "bench/model_argument.h"
#include "bench/pipeline_measurer.h"
#include "bench/ranking.h"
#include "core/codegen/host_target.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "schedules/schedule.h"
#include "tuner/features.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"
#include "workers/build.h"

namespace lathe::bench {
namespace {
using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr const char* kRecords = "recall_records.jsonl";
constexpr size_t kFewest = 20;  // candidates that a ranking says something about

struct Settings {
  std::string cnns, transformers;
  size_t tasks = 4, candidates = 100;
  double seconds = 600;
};

struct Model {
  std::string name;
  bool transformer = false;
  std::vector<tuner::Task> tasks;
};

/// The heaviest tasks of a model, written as model_argument.h says.
Model load(const std::string& text, bool transformer, size_t tasks, const Target& target) {
  ModelArgument model_text = parse_model(text);
  Model model{model_text.name, transformer, tuner::extract_tasks(tuner::optimize(load(model_text), target))};
  model.tasks.resize(std::min(model.tasks.size(), tasks));
  return model;
}

/// Seconds by trace, infinite for what failed; by task.
using Measurements = std::map<std::string, std::map<std::string, double>>;

Measurements load_records() {
  Measurements records;
  std::ifstream file(kRecords);
  for (std::string line; std::getline(file, line);) {
    json record = json::parse(line);
    records[record.at("task")][record.at("trace")] =
        record.at("us").is_null() ? INFINITY : record.at("us").get<double>() * 1e-6;
  }
  return records;
}

/// Measures random candidates of the task until there are as many as wanted, or time is over.
void measure(const tuner::Task& task, const Target& target, size_t wanted, Clock::time_point end,
             Measurements& records) {
  std::map<std::string, double>& known = records[task.digest];
  if (known.size() >= wanted) return;
  PipelineMeasurer machine(std::span(&task, 1), target, /*builders=*/1);
  tuner::TaskSearch search(task.workload, target, /*seed=*/1);
  // What was measured before is not proposed again. Without times, which a random search does not use.
  for (const auto& [trace, seconds] : known) {
    schedule::Trace parsed = schedule::parse_trace(trace);
    search.report(parsed, tuner::fingerprint(schedule::replay(parsed, task.workload)), std::nullopt);
  }
  std::ofstream file(kRecords, std::ios::app);
  size_t asked = known.size();
  while (Clock::now() < end) {
    // A few in flight: building one and running another keeps the machine busy, and little is lost when time
    // is over.
    while (asked < wanted && machine.in_flight() < 4) {
      std::vector<tuner::Proposal> proposals = search.propose(4, {});
      // The space is exhausted.
      if (proposals.empty()) asked = wanted;
      asked += proposals.size();
      machine.submit(0, proposals);
    }
    if (machine.in_flight() == 0) return;
    for (const tuner::Measured& answer : machine.wait(std::chrono::milliseconds(200))) {
      double seconds = answer.outcome == Outcome::kOk ? answer.seconds : INFINITY;
      std::string trace = schedule::to_json(answer.trace);
      known[trace] = seconds;
      file << json{{"task", task.digest},
                   {"trace", trace},
                   {"us", std::isfinite(seconds) ? json(seconds * 1e6) : json()}}
                  .dump()
           << "\n"
           << std::flush;
    }
  }
}

std::vector<tuner::Sample> samples_of(const tuner::Task& task, int number, const Target& target,
                                      const Measurements& records) {
  std::vector<tuner::Sample> samples;
  auto found = records.find(task.digest);
  if (found == records.end()) return samples;
  for (const auto& [trace, seconds] : found->second) {
    tir::Func program = schedule::replay(schedule::parse_trace(trace), task.workload);
    samples.push_back({number, tuner::extract_features(program, target), seconds});
  }
  return samples;
}

struct Row {
  const Model* model;
  const tuner::Task* task;
  std::vector<tuner::Sample> samples;
};

/// What other models taught: none of this model's tasks, wherever else they occur.
std::vector<tuner::Sample> seen_by(const Model& model, std::span<const Row> rows) {
  std::set<std::string> own;
  for (const tuner::Task& task : model.tasks) own.insert(task.digest);
  std::vector<tuner::Sample> seen;
  for (const Row& row : rows)
    if (row.model != &model && !own.contains(row.task->digest))
      seen.insert(seen.end(), row.samples.begin(), row.samples.end());
  return seen;
}

void print_group(const char* name, const std::vector<Ranking>& rankings) {
  if (rankings.empty()) return;
  double in_1 = 0, in_10 = 0, rank = 0, speed = 0;
  size_t candidates = 0;
  for (const Ranking& each : rankings) {
    in_1 += each.top1_in_1, in_10 += each.top1_in_10, rank += each.spearman, speed += each.speed_of_10;
    candidates += each.candidates;
  }
  const auto count = static_cast<double>(rankings.size());
  fmt::print("| **{}, {} tasks** | | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", name, rankings.size(),
             candidates, rank / count, in_1 / count, in_10 / count, speed / count);
}

void print_report(std::span<const Row> rows) {
  fmt::print(
      "| model | task | candidates | rank correlation | fastest 1% in the first 1% | in the first 10% | "
      "speed of the first 10% |\n"
      "|---|---|---|---|---|---|---|\n");
  // CNNs, transformers.
  std::vector<Ranking> of_kind[2];
  for (const Row& row : rows) {
    std::vector<tuner::Sample> seen = seen_by(*row.model, rows);
    if (seen.empty() || row.samples.size() < kFewest) continue;
    std::optional<Ranking> ranking = rank_unseen(seen, row.samples);
    if (!ranking) continue;
    of_kind[row.model->transformer].push_back(*ranking);
    fmt::print("| {} | {} | {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} |\n", row.model->name, row.task->name,
               ranking->candidates, ranking->spearman, ranking->top1_in_1, ranking->top1_in_10,
               ranking->speed_of_10);
  }
  print_group("CNNs", of_kind[0]);
  print_group("transformers", of_kind[1]);
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("How much of what is fastest a cost model finds in models it was not learnt from");
  flags.add("--cnns", settings.cnns, "models, or files, separated by commas; MODEL:NAME=1x3x64x64");
  flags.add("--transformers", settings.transformers, "the same");
  flags.add("--tasks", settings.tasks, 1, 1000, "the heaviest of each model");
  flags.add("--candidates", settings.candidates, 20, 100000, "of each task");
  flags.add("--seconds", settings.seconds, 1, 1e6, "of measuring, at most");
  flags.parse(argc, argv);
  Target target = codegen::resolve_target("cpu");
  target.cores = 1;
  std::vector<Model> models;
  for (bool transformer : {false, true})
    for (const std::string& text : split_text(transformer ? settings.transformers : settings.cnns, ','))
      if (!text.empty()) models.push_back(load(text, transformer, settings.tasks, target));
  if (models.size() < 2) fail("there must be two models at least: one is ranked by what the others teach");

  Measurements records = load_records();
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(settings.seconds));
  std::vector<Row> rows;
  for (const Model& model : models)
    for (const tuner::Task& task : model.tasks) rows.push_back({&model, &task, {}});
  // A share of the time each, so that one with slow kernels leaves some to the others.
  for (size_t i = 0; i < rows.size(); ++i) {
    auto share = (end - Clock::now()) / static_cast<int64_t>(rows.size() - i);
    fmt::print(stderr, "{}: {}\n", rows[i].model->name, rows[i].task->name);
    measure(*rows[i].task, target, settings.candidates, Clock::now() + share, records);
    rows[i].samples = samples_of(*rows[i].task, static_cast<int>(i), target, records);
  }
  print_report(rows);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return lathe::worker::internal_sandbox_main(argc, argv);
  return lathe::bench::guarded_main(lathe::bench::run, argc, argv);
}
