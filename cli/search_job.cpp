// The searcher: a process that a tracker starts for each job, in which strangers' models are parsed and
// compiled. All it knows comes over the link, and all it finds goes back there (docs/decisions/025-*.md).
#include "cli/search_job.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/exit_codes.h"
#include "cli/interrupt.h"
#include "cli/race_by_worker.h"
#include "cli/race_record.h"
#include "cli/ship.h"
#include "cli/told_json.h"
#include "cli/tune_job.h"
#include "cli/tune_report.h"
#include "core/codegen/compile.h"
#include "core/codegen/host_target.h"
#include "core/support/digest.h"
#include "core/support/error.h"
#include "core/support/text.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "core/tir/prologue.h"
#include "core/tir/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tracker/search_link.h"
#include "tracker/searcher.h"
#include "workers/confine.h"
#include "workers/local_worker.h"

namespace lathe::cli {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

static_assert(kUnfit == tracker::kSearcherUnfit);
constexpr int kLinkDescriptor = 3;  // where the tracker puts it (tracker/searcher.cpp)

/// JSON has no infinity.
json finite(double value) { return std::isfinite(value) ? json(value) : json(); }

/// The job as ordered. An earlier life of it has spent a part of its time.
TuneJob job_of(const tracker::SearchOrder& order, const Target& target) {
  TuneJob job;
  static_cast<tracker::JobRequest&>(job) = tracker::parse_job_request(order.request);
  job.file = order.file;
  job.folder = order.folder;
  job.served = true;
  job.json = true;
  // Of the machine's those that its workers may use: they may be in a container.
  if (job.threads == 0) job.threads = order.cores > 0 ? order.cores : target.cores;
  // Never 0, which would mean no limit.
  if (job.seconds > 0) job.seconds = std::max(1.0, job.seconds - order.seconds_used);
  return job;
}

/// The order's machine is that of the job's device. Numbers that its target itself names win over these.
Target target_of(const tracker::SearchOrder& order) {
  Target target = codegen::resolve_target(order.target);
  const MachineNumbers given = given_numbers(order.target);
  const MachineNumbers measured =
      order.machine.empty() ? MachineNumbers{} : parse_machine_numbers(order.machine);
  if (!measured.empty() || !given.empty()) set_machine(target, measured, given);
  return target;
}

/// The first of them, where there are more than can be told of.
json tasks_json(const PreparedJob& prepared) {
  json list = json::array();
  for (const tuner::Task& task : prepared.tasks) {
    const Roofline limit = tuner::limit_of(task, prepared.limits);
    list.push_back({{"name", task.name},
                    {"digest", task.digest},
                    {"calls", task.calls},
                    {"flops", task.flops},
                    {"bytes", task.bytes},
                    {"limit", limit.name()},
                    {"limit_seconds", finite(limit.seconds)}});
  }
  // Beside what stands around the list. A task's state is shorter than its description.
  list.get_ref<json::array_t&>().resize(count_told(list, tracker::kToldBytes - 256));
  return {{"tasks", std::move(list)},
          {"peak_flops", prepared.limits.flops},
          {"bandwidth", prepared.limits.bandwidth}};
}

json progress_json(const tuner::SessionStatus& status) {
  return {{"seconds", status.seconds},
          {"trials", status.trials},
          {"budget", status.budget},
          {"seconds_left", finite(status.seconds_left)},
          {"model_seconds", status.model_seconds},
          {"default_model_seconds", status.default_model_seconds},
          {"samples", status.quality.samples},
          {"rank_correlation", finite(status.quality.spearman)},
          {"recall", finite(status.quality.recall)}};
}

/// By task that was told of: trials, best and default seconds (0: not measured), trials that failed, whether
/// none is left.
json task_state_json(const tuner::SessionStatus& status, size_t told_tasks) {
  json list = json::array();
  for (const tuner::TaskState& state : std::span(status.tasks).first(told_tasks))
    list.push_back({state.trials, state.best_seconds, state.default_seconds,
                    state.trials - state.outcomes[static_cast<size_t>(Outcome::kOk)], state.exhausted});
  return list;
}

/// Labels and instructions of what runs with the model; what is made of constants ahead of it is left out.
std::string machine_code(const tir::Func& scheduled, const Target& target) {
  const tir::Func lowered = tir::lower(tir::split_prologue(scheduled).main, target);
  std::string code;
  for (const std::string& line :
       split_text(codegen::compile_to_assembly(std::span(&lowered, 1), target), '\n'))
    if (!line.starts_with("\t.")) code += line + "\n";
  return code;
}

/// With its machine code if `compiled`, which takes about as long as the program's build.
json schedule_json(const schedule::Trace& trace, const tuner::Task& task, const Target& target,
                   bool compiled) {
  const tir::Func scheduled = schedule::replay(trace, task.workload);
  json told = {{"trace", to_text(trace)}, {"program", tir::print(scheduled)}};
  if (compiled) told["code"] = machine_code(scheduled, target);
  return told;
}

/// Tells whoever watches: the figures twice a second, the tasks every other second, the best schedules that
/// are new every ten; at the end all of them with their machine code.
class Teller {
 public:
  /// `told_tasks`: so many, from the first on, were told of.
  Teller(tracker::SearchLink& link, const PreparedJob& prepared, size_t told_tasks)
      : link_(link), prepared_(prepared), told_(told_tasks) {}

