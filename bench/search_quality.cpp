// How good the search is, by real measurements:
//   - the best latency found against the number of trials, from several seeds: with the cost model, with one
//   that
//     has been learnt from the other tasks beforehand (as a job has that finds one in its database), and by
//     random sampling of the same space;
//   - how well the cost model ranks the candidates of a task none of whose candidates it has seen.
//
//   ./run bench search-quality [--model resnet18] [--tasks N] [--trials N] [--seeds N]
//
// One thread. Writes into the current folder: every trial to search_quality.jsonl, the report to
// search_quality.json. A search recorded there already is not done again, so an interrupted run goes on.
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/flags.h"
#include "bench/pipeline_measurer.h"
#include "bench/ranking.h"
#include "bench/speed_reached.h"
#include "core/codegen/host_target.h"
#include "core/support/statistics.h"
#include "schedules/schedule.h"
#include "tuner/features.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "workers/build.h"

namespace lathe::bench {
namespace {

using nlohmann::json;

constexpr const char *kRecords = "search_quality.jsonl", *kReport = "search_quality.json";

struct Settings {
  std::string model = "resnet18";
  size_t tasks = 4, seeds = 3;
  int64_t trials = 128;
};

/// How a search chooses.
enum class Kind : uint8_t {
  kRandom,
  kModel,      // by a cost model of its own measurements, once there are enough
  kInherited,  // from the start by one that was learnt from the other tasks
};
constexpr const char* kKindNames[] = {"random", "model", "inherited"};

struct Trial {
  std::string trace;
  double seconds = 0;  // infinite: failed
};

/// One search of one task.
struct Search {
  std::string task, digest;
  Kind kind = Kind::kModel;
  uint64_t seed = 0;
  std::vector<Trial> trials;  // in the order they ended
};

/// A failure is null: JSON has no infinity.
json to_json(const Search& search) {
  json trials = json::array();
  for (const Trial& trial : search.trials)
    trials.push_back(
        {{"trace", trial.trace}, {"us", std::isinf(trial.seconds) ? json() : json(trial.seconds * 1e6)}});
  return {{"task", search.task},
          {"digest", search.digest},
          {"kind", kKindNames[static_cast<size_t>(search.kind)]},
          {"seed", search.seed},
          {"trials", trials}};
}

Search search_from(const json& record) {
  const auto kind =
      std::find(std::begin(kKindNames), std::end(kKindNames), record.at("kind").get<std::string>());
  Search search{record.at("task"),
                record.at("digest"),
                static_cast<Kind>(kind - std::begin(kKindNames)),
                record.at("seed"),
                {}};
  for (const json& trial : record.at("trials"))
    search.trials.push_back(
        {trial.at("trace"), trial.at("us").is_null() ? INFINITY : trial.at("us").get<double>() * 1e-6});
  return search;
}

std::vector<Search> load_records(const std::string& path) {
  std::vector<Search> searches;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) searches.push_back(search_from(json::parse(line)));
  return searches;
}

/// Notes every answer in order on its way to the session.
class Recorder final : public tuner::Measurer {
 public:
  Recorder(tuner::Measurer& measurer, std::vector<Trial>& trials) : measurer_(measurer), trials_(trials) {}
  void submit(size_t task, std::span<const tuner::Proposal> proposals) override {
    measurer_.submit(task, proposals);
  }
  std::vector<tuner::Measured> wait(std::chrono::milliseconds timeout) override {
    std::vector<tuner::Measured> answers = measurer_.wait(timeout);
    for (const tuner::Measured& answer : answers)
      trials_.push_back(
          {schedule::to_json(answer.trace), answer.outcome == Outcome::kOk ? answer.seconds : INFINITY});
    return answers;
  }
  size_t in_flight() const override { return measurer_.in_flight(); }
  size_t capacity() const override { return measurer_.capacity(); }

