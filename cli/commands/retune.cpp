// `tune retune`: what a database knows of other devices, again on this machine.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/command.h"
#include "cli/commands/commands.h"
#include "cli/farm_here.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/progress.h"
#include "cli/queries/question.h"
#include "cli/retune_plan.h"
#include "cli/target.h"
#include "core/codegen/host_target.h"
#include "core/runtime/cores.h"
#include "core/support/bounded_json.h"
#include "core/support/error.h"
#include "core/support/most_threads.h"
#include "core/support/printable.h"
#include "core/tir/machine.h"
#include "tracker/farm.h"
#include "tracker/tune_job.h"
#include "tuner/record_meaning.h"
#include "workers/confine.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

// A task's first round (tuner/session.cpp): the default schedule and the leaders of other devices. With fewer
// the first tasks would take what the last ones need.
constexpr int64_t kLeastTrials = 8;

struct Retune {
  std::string database, device, target = "cpu";
  int64_t trials = 64;  // of each task
  double seconds = 0;
  int64_t threads = 0, seed = 0;
  bool json = false;
};

/// What the table and the line of JSON say of a task. Times are 0 where there is none.
struct Row {
  std::string task, device;
  double elsewhere = 0, untuned = 0, best = 0;
  int elsewhere_threads = 0;
  int64_t calls = 0, trials = 0;
  double gain() const { return untuned > 0 && best > 0 ? untuned / best : 0; }
};

/// Of devices that share a host's name also the beginning of the fingerprint.
std::string device_name(db::Store& store, db::DeviceId id) {
  const db::Device device = store.device(id);
  for (const auto& [other, each] : store.devices())
    if (other != id && each.host == device.host)
      return fmt::format("{} ({})", device.host, db::fingerprint(device).substr(0, 12));
  return device.host;
}

std::string table_text(const std::vector<Row>& rows, int threads) {
  std::string text = fmt::format("{:<40} {:>10}  {:<24} {:>10} {:>10} {:>6} {:>6}\n", "task", "elsewhere",
                                 "where", "untuned", "best here", "gain", "trials");
  for (const Row& row : rows) {
    std::string where = row.device.empty() ? "-" : row.device;
    if (row.elsewhere_threads > 0 && row.elsewhere_threads != threads)
      where += fmt::format(", {} thread{}", row.elsewhere_threads, row.elsewhere_threads == 1 ? "" : "s");
    text +=
        fmt::format("{:<40} {:>10}  {:<24} {:>10} {:>10} {:>6} {:>6}\n", in_column(row.task, 40),
                    duration_text(row.elsewhere), where, duration_text(row.untuned), duration_text(row.best),
                    row.gain() > 0 ? fmt::format("{:.2f}x", row.gain()) : "-", row.trials);
  }
  return text;
}

Json report_json(const Retune& retune, const std::string& target, const RetunePlan& plan,
                 const std::vector<Row>& rows, bool interrupted) {
  const auto time = [](double seconds) { return seconds > 0 ? microseconds(seconds) : Json(); };
  Json tasks = Json::array();
  int64_t trials = 0;
  for (const Row& row : rows) {
    trials += row.trials;
    tasks.push_back({{"task", row.task},
                     {"calls", row.calls},
                     {"elsewhere_us", time(row.elsewhere)},
                     {"elsewhere", row.device.empty() ? Json() : Json(row.device)},
                     {"elsewhere_threads", row.elsewhere_threads > 0 ? Json(row.elsewhere_threads) : Json()},
                     {"untuned_us", time(row.untuned)},
                     {"best_us", time(row.best)},
                     {"gain", row.gain() > 0 ? thousandths(row.gain()) : Json()},
                     {"trials", row.trials}});
  }
  return {{"target", target},
          {"threads", retune.threads},
          {"tasks", std::move(tasks)},
          {"trials", trials},
          {"measured_here", plan.measured_here},
          {"begun", plan.begun},
          {"other_targets", plan.other_targets},
          {"unreadable", plan.unreadable},
          {"interrupted", interrupted}};
}

/// Whose knowledge is asked for. Throws Error where that is this machine's.
std::optional<db::DeviceId> source_of(const Retune& retune, db::Store& store,
                                      std::optional<db::DeviceId> here) {
  if (retune.device.empty()) return std::nullopt;
  const db::DeviceId source = find_device(store, "--device", retune.device);
  if (source == here)
    fail(
        "--device: `{}` is this machine, on which is measured; name the device whose schedules are to be "
        "measured here, or none for those of all",
        retune.device);
  return source;
}