  void show(const tuner::SessionStatus& status, bool last = false) {
    using namespace std::chrono_literals;
    const auto now = Clock::now();
    if (last || now - figures_ >= 500ms) {
      figures_ = now;
      link_.tell("progress", progress_json(status).dump());
    }
    if (last || now - tasks_ >= 2s) {
      tasks_ = now;
      link_.tell("task_state", task_state_json(status, told_.size()).dump());
    }
    if (last || now - schedules_ >= 10s) {
      schedules_ = now;
      for (size_t i = 0; i < told_.size(); ++i) show_schedules(i, status.tasks[i], last);
    }
  }

 private:
  void show_schedules(size_t i, const tuner::TaskState& state, bool last) {
    // In the end each is told again, with its machine code.
    if (state.best_seconds <= 0 || (state.best == told_[i] && !last)) return;
    told_[i] = state.best;
    const tuner::Task& task = prepared_.tasks[i];
    const Target& target = prepared_.target;
    const schedule::Trace untuned = schedule::default_trace(task.workload, target);
    const json body = {{"task", i},
                       {"default", schedule_json(untuned, task, target, last)},
                       {"best", schedule_json(state.best, task, target, last)}};
    link_.tell(fmt::format("{}{}", tracker::kScheduleEvent, i), body.dump());
  }

