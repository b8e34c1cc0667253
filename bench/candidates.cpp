// How many different programs a job may choose from: for each task of some models the candidates that the
// search proposes without a cost model, told apart by what is left of them after lowering.
//
//   ./run bench candidates resnet18 model.onnx [--want 50] [--threads 1] [--small-us 2]
//
// Exit code 1 when a task has fewer and is not small.
#include <fmt/core.h>

#include <cmath>
#include <set>

#include "bench/flags.h"
#include "bench/model_argument.h"
#include "bench/pipeline_measurer.h"
#include "core/codegen/host_target.h"
#include "core/tir/lower.h"
#include "core/tir/prologue.h"
#include "tuner/optimize.h"
#include "tuner/search.h"
#include "tuner/tasks.h"
#include "workers/build.h"

namespace lathe::bench {
namespace {

struct Settings {
  std::vector<std::string> models;
  size_t want = 50;
  int threads = 1;
  double small_us = 2;
};

struct Count {
  size_t proposed = 0;  // different as scheduled
  size_t programs = 0;  // different as lowered
  std::string spaces;   // that apply
  double seconds = 0;   // of the default schedule; only where there are few
  bool enough = false;
};

std::string space_names(const tir::Func& workload, const Target& target) {
  std::string names;
  for (const schedule::DesignSpace* space : schedule::spaces_for(workload, target))
    names += fmt::format("{}{}", names.empty() ? "" : " ", space->name);
  return names;
}

/// Proposes until there are `want` programs, or nothing new comes.
Count count_programs(const tuner::Task& task, const Target& target, size_t want) {
  constexpr size_t kRound = 25;
  constexpr int kPatience = 4;
  Count count{.spaces = space_names(task.workload, target)};
  std::set<uint64_t> programs;
  tuner::TaskSearch search(task.workload, target, /*seed=*/1);
  for (int idle = 0; programs.size() < want && idle < kPatience; ++idle) {
    for (const tuner::Proposal& proposal : search.propose(kRound, {})) {
      ++count.proposed;
      try {
        if (programs.insert(structural_hash(tir::lower(tir::split_prologue(proposal.program).main, target)))
                .second)
          idle = -1;
      } catch (const Error&) {  // a candidate that cannot be built
      }
    }
  }
  count.programs = programs.size();
  count.enough = count.programs >= want;
  return count;
}

/// Seconds of the default schedule; 0 when it fails.
double measure_default(const tuner::Task& task, const Target& target) {
  PipelineMeasurer machine(std::span(&task, 1), target, /*builders=*/1);
  tuner::TaskSearch search(task.workload, target, /*seed=*/1);
  machine.submit(0, search.propose(1, {}));
  while (machine.in_flight() > 0)
    for (const tuner::Measured& answer : machine.wait(std::chrono::milliseconds(100)))
      if (answer.outcome == Outcome::kOk) return answer.seconds;
  return 0;
}

/// Tasks of `model` with fewer candidates than wanted that are not small.
int print_model(const std::string& model, const Settings& settings, const Target& target) {
  int poor = 0, small = 0;
  const std::vector<tuner::Task> tasks =
      tuner::extract_tasks(tuner::optimize(load(parse_model(model)), target));
  for (const tuner::Task& task : tasks) {
    Count count = count_programs(task, target, settings.want);
    if (count.enough) continue;
    count.seconds = measure_default(task, target);
    const bool is_small = count.seconds > 0 && count.seconds * 1e6 < settings.small_us;
    (is_small ? small : poor) += 1;
    fmt::print("{} {:>4} programs of {:>4} schedules {:>9.2f} us  {:<24} {}  {}\n", is_small ? " " : "!",
               count.programs, count.proposed, count.seconds * 1e6, count.spaces, task.name,
               task.digest.substr(0, 12));
  }
  fmt::print("{}: {} tasks, {} of {} programs or more, {} small, {} poor\n", model, tasks.size(),
             tasks.size() - static_cast<size_t>(poor + small), settings.want, small, poor);
  std::fflush(stdout);
  return poor;
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("How many different programs the search has to choose from, by task");
  flags.add("models", settings.models, "models of the zoo, or files; MODEL:NAME=1x3x64x64",
            Flags::Need::kRequired);
  flags.add("--want", settings.want, 1, 100000, "programs that are enough");
  flags.add("--threads", settings.threads, 1, 1024, "to schedule for");
  flags.add("--small-us", settings.small_us, 0, 1e9, "tasks that take less need no choice");
  flags.parse(argc, argv);
  Target target = codegen::resolve_target("cpu");
  target.cores = settings.threads;
  int poor = 0;
  for (const std::string& model : settings.models) poor += print_model(model, settings, target);
  return poor > 0 ? 1 : 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "internal-sandbox")
    return lathe::worker::internal_sandbox_main(argc, argv);
  return lathe::bench::guarded_main(lathe::bench::run, argc, argv);
}
