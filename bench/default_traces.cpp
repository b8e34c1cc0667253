// What the default schedules make of whole models, lowered, as digests: two builds that print the same lines
// decide the same, whatever steps their traces take.
//
//   ./run bench default-traces --models resnet18,dqn [--threads 1,2] [--target cpu] [--measured] [--tasks]
//   [--traces] [--programs]
#include <fmt/core.h>

#include "bench/flags.h"
#include "core/codegen/host_target.h"
#include "core/support/digest.h"
#include "core/support/text.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "tuner/tasks.h"
#include "workers/machine_at_hand.h"

namespace lathe::bench {
namespace {

struct Settings {
  std::string models, threads = "1,2", target = "cpu";
  bool tasks = false, traces = false, programs = false, measured = false;
};

void print_model(const std::string& model, const Settings& settings) {
  Target target = codegen::resolve_target(settings.target);
  if (settings.measured)
    set_machine(target, worker::recall_or_measure(target).reading.numbers, given_numbers(settings.target));
  const std::vector<tuner::Task> tasks =
      tuner::extract_tasks(tuner::optimize(tuner::load_model(model), target));
  for (const std::string& threads : split_text(settings.threads, ',')) {
    target.cores = std::stoi(threads);
    std::string all;
    for (const tuner::Task& task : tasks) {
      const schedule::Trace trace = schedule::default_trace(task.workload, target);
      const tir::Func scheduled = schedule::replay(trace, task.workload);
      const std::string program = fmt::format("{:016x}", structural_hash(tir::lower(scheduled, target)));
      all += task.digest + " " + program + "\n";
      if (settings.traces) fmt::print("{}\n", schedule::to_json(trace));
      if (settings.programs)
        fmt::print("{}\n{}\n", tir::print(task.workload),
                   tir::print(tir::lower(tir::split_prologue(scheduled).main, target)));
      if (settings.tasks) fmt::print("  {} {} {}\n", task.digest.substr(0, 12), program, task.name);
    }
    fmt::print("{} threads={} tasks={} {}\n", model, threads, tasks.size(), sha256(all).substr(0, 16));
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  Settings settings;
  Flags flags("The default schedules of whole models as digests");
  flags.add("--models", settings.models, "models of the zoo or files, separated by commas",
            Flags::Need::kRequired);
  flags.add("--threads", settings.threads, "numbers of threads, separated by commas");
  flags.add("--target", settings.target, "what to schedule for");
  flags.add("--measured", settings.measured, "by the numbers measured of this machine, not its row");
  flags.add("--tasks", settings.tasks, "also the digests of each task and its program");
  flags.add("--traces", settings.traces, "also the traces, each before its task");
  flags.add("--programs", settings.programs, "also each task's program, and what it is lowered to");
  flags.parse(argc, argv);
  for (const std::string& model : split_text(settings.models, ',')) print_model(model, settings);
  return 0;
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) { return lathe::bench::guarded_main(lathe::bench::run, argc, argv); }