/// Says what is left out, and why.
void say_plan(const Retune& retune, const RetunePlan& plan, const std::string& platform) {
  const auto count = [](int64_t n) { return fmt::format("{} task{}", n, n == 1 ? "" : "s"); };
  say("{} to measure here by {} thread{}, {} of them begun before; {} measured here already",
      count(static_cast<int64_t>(plan.tasks.size())), retune.threads, retune.threads == 1 ? "" : "s",
      plan.begun, plan.measured_here);
  if (plan.other_targets > 0)
    say("{} of other targets than {} left as they are", count(plan.other_targets), platform);
  if (plan.unreadable > 0) say("{} of other versions left out", count(plan.unreadable));
}

tracker::TuneRequest request_of(const Retune& retune, const RetunePlan& plan, const Target& target,
                                db::DeviceId here, double max_relative_error) {
  const auto threads = static_cast<int>(retune.threads);
  const MachineModel& machine = machine_of(target);
  tracker::TuneRequest request{.kind = "retune",
                               .model = "",
                               .model_digest = "",
                               .target = to_text(target),
                               .threads = threads,
                               .trials = retune.trials * static_cast<int64_t>(plan.tasks.size()),
                               .seconds = retune.seconds};
  request.limits = machine_limits(machine, std::max(target.cores, threads), threads);
  request.seed = static_cast<uint64_t>(retune.seed);
  request.max_relative_error = max_relative_error;
  // One job, one setting: that of the model which needs it most.
  request.far_weights = plan.weight_bytes > machine.kept_bytes;
  request.machine = target.measured;
  request.say = [](const std::string& line) { say("{}", line); };
  request.device = here;
  for (const RetuneTask& task : plan.tasks) request.suggested.push_back(task.leaders);
  // The same command plans anew with what was measured, and goes on by another job.
  request.when_stopped = db::JobState::kCancelled;
  return request;
}

/// This machine, the target and the models, as what is measured is to be found by.
db::DeviceId enter(db::Store& store, const RetunePlan& plan, const std::string& target) {
  db::Transaction transaction = store.begin();
  const db::DeviceId here = store.adopt_device(device_here()).first;
  const db::TargetId id = store.add_target(tuner::target_row(target));
  for (const ModelToAdopt& model : plan.models)
    store.adopt_model({.name = model.name, .digest = model.digest, .target = id, .tasks = model.tasks});
  transaction.commit();
  return here;
}

/// Cancels this command's jobs that were killed, as it does itself with those that are stopped: the plan has
/// what they left, so that nobody goes on with them, or measures for them.
void end_left_behind(db::Store& store) {
  std::set<db::JobId> left;
  for (const db::Job& job : store.jobs(std::numeric_limits<int>::max()))
    if (job.kind == "retune" && store.is_left_behind(job)) left.insert(job.id);
  std::vector<db::TrialId> open;
  store.visit_open_trials([&](const db::OpenTrial& trial) {
    if (left.contains(trial.job)) open.push_back(trial.id);
  });
  db::Transaction transaction = store.begin();
  for (const db::TrialId trial : open) store.cancel_trial(trial);
  for (const db::JobId job : left) store.set_job_state(job, db::JobState::kCancelled);
  transaction.commit();
}

std::vector<Row> rows_of(db::Store& store, const RetunePlan& plan, const tracker::TuneResult& result) {
  std::vector<Row> rows;
  for (size_t i = 0; i < plan.tasks.size(); ++i) {
    const RetuneTask& task = plan.tasks[i];
    Row row{.task = task.task.name, .calls = task.task.calls};
    if (task.elsewhere) {
      row.elsewhere = task.elsewhere->told_seconds;
      row.device = device_name(store, task.elsewhere->device);
      row.elsewhere_threads = task.elsewhere->threads;
    }
    row.untuned = result.status.tasks[i].default_seconds;
    row.trials = result.status.tasks[i].trials;
    row.best = result.winners[i].seconds;
    rows.push_back(std::move(row));
  }
  return rows;
}