 private:
  tuner::Measurer& measurer_;
  std::vector<Trial>& trials_;
};

/// `inherited`: a saved cost model, or "".
Search run_search(const tuner::Task& task, const Target& target, Kind kind, uint64_t seed, int64_t trials,
                  const std::string& inherited) {
  Search search{task.name, task.digest, kind, seed, {}};
  PipelineMeasurer machine(std::span(&task, 1), target, /*builders=*/2);
  Recorder recorder(machine, search.trials);
  tuner::Session session(std::span(&task, 1), target, recorder,
                         {.trials = trials, .seed = seed, .guided = kind != Kind::kRandom});
  if (!inherited.empty()) session.know_model(inherited);
  session.run([](const tuner::SessionStatus&) {}, [] { return false; });
  return search;
}

/// Every candidate that searches without an inherited model measured, each once, as the cost model sees it.
/// `task` is the place in `tasks`.
std::vector<tuner::Sample> samples_of(std::span<const Search> searches, std::span<const tuner::Task> tasks,
                                      const Target& target) {
  std::vector<tuner::Sample> samples;
  // Searches of several seeds meet the same candidates: each counts once, or frequent ones would weigh more.
  std::set<std::pair<std::string, std::string>> seen;
  for (const Search& search : searches) {
    if (search.kind == Kind::kInherited) continue;
    size_t task = 0;
    while (tasks[task].digest != search.digest) ++task;
    for (const Trial& trial : search.trials) {
      if (!seen.insert({search.digest, trial.trace}).second) continue;
      tir::Func program = schedule::replay(schedule::parse_trace(trial.trace), tasks[task].workload);
      samples.push_back({static_cast<int>(task), tuner::extract_features(program, target), trial.seconds});
    }
  }
  return samples;
}

/// A cost model learnt from all tasks but one, saved.
std::string model_of_others(const std::vector<tuner::Sample>& samples, int task) {
  std::vector<tuner::Sample> others;
  for (const tuner::Sample& sample : samples)
    if (sample.task != task) others.push_back(sample);
  if (others.empty()) return "";
  tuner::CostModel model;
  model.train(others);
  return tuner::save_for_later(model);
}

/// The searches of one kind: those recorded, and what is missing. `inherited`: the model for each task.
std::vector<Search> searches_of(Kind kind, const Settings& settings, std::span<const tuner::Task> tasks,
                                const Target& target, const std::vector<std::string>& inherited) {
  std::vector<Search> known = load_records(kRecords), wanted;
  for (uint64_t seed = 1; seed <= settings.seeds; ++seed) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      auto found = std::find_if(known.begin(), known.end(), [&](const Search& search) {
        return search.digest == tasks[i].digest && search.kind == kind && search.seed == seed &&
               static_cast<int64_t>(search.trials.size()) >= settings.trials;
      });
      if (found != known.end()) {
        wanted.push_back(*found);
        continue;
      }
      fmt::print(stderr, "{}, {}, seed {} ...\n", tasks[i].name, kKindNames[static_cast<size_t>(kind)], seed);
      wanted.push_back(run_search(tasks[i], target, kind, seed, settings.trials, inherited[i]));
      std::ofstream(kRecords, std::ios::app) << to_json(wanted.back()).dump() << "\n";
    }
  }
  return wanted;
}

/// The order matters: what the searches without an inherited model measured is what the inherited ones learn
/// from.
std::vector<Search> all_searches(const Settings& settings, std::span<const tuner::Task> tasks,
                                 const Target& target) {
  std::vector<std::string> models(tasks.size());
  std::vector<Search> all = searches_of(Kind::kModel, settings, tasks, target, models);
  for (Search& search : searches_of(Kind::kRandom, settings, tasks, target, models)) all.push_back(search);
  const std::vector<tuner::Sample> samples = samples_of(all, tasks, target);
  for (size_t i = 0; i < tasks.size(); ++i) models[i] = model_of_others(samples, static_cast<int>(i));
  for (Search& search : searches_of(Kind::kInherited, settings, tasks, target, models)) all.push_back(search);
  return all;
}

// ---- Best so far ----

std::vector<double> times_of(const Search& search) {
  std::vector<double> seconds;
  for (const Trial& trial : search.trials) seconds.push_back(trial.seconds);
  return seconds;
}

/// Of the searches of one kind: for each number of trials, the mean and the extremes over tasks and seeds of
/// the speed reached, as a share of the fastest that any search of the task found.
json speed_curve(std::span<const Search> searches, Kind kind, const std::map<std::string, double>& fastest,
                 size_t trials) {
  json curve = json::array();
  for (size_t n = 0; n < trials; ++n) {
    double sum = 0, low = INFINITY, high = 0;
    int count = 0;
    for (const Search& search : searches) {
      if (search.kind != kind) continue;
      double share = speed_reached(times_of(search), n + 1, fastest.at(search.digest));
      sum += share;
      low = std::min(low, share);
      high = std::max(high, share);
      ++count;
    }
    curve.push_back({sum / count, low, high});
  }
  return curve;
}

