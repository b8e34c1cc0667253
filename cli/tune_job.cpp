// A job on this machine, in this process: a tracker and a worker of its own, the same search that a service
// runs (search_job.cpp), then the choice and the race.
#include "cli/tune_job.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "cli/exit_codes.h"
#include "cli/farm_here.h"
#include "cli/interrupt.h"
#include "cli/messages.h"
#include "cli/model_flags.h"
#include "cli/progress.h"
#include "cli/race_by_worker.h"
#include "cli/race_record.h"
#include "cli/running_model.h"
#include "cli/ship.h"
#include "cli/target.h"
#include "cli/tune_report.h"
#include "core/runtime/cores.h"
#include "core/support/text.h"
#include "core/support/working_folder.h"
#include "core/tir/machine.h"
#include "tracker/device_class.h"
#include "tracker/farm.h"
#include "tracker/race_spec.h"
#include "tracker/tracker.h"
#include "tracker/tune_job.h"
#include "tuner/best_schedules.h"
#include "tuner/final_build.h"
#include "tuner/load_model.h"
#include "tuner/optimize.h"
#include "tuner/whole_model.h"
#include "workers/confine.h"
#include "workers/device.h"

namespace lathe::cli {
namespace {
namespace fs = std::filesystem;

/// The job as it was asked for when it was started.
db::JobId recall(TuneJob& job, const std::string& uuid, db::Store& store) {
  auto found = store.find_job(uuid);
  if (!found) fail("no job `{}` in {}; `tune query jobs` lists them", uuid, job.database);
  if (found->kind == "retune")
    fail("job {} is one of `tune retune`, which goes on with what is left when it is called again",
         found->uuid);
  if (found->kind != "tune" || found->state == db::JobState::kDone)
    fail("job {} is {}: nothing to resume", found->uuid, std::string(db::to_string(found->state)));
  // What the database says of a job may be older than this program, or damaged: the request is checked again.
  try {
    static_cast<tracker::JobRequest&>(job) = tracker::parse_job_request(found->options);
    job.threads = found->threads;
    job.trials = found->trial_budget;
    job.seconds = found->second_budget > 0 ? std::max(1.0, found->second_budget - found->seconds_used) : 0;
    job.seed = found->seed;
    // Also the columns: a budget that no flag takes would be searched for ever.
    tracker::parse_job_request(tracker::to_json(job));
  } catch (const Error& error) {
    fail("job {} of {} cannot go on: {}", found->uuid, job.database, error.what());
  }
  return found->id;
}

/// A choice among the best schedules, made inside the model. Ctrl-C ends it early; what was found counts.
tuner::WholeModelResult choose(const TuneJob& job, const relay::Module& fused, const Target& target,
                               const db::ChoiceKey& key, double search_seconds) {
  constexpr double kShare = 0.2, kMostSeconds = 60;
  db::Store store(job.database);
  ProgressLine progress(job.json || is_quiet());
  InterruptScope interrupt;
  return tuner::choose_whole_model(
      fused, target, store, key,
      {.seconds =
           job.choice_seconds > 0 ? job.choice_seconds : std::min(kMostSeconds, kShare * search_seconds),
       .stop = [&] { return interrupt.interrupted(); },
       .on_change = [&](const tuner::ChoiceStatus& status) { progress.show(choice_text(status)); }});
}

/// The command that builds from what the job has measured.
std::string compile_text(const TuneJob& job) {
  std::string text = fmt::format(
      "tune compile --model {} --target {} --precision {} --threads {} --max-relative-error {} --db {}",
      job.model, job.target, job.precision, job.threads, job.max_relative_error, job.database);
  for (const auto& [input, shape] : job.shapes)
    text += fmt::format(" --shape {}={}", input, fmt::join(shape, "x"));
  for (const std::string& open : job.open) text += fmt::format(" --open {}", open);
  return text;
}

/// What is tuned, as a line; of open dimensions the sizes as well.
std::string contents_text(const PreparedJob& prepared) {
  if (prepared.points.none()) {
    int64_t calls = 0;
    for (const tuner::Task& task : prepared.tasks) calls += task.calls;
    return fmt::format("{} kernels, {} distinct tuning tasks", calls, prepared.tasks.size());
  }
  std::vector<std::string> sizes;
  for (size_t i = 0; i < prepared.points.points.size(); ++i)
    sizes.push_back(
        fmt::format("{} ({:.0f}%)", prepared.points.name(i), 100 * prepared.points.points[i].weight));
  return fmt::format("{} tuning tasks at {} sizes: {}", prepared.tasks.size(), sizes.size(),
                     join_text(sizes, "; "));
}

/// A race by one of the workers that the job has listened for.
RaceFiles race_there(const TuneJob& job, const PreparedJob& prepared, db::JobId id, tracker::Tracker& farm) {
  return [&, id](const std::string& untuned, const std::string& tuned, double seconds,
                 std::span<const int64_t> dims) {
    tracker::RaceOrder order{.job = static_cast<tracker::JobId>(id),
                             .target = to_text(prepared.target),
                             .incumbent = untuned,
                             .challenger = tuned,
                             .threads = static_cast<uint32_t>(job.threads),
                             .seconds = seconds,
                             .dims = {dims.begin(), dims.end()}};
    // By its operations the tracker knows a race that is faster than any machine could be.
    for (const tuner::Task& task : prepared.tasks)
      if (task.points.empty() || dims.empty()) order.flops += static_cast<double>(task.calls) * task.flops;
    InterruptScope interrupt;
    return race_by_worker(
        farm, order.job, [&] { return farm.race(tracker::race_spec(order)); },
        [&] { return interrupt.interrupted(); });
  };
}

/// As the database calls its device, whose class a tracker knows by the same words.
std::optional<db::DeviceKind> kind_of_this_machine() {
  return tracker::kind_of_class(tracker::device_class_of(worker::to_json(worker::probe_device())).name);
}

/// What follows the search: the choice, the race of what was chosen against the untuned build, the report.
/// `farm`: of a device that is not this machine, whose workers race; else null.
int finish(const TuneJob& job, const PreparedJob& prepared, const tracker::TuneResult& result,
           tracker::Tracker* farm) {
  const Target& target = prepared.target;
  const relay::Module& fused = prepared.fused;
  const std::span<const tuner::Task> tasks = prepared.tasks;
  const InterruptHint hint(
      fmt::format("stopped after the search; nothing measured is lost. Build with: {}", compile_text(job)));
  const auto report = [&](const tuner::WholeModelResult& choice, const Shipment& shipment) {
    db::Store store(job.database);
    return print_report(
        report_tune_job(job, tasks,
                        {result, choice, shipment, prepared.limits, families_of(job, prepared, store)}),
        job.json);
  };
  const bool favoured = tasks_favour_tuned(result, tasks);
  const RaceFiles race =
      farm ? race_there(job, prepared, result.job, *farm) : race_here(static_cast<int>(job.threads));
  if (tasks.empty())
    return report(
        {}, runs_here(target) ? ship(race, job, prepared, favoured) : ship_unraced(job, prepared, favoured));
  db::Store store(job.database);
  tracker::StoreJobWriter writer(store);
  // Which worker races, and on what, is not known here.
  RaceRecord record(job, tasks, target, farm ? std::nullopt : kind_of_this_machine(), store, writer);
  tuner::WholeModelResult choice;
  // Nobody chooses on a device elsewhere: the exchanges are timed in this process. And not at many sizes at
  // once: families are chosen by their kernels' times.
  if (!farm && prepared.points.none())
    choice = choose(job, fused, target, record.key(), result.status.seconds);
  const Shipment shipment = ship(race, job, prepared, favoured);
  record.keep(shipment);
  return report(choice, shipment);
}

PreparedJob prepare_model(const TuneJob& job, const relay::Module& loaded, const tuner::OpenDims& open,
                          Target target) {
  PreparedJob prepared{.target = std::move(target)};
  const relay::Module model = at_precision(loaded, job.precision, prepared.target);
  prepared.fused = tuner::optimize(model, prepared.target);
  prepared.points = tuner::open_points(prepared.fused, open);
  prepared.tasks = tuner::extract_tasks(prepared.fused, prepared.points);
  for (tuner::Task& task : prepared.tasks)
    task.products = tuner::product_rate(task.workload, prepared.target);
  if (!job.json) say("{}", contents_text(prepared));
  const auto threads = static_cast<int>(job.threads);
  const MachineModel& machine = machine_of(prepared.target);
  prepared.limits = machine_limits(machine, std::max(prepared.target.cores, threads), threads);
  // Beyond what stays in the caches from one run to the next, weights come from memory in the model, and so
  // they do when candidates are measured.
  prepared.far_weights = tuner::constant_bytes(prepared.fused) > machine.kept_bytes;
  return prepared;
}

}  // namespace

PreparedJob prepare_job(const TuneJob& job, Target target) {
  if (!job.json) say("{} for {}: reading the model", job.model, job.target);
  const std::string& source = source_of(job);
  const tuner::OpenDims open = tuner::parse_open_dims(job.open);
  const relay::Module model = tuner::load_model(source, job.shapes, open);
  return naming(source, [&] { return prepare_model(job, model, open, std::move(target)); });
}

tracker::TuneRequest search_request(const TuneJob& job, const PreparedJob& prepared,
                                    std::optional<db::JobId> resumed) {
  return {.model = job.model,
          .model_digest = tuner::tasks_digest(prepared.tasks),
          .target = to_text(prepared.target),
          .threads = static_cast<int>(job.threads),
          .trials = job.trials,
          .seconds = job.seconds,
          .target_seconds = job.target_ms * 1e-3,
          .limits = prepared.limits,
          .seed = static_cast<uint64_t>(job.seed),
          .max_relative_error = job.max_relative_error,
          .far_weights = prepared.far_weights,
          .options = tracker::to_json(job),
          .resume = resumed,
          .machine = prepared.target.measured,
          .say = [](const std::string& line) { say("{}", line); }};
}

bool tasks_favour_tuned(const tracker::TuneResult& result, std::span<const tuner::Task> tasks) {
  double before = 0, after = 0;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const double by_default = result.status.tasks[i].default_seconds, best = result.winners[i].seconds;
    if (by_default <= 0 || best <= 0) continue;
    before += tasks[i].weight() * by_default;
    after += tasks[i].weight() * best;
  }
  return after < before;
}