  tracker::SearchLink& link_;
  const PreparedJob& prepared_;
  std::vector<schedule::Trace> told_;  // the best of each task, when it was told
  Clock::time_point figures_{}, tasks_{}, schedules_{};
};

/// With the winners as they were measured again in the place of what the search thought best.
tuner::SessionStatus confirmed(const tracker::TuneResult& result, std::span<const tuner::Task> tasks) {
  tuner::SessionStatus status = result.status;
  double seconds = 0;
  for (size_t i = 0; i < status.tasks.size(); ++i) {
    const tracker::TuneResult::Winner& winner = result.winners[i];
    if (winner.seconds > 0) {
      status.tasks[i].best = schedule::parse_trace(winner.trace);
      status.tasks[i].best_seconds = winner.seconds;
    }
    seconds += tasks[i].weight() * status.tasks[i].best_seconds;
  }
  // Where a task has no measurement, the model has no estimate.
  if (status.model_seconds > 0) status.model_seconds = seconds;
  return status;
}

/// Before a stranger's model is read: from here on the process has its job's folder, the model's file and the
/// link.
void confine_search(const tracker::SearchOrder& order) {
  constexpr uint64_t kLargestFile = uint64_t{64} << 30;  // of a module
  // The linker's files: the usual folder is out of reach from here on.
  setenv("TMPDIR", order.folder.c_str(), 1);
  worker::confine({.file_bytes = kLargestFile, .folder = order.folder, .file = order.file},
                  worker::Confinement::kSearch);
}

/// None when it was interrupted.
std::optional<Shipment> ship_served(const TuneJob& job, const PreparedJob& prepared,
                                    const tracker::TuneResult& result, tracker::SearchLink& link) {
  const bool favoured = tasks_favour_tuned(result, prepared.tasks);
  // No kernel of ours, so the two builds would be the same.
  if (prepared.tasks.empty()) return ship_unraced(job, prepared, favoured);
  const std::unique_ptr<db::Reader> records = link.records();
  // The tracker, which knows the device, answers of its class alone.
  RaceRecord record(job, prepared.tasks, prepared.target, {}, *records, link);
  bool interrupted = false;
  const RaceFiles race = [&](const std::string& untuned, const std::string& tuned, double seconds,
                             std::span<const int64_t> dims) {
    const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
    InterruptScope interrupt;
    RaceOutcome outcome = race_by_worker(
        link, result.job,
        // Names alone: the tracker opens nothing but files of the job's folder.
        [&] { return link.race(name(untuned), name(tuned), static_cast<int>(job.threads), seconds, dims); },
        [&] { return interrupt.interrupted(); });
    interrupted = interrupt.interrupted();
    return outcome;
  };
  const Shipment shipment = ship(race, job, prepared, favoured);
  if (interrupted) return std::nullopt;
  record.keep(shipment);
  return shipment;
}

}  // namespace

int internal_search_main(pid_t tracker) {
  // What a model that takes this process over may have started goes too.
  worker::die_with_parent_as_group(tracker);
  tracker::SearchLink link(kLinkDescriptor);
  // The one message that is parsed outside of the confinement, which takes its folder and its file from it.
  const tracker::SearchOrder order = link.order();
  confine_search(order);
  const Target target = target_of(order);
  TuneJob job = job_of(order, target);
  // What lies in the tracker's folder is as little trusted as what comes over a network.
  if (!job.model_digest.empty() && file_digest(job.file) != job.model_digest)
    fail("{}: what the tracker has kept is not what was uploaded; its operator removes {} and restarts it",
         job.model, job.model_digest);
  job.records = [&link] { return link.records(); };
  const PreparedJob prepared = prepare_job(job, target);
  const json tasks = tasks_json(prepared);
  link.tell("tasks", tasks.dump());

  tracker::TuneResult result;
  if (!prepared.tasks.empty()) {
    const std::unique_ptr<db::Reader> records = link.records();
    Teller teller(link, prepared, tasks.at("tasks").size());
    InterruptScope interrupt;
    tracker::TuneRequest request = search_request(job, prepared, order.resume);
    // Whether it can be served is the tracker's to see: it started us for devices that were there.
    request.patience = std::max(request.patience, 60.0);
    result = tracker::run_tune_job(
        request, prepared.tasks, {*records, link, link},
        [&](const tuner::SessionStatus& status) { teller.show(status); },
        [&] { return interrupt.interrupted(); });
    // Without delivering: the tracker knows what it is stopped for.
    if (result.interrupted) return kSuccess;
    teller.show(confirmed(result, prepared.tasks), /*last=*/true);
  }
  const std::optional<Shipment> shipment = ship_served(job, prepared, result, link);
  if (!shipment) return kSuccess;  // the job's next life races again
  // Without a choice inside the whole model, which runs it here: this machine is the tracker's,
  // not the job's device.
  const TuneReport report = report_tune_job(job, prepared.tasks,
                                            {result, tuner::WholeModelResult{}, *shipment, prepared.limits,
                                             families_of(job, prepared, *link.records())});
  if (!report.measured)
    fail("nothing was measured: {}", result.status.ending == tuner::Ending::kGivenUp
                                         ? "its devices have gone"
                                         : "every candidate failed");
  link.deliver(report.json, report.text);
  return kSuccess;
}

}  // namespace lathe::cli