int run_retune(const Retune& retune, RetunePlan plan, const Target& target, double max_relative_error) {
  std::vector<tuner::Task> tasks;
  for (RetuneTask& task : plan.tasks) {
    task.task.products = tuner::product_rate(task.task.workload, target);
    tasks.push_back(task.task);
  }
  db::Store store(retune.database);
  end_left_behind(store);
  const db::DeviceId here = enter(store, plan, to_text(target));
  tracker::StoreJobWriter writer(store);
  tracker::TuneResult result;
  {
    // Before the farm, whose folder and processes would be left behind.
    InterruptScope interrupt;
    FarmHere farm({retune.database, static_cast<int>(retune.threads)}, std::nullopt);
    TuneProgress progress(tasks, retune.json || is_quiet());
    const InterruptHint hint("stopped at once; what was recorded is kept. Go on with the same command");
    result = tracker::run_tune_job(
        request_of(retune, plan, target, here, max_relative_error), tasks, {store, writer, farm.tracker()},
        [&](const tuner::SessionStatus& status) { progress.show(status); },
        [&] { return interrupt.interrupted() || farm.is_unfit(); });
    if (!interrupt.interrupted()) farm.require_fit();
  }
  const std::vector<Row> rows = rows_of(store, plan, result);
  // Names of tasks and hosts came with packs: they are anybody's.
  fmt::print("{}", printable(table_text(rows, static_cast<int>(retune.threads))));
  if (retune.json)
    fmt::print("{}\n", json_line(report_json(retune, to_text(target), plan, rows, result.interrupted)));
  if (result.interrupted) {
    say("stopped; nothing measured is lost. The same command goes on");
    return kInterrupted;
  }
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.best > 0; })) return kSuccess;
  put_on_stderr("nothing was measured: every candidate failed\n");
  return kNegative;
}

}  // namespace

int retune_command(Flags& flags) {
  Retune retune;
  flags.add("--db FILE", retune.database, "the tuning database, which gets what is measured");
  flags.add(
      "--device NAME", retune.device,
      "whose knowledge is measured again: a host, or the beginning of a fingerprint (`tune query devices`); "
      "all other devices' if it is left out. What measures is always this machine");
  flags.add(
      "--target TARGET", retune.target,
      "cpu, or cpu:mcpu=NAME,...: what is measured for; tasks of any target of its architecture are taken");
  flags.add("--trials", retune.trials, 0, int64_t{1} << 30,
            "candidates to measure for each task, on the average, at least 8; 0: no limit (give --time "
            "then), as where --time "
            "alone is given");
  flags.add_duration("--time", retune.seconds, "stop searching after this long");
  flags.add("--threads", retune.threads, 0, kMostThreads, "threads a kernel runs on; 0: all cores");
  flags.add("--seed", retune.seed, 0, INT64_MAX, "the same seed searches the same way");
  flags.add("--json", retune.json, "end with one line of JSON");
  if (!flags.parse()) return kSuccess;
  if (flags.given("--time") && !flags.given("--trials")) retune.trials = 0;
  if (retune.trials == 0 && retune.seconds == 0) fail("--trials 0 is no limit: give a --time");
  if (retune.trials > 0 && retune.trials < kLeastTrials)
    fail(
        "--trials {}: at least {}, what is best elsewhere and the default schedule take as many; 0: no limit",
        retune.trials, kLeastTrials);
  worker::require_confinement();
  if (retune.database.empty()) retune.database = db::default_database_path();

  const Target named = codegen::resolve_target(retune.target);
  require_worker_here(named, retune.threads,
                      "run it on such a machine, on a database that knows others (`tune db export`, import)");
  if (retune.threads == 0) retune.threads = runtime::available_cores();
  const double max_relative_error = wire::Evaluation{}.tolerance;  // as `tune compile` accepts
  const std::string platform = tracker::platform_of(to_text(named));
  RetunePlan plan;
  {
    // Not to be made by a mistake in its name, nor changed before there is something to do.
    db::Store store(retune.database, {.read_only = true});
    RetuneScope scope{.target = to_text(named),
                      .threads = static_cast<int>(retune.threads),
                      .max_relative_error = max_relative_error,
                      .here = this_device(store)};
    scope.source = source_of(retune, store, scope.here);
    plan = plan_retune(store, scope);
  }
  const bool knows_none = plan.tasks.empty() && plan.measured_here == 0;
  if (knows_none)
    fail(
        "the database {} knows no task for {}{} that could be measured here: {} of other targets, {} of "
        "other "
        "versions",
        retune.database, platform, retune.device.empty() ? "" : fmt::format(" of `{}`", retune.device),
        plan.other_targets, plan.unreadable);
  say_plan(retune, plan, platform);
  if (plan.tasks.empty()) {
    say("nothing is left to do");
    if (retune.json) fmt::print("{}\n", json_line(report_json(retune, to_text(named), plan, {}, false)));
    return kSuccess;
  }
  return run_retune(retune, std::move(plan), target_of(retune.target), max_relative_error);
}

}  // namespace lathe::cli