int run_tune_job_here(TuneJob job, const std::optional<std::string>& resume) {
  // A job that is resumed was asked for by a name that was good.
  if (!resume) module_name(job.model);
  // Before minutes are spent on the model.
  worker::require_confinement();
  if (job.database.empty()) job.database = db::default_database_path();
  const bool is_there = db::is_server(job.database) || fs::exists(absolute_path(job.database));
  if (resume && !is_there) fail("there is no database {}; `tune` makes one", job.database);
  std::optional<db::Store> store;
  std::optional<db::JobId> resumed;
  // One that is not there is made when all that was asked for has been found good.
  if (is_there) store.emplace(job.database);
  if (resume) resumed = recall(job, *resume, *store);
  tracker::check_request(job);
  if (job.folder.empty()) job.folder = "lathe-out/" + module_name(job.model);
  Target target = target_of(job.target);
  // Of this machine those that the process may use; another one's are its target's.
  if (job.threads == 0) job.threads = runs_here(target) ? runtime::available_cores() : target.cores;
  if (job.listen.empty())
    require_worker_here(target, job.threads,
                        "with --listen tcp://HOST:PORT workers of such machines join the job");
  const PreparedJob prepared = prepare_job(job, std::move(target));
  const std::span<const tuner::Task> tasks = prepared.tasks;
  // Before a search whose result could not be written down there.
  const OutputFolder folder(job.folder);

  tracker::TuneResult result;
  std::optional<FarmHere> farm;
  if (!tasks.empty()) {
    // Before the farm, whose folder and processes would be left behind.
    InterruptScope interrupt;
    farm.emplace(FarmPlace{job.database, static_cast<int>(job.threads), job.listen, job.key, job.allow},
                 resumed);
    if (!store) store.emplace(job.database);
    tracker::StoreJobWriter writer(*store);
    TuneProgress progress(tasks, job.json || is_quiet());
    const InterruptHint hint(
        fmt::format("stopped at once; what was recorded is kept. Go on with: tune resume JOB --db {0} (tune "
                    "query jobs --db {0})",
                    job.database));
    result = tracker::run_tune_job(
        search_request(job, prepared, resumed), tasks, {*store, writer, farm->tracker()},
        [&](const tuner::SessionStatus& status) { progress.show(status); },
        [&] { return interrupt.interrupted() || farm->is_unfit(); });
    if (!interrupt.interrupted()) farm->require_fit();
    // What is timed here from now on is alone on this machine.
    if (result.interrupted || runs_here(prepared.target)) farm.reset();
  }
  if (result.interrupted) {
    say("stopped; nothing measured is lost. Go on with: tune resume {} --db {}", result.uuid, job.database);
    return kInterrupted;
  }
  return finish(job, prepared, result, farm ? &farm->tracker() : nullptr);
}

}  // namespace lathe::cli