// ---- The report ----

void print_tables(const json& report) {
  fmt::print(
      "share of the fastest known speed after so many trials (mean over tasks and seeds)\n\n"
      "| trials | cost model, learnt from other tasks before | cost model | random |\n|---|---|---|---|\n");
  const json& curves = report["curves"];
  const size_t trials = report["trials"];
  for (size_t n = 8;; n = std::min(2 * n, trials)) {
    fmt::print("| {} | {:.3f} | {:.3f} | {:.3f} |\n", n, curves["inherited"][n - 1][0].get<double>(),
               curves["model"][n - 1][0].get<double>(), curves["random"][n - 1][0].get<double>());
    if (n == trials) break;
  }
  fmt::print(
      "\nthe cost model on a task it has not seen, learnt from the others\n\n"
      "| task | candidates | rank correlation | fastest 1% in its first 1% | in its first 10% |\n"
      "|---|---|---|---|---|\n");
  for (const json& row : report["unseen_tasks"])
    fmt::print("| {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", row["task"].get<std::string>(),
               row["candidates"].get<int>(), row["spearman"].get<double>(), row["top1_in_1"].get<double>(),
               row["top1_in_10"].get<double>());
}

json report_of(const Settings& settings, std::span<const Search> searches, std::span<const tuner::Task> tasks,
               const Target& target) {
  // By task, of all kinds and seeds: the best that is known stands for the best there is.
  std::map<std::string, double> fastest;
  for (const Search& search : searches) {
    double& best = fastest.try_emplace(search.digest, INFINITY).first->second;
    for (double seconds : times_of(search)) best = std::min(best, seconds);
  }
  const auto trials = static_cast<size_t>(settings.trials);
  json report = {{"model", settings.model},
                 {"trials", trials},
                 {"seeds", settings.seeds},
                 {"curves",
                  {{"inherited", speed_curve(searches, Kind::kInherited, fastest, trials)},
                   {"model", speed_curve(searches, Kind::kModel, fastest, trials)},
                   {"random", speed_curve(searches, Kind::kRandom, fastest, trials)}}},
                 {"unseen_tasks", json::array()},
                 {"tasks", json::array()}};
  for (const tuner::Task& task : tasks)
    report["tasks"].push_back({{"task", task.name},
                               {"fastest_us", fastest.at(task.digest) * 1e6},
                               {"gflops", task.flops / fastest.at(task.digest) / 1e9}});
  const std::vector<tuner::Sample> samples = samples_of(searches, tasks, target);
  for (size_t i = 0; i < tasks.size() && tasks.size() > 1; ++i) {
    std::vector<tuner::Sample> seen, unseen;
    for (const tuner::Sample& sample : samples)
      (sample.task == static_cast<int>(i) ? unseen : seen).push_back(sample);
    std::optional<Ranking> r = rank_unseen(seen, unseen);
    if (!r) continue;
    report["unseen_tasks"].push_back({{"task", tasks[i].name},
                                      {"candidates", r->candidates},
                                      {"spearman", r->spearman},
                                      {"top1_in_1", r->top1_in_1},
                                      {"top1_in_10", r->top1_in_10}});
  }
  return report;
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("Best-so-far against trials, and how the cost model ranks tasks it has not seen");
  flags.add("--model", settings.model, "whose heaviest tasks are searched");
  flags.add("--tasks", settings.tasks, 1, 1000, "how many of them");
  flags.add("--trials", settings.trials, 8, 100000, "of each search");
  flags.add("--seeds", settings.seeds, 1, 100, "searches of each kind and task");
  flags.parse(argc, argv);

  Target target = codegen::resolve_target("cpu");
  // Kernels are built for one core, as they are measured.
  target.cores = 1;
  std::vector<tuner::Task> tasks =
      tuner::extract_tasks(tuner::optimize(tuner::load_model(settings.model), target));
  tasks.resize(std::min(tasks.size(), settings.tasks));
  const json report = report_of(settings, all_searches(settings, tasks, target), tasks, target);
  std::ofstream(kReport) << report.dump(1) << "\n";
  print_tables(report);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return lathe::worker::internal_sandbox_main(argc, argv);
  return lathe::bench::guarded_main(lathe::bench::run, argc, argv);
}
