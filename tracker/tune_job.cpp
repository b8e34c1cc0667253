#include "tracker/tune_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "tracker/confirm.h"
#include "tracker/exchange.h"
#include "tracker/sampling.h"
#include "tuner/nearest_shape.h"
#include "tuner/record_meaning.h"
#include "tuner/whole_model.h"

namespace lathe::tracker {
namespace {

using std::chrono::milliseconds;

/// The target with its machine, which the text that keys the store leaves out.
Target target_of(const TuneRequest& request) {
  Target target = parse_target_text(request.target);
  target.measured = request.machine;
  return target;
}

wire::Evaluation evaluation_of(const TuneRequest& request, db::Purpose purpose) {
  wire::Evaluation evaluation = evaluation_for(purpose);
  evaluation.threads = static_cast<uint32_t>(request.threads);
  evaluation.tolerance = request.max_relative_error;
  evaluation.far_weights = request.far_weights;
  return evaluation;
}

/// The tuner's candidates as trials of one job of the farm.
class FarmMeasurer final : public tuner::Measurer {
 public:
  FarmMeasurer(const TuneRequest& request, const JobRows& rows, db::Reader& store, FarmClient& farm)
      : request_(request),
        job_(rows.job),
        workloads_(rows.workloads),
        target_(rows.target),
        store_(store),
        farm_(farm),
        patience_({request.seconds > 0, request.seconds, request.patience}) {}

  void submit(size_t task, std::span<const tuner::Proposal> proposals) override {
    std::vector<Candidate> candidates;
    // By the program's fingerprint candidates are told apart in the store; the trace is how to build it.
    for (const tuner::Proposal& proposal : proposals) {
      Candidate candidate{workloads_[task], schedule::to_json(proposal.trace), proposal.fingerprint,
                          proposal.score};
      candidate.evaluation = evaluation_of(request_, db::Purpose::kSearch);
      candidates.push_back(std::move(candidate));
    }
    std::vector<Submission> answers = farm_.submit(static_cast<JobId>(job_), candidates);
    for (size_t i = 0; i < answers.size(); ++i) {
      const Submission& answer = answers[i];
      tuner::Measured pending{task, proposals[i].trace, proposals[i].fingerprint};
      // On this device and with as many threads: answered from the store, as if a worker had done it.
      if (answer.status == Submission::Status::kMeasured)
        recall(std::move(pending), answer.measurement);
      else if (auto end =
                   answer.status == Submission::Status::kDuplicate ? ended(answer.trial) : std::nullopt)
        // It ended in an earlier life of this job. One that is still open there is waited for like any other.
        recalled_.push_back(answered(std::move(pending), std::move(*end)));
      else
        // By whoever has it now: what was withdrawn is of before.
        withdrawn_.erase({task, pending.fingerprint}), waiting_[answer.trial] = std::move(pending);
    }
  }

  std::vector<tuner::Measured> wait(milliseconds timeout) override {
    std::vector<tuner::Measured> answers = std::exchange(recalled_, {});
    for (Finished& finished :
         // No waiting when there is something to tell already.
         farm_.poll(static_cast<JobId>(job_), answers.empty() ? timeout : milliseconds(0))) {
      auto found = waiting_.find(finished.trial);
      // Of an earlier life of this job: in the store, where the session found it.
      if (found == waiting_.end()) continue;
      tuner::Measured answer = std::move(found->second);
      waiting_.erase(found);
      disturbance_.add(finished.result.disturbance);
      // It was on its way here when its worker was found to lie.
      if (withdrawn_.contains({answer.task, answer.fingerprint}))
        finished.result.outcome = Outcome::kWorkerLost;
      db::TrialEnd end{.outcome = finished.result.outcome,
                       .error = finished.result.message,
                       .samples = finished.result.samples};
      // Of many that nobody has taken the tracker keeps no samples (mailbox.h).
      if (end.outcome == Outcome::kOk && end.samples.empty()) end = ended(finished.trial).value_or(end);
      answers.push_back(answered(std::move(answer), std::move(end)));
    }
    // Patience is with a farm that is silent, not with a slow search.
    if (!answers.empty()) patience_.answered();
    if (answers.empty() && !waiting_.empty()) complain();
    if (!waiting_.empty() && patience_.is_over(farm_)) {
      // Nobody has come for what waits: the search ends with what it has.
      // What is cancelled comes with no result, so nothing is waited for after this.
      farm_.cancel(static_cast<JobId>(job_));
      waiting_.clear();
      given_up_ = farm_.status().given_up;
    }
    return answers;
  }

  /// Asked of the store when the farm says that there is something to ask, and in the beginning: an earlier
  /// life may have learnt what was withdrawn after it.
  std::vector<tuner::Withdrawn> withdrawn() override {
    std::vector<tuner::Withdrawn> found;
    const uint64_t distrusts = farm_.status().distrusts;
    if (std::exchange(seen_distrusts_, distrusts) == distrusts) return found;
    constexpr int kBelieved = 64;
    for (size_t task = 0; task < workloads_.size(); ++task) {
      const db::BestQuery query{.workload = workloads_[task],
                                .target = target_,
                                .device = request_.device,
                                .threads = request_.threads,
                                .max_relative_error = request_.max_relative_error};
      tuner::Withdrawn withdrawn{.task = task};
      for (const db::Measurement& doubtful : store_.top_suspect(query, kMostSuspect))
        if (withdrawn_.emplace(task, doubtful.program).second)
          withdrawn.fingerprints.insert(doubtful.program);
      if (withdrawn.fingerprints.empty()) continue;
      for (const db::Measurement& left : store_.top(query, kBelieved))
        if (auto trace = schedule::readable_trace(left.trace))
          withdrawn.believed.push_back({std::move(*trace), left.seconds});
      found.push_back(std::move(withdrawn));
    }
    return found;
  }

  const JobDisturbance& disturbance() const { return disturbance_; }
  const Patience& patience() const { return patience_; }
  size_t in_flight() const override { return waiting_.size() + recalled_.size(); }
  bool has_given_up() const override { return given_up_; }
  // Twice what is measured at once: no device waits for the search to think.
  size_t capacity() const override {
    // At least 16, so that a farm without a worker yet has some work when the first comes; at most half of
    // what a job may queue, as a batch is submitted whole.
    return std::clamp<size_t>(size_t{2} * farm_.status().slots, 16, defaults::kQueueOfJob / 2);
  }

 private:
  /// How a trial of an earlier life of this job ended; none while it is open, and will be delivered.
  std::optional<db::TrialEnd> ended(TrialId trial) {
    return store_.trial_end(job_, static_cast<db::TrialId>(trial));
  }

  static tuner::Measured answered(tuner::Measured pending, db::TrialEnd end) {
    pending.outcome = end.outcome.value_or(Outcome::kWorkerLost);
    pending.message = std::move(end.error);
    // Measured well, and then found suspect and replaced, say: nothing is known of it.
    if (end.samples.empty() && pending.outcome == Outcome::kOk) pending.outcome = Outcome::kWorkerLost;
    if (pending.outcome == Outcome::kOk) pending.seconds = median({end.samples.begin(), end.samples.end()});
    return pending;
  }

  /// Says so when for a while no worker could take what waits.
  void complain() {
    // F11 asks for it within 5 s; a worker that is only starting is up by then.
    constexpr auto kAwhile = std::chrono::seconds(4);
    const auto now = std::chrono::steady_clock::now();
    if (complained_ || !request_.say) return;
    const std::string unserved = unserved_text(farm_.status());
    if (unserved.empty()) {
      unserved_since_ = {};
    } else if (unserved_since_ == std::chrono::steady_clock::time_point{}) {
      unserved_since_ = now;
    } else if (now - unserved_since_ > kAwhile) {
      complained_ = true;
      request_.say(unserved);
    }
  }

  /// Another job may have accepted what is too far off for this one.
  void recall(tuner::Measured pending, int64_t measurement) {
    if (const auto known = store_.measurement(workloads_[pending.task], target_, measurement)) {
      pending.seconds = known->seconds;
      if (known->relative_error > request_.max_relative_error) pending.outcome = Outcome::kWrongResult;
    }
    recalled_.push_back(std::move(pending));
  }

  const TuneRequest& request_;
  db::JobId job_;
  std::vector<db::WorkloadId> workloads_;
  db::TargetId target_;
  db::Reader& store_;
  FarmClient& farm_;
  Patience patience_;
  std::unordered_map<TrialId, tuner::Measured> waiting_;
  std::vector<tuner::Measured> recalled_;
  std::optional<uint64_t> seen_distrusts_;
  std::set<std::pair<size_t, std::string>> withdrawn_;  // tasks and fingerprints
  JobDisturbance disturbance_;
  std::chrono::steady_clock::time_point unserved_since_;
  bool complained_ = false, given_up_ = false;
};

JobStart start_of(const TuneRequest& request, std::span<const tuner::Task> tasks) {
  JobStart start{.kind = request.kind,
                 .model = request.model,
                 .model_digest = request.model_digest,
                 .target = request.target,
                 .threads = request.threads,
                 .trials = request.trials,
                 .seconds = request.seconds,
                 .seed = static_cast<int64_t>(request.seed),
                 .options = request.options,
                 .resume = request.resume};
  for (const tuner::Task& task : tasks)
    start.tasks.push_back({{task.digest, task.text, task.flops, task.bytes}, task.name, task.calls});
  return start;
}

/// What this job may call best.
db::BestQuery query_of(const TuneRequest& request, const JobRows& rows, db::WorkloadId workload) {
  return {.workload = workload,
          .target = rows.target,
          .device = request.device,
          .threads = request.threads,
          .strict = request.device.has_value(),
          .max_relative_error = request.max_relative_error};
}

/// A search that knows nothing of its task starts from what is best for the nearest shape.
void suggest_nearest(const TuneRequest& request, const JobRows& rows, size_t task, db::Reader& store,
                     tuner::Session& session) {
  db::BestQuery query = query_of(request, rows, rows.workloads[task]);
  // A start for a search need not be certain: it is measured here first.
  query.accept_unconfirmed = true;
  if (auto nearest = tuner::nearest_shape(store, query); nearest && nearest->applies)
    session.suggest(task, nearest->trace);
}

/// What the report compares the best with is measured as often, and beside it.
void update_defaults(const tuner::DefaultRecords& defaults, const JobRows& rows,
                     std::span<const tuner::Task> tasks, tuner::SessionStatus& status) {
  double model_seconds = 0;
  bool all_measured = true;
  for (size_t i = 0; i < tasks.size(); ++i) {
    double& seconds = status.tasks[i].default_seconds;
    if (auto known = defaults.find(rows.workloads[i]); known != defaults.end())
      seconds = known->second.told_seconds;
    model_seconds += tasks[i].weight() * seconds;
    all_measured &= seconds > 0;
  }
  status.default_model_seconds = all_measured ? model_seconds : 0;
}

/// Lets the job's open trials end, of an earlier life of it, whose results nobody waits for.
/// Results are in the store when in_flight() says 0: the tracker settles before it obeys.
void drain(JobId job, FarmClient& farm, const Patience& patience, const std::function<bool()>& stop) {
  while (farm.in_flight(job) > 0 && !stop()) {
    farm.poll(job, milliseconds(100));
    if (patience.is_over(farm)) farm.cancel(job);
  }
}

/// Measures the leaders of each task and its default schedule again, and then what is told of them, as often
/// as earlier lives of the job have not.
JobDisturbance confirm(const TuneRequest& request, const JobRows& rows, std::span<const tuner::Task> tasks,
                       const Target& target, db::Reader& store, FarmClient& farm, Patience patience,
                       const std::function<bool()>& stop) {
  const auto job = static_cast<JobId>(rows.job);
  // Whose result is still to come may be a leader.
  drain(job, farm, patience, stop);
  const db::ChoiceKey key{{}, rows.target, request.threads, request.max_relative_error};
  const auto defaults_now = [&] { return tuner::default_records(store, key, tasks, target, request.device); };
  const auto query = [&](db::WorkloadId workload) { return query_of(request, rows, workload); };
  const wire::Evaluation evaluation = evaluation_of(request, db::Purpose::kConfirm);
  // So that a job that was killed while it confirmed does not do so again from the start.
  const auto known = store.confirmations(rows.job);
  JobDisturbance sum;
  const auto measure = [&](std::vector<Leader> leaders, db::Purpose purpose) {
    for (Leader& leader : leaders)
      if (const auto found = known.find({leader.workload, leader.program}); found != known.end())
        leader.again = found->second;
    const bool goes_on = measure_again(leaders, purpose, job, evaluation, farm, patience, stop);
    for (const Leader& leader : leaders) sum.add(leader.disturbance);
    return goes_on;
  };
  std::vector<std::string> default_programs;
  for (const tuner::Task& task : tasks) default_programs.push_back(tuner::default_fingerprint(task, target));
  if (measure(find_leaders(store, rows.workloads, query, default_programs, defaults_now()),
              db::Purpose::kConfirm))
    // Read anew: what was doubtful may be a record now.
    measure(find_told(store, rows.workloads, query, defaults_now()), db::Purpose::kTell);
  return sum;
}

/// What is left of an earlier life of the job; nothing where that came to no checkpoint of every task.
std::optional<std::vector<tuner::SavedTask>> saved_tasks(const JobRows& rows, db::Reader& store) {
  std::vector<tuner::SavedTask> saved;
  for (db::JobTask& task : store.job_tasks(rows.job)) {
    // The model may have been cut into other tasks by another release: its checkpoint is of no use then.
    const bool is_ours =
        saved.size() < rows.workloads.size() && task.workload == rows.workloads[saved.size()];
    if (!is_ours || task.checkpoint.empty()) return std::nullopt;
    std::map<std::string, std::string> candidates;
    // A checkpoint names candidates by their programs, and is small for it.
    for (db::KnownCandidate& known : store.candidates(rows.job, task.workload, rows.target))
      candidates.emplace(std::move(known.program), std::move(known.trace));
    saved.push_back({std::move(task.checkpoint), std::move(candidates)});
  }
  // Half a search is none: the tasks share one allocation of trials and one cost model.
  if (saved.size() != rows.workloads.size()) return std::nullopt;
  return saved;
}

/// The search where its last checkpoint left it; null when there is none, or none that can be read.
std::unique_ptr<tuner::Session> restored(const std::function<std::unique_ptr<tuner::Session>()>& new_session,
                                         const TuneRequest& request, const JobRows& rows, db::Reader& store) {
  const auto saved = saved_tasks(rows, store);
  if (!saved) return nullptr;
  // A fresh one each time, since one whose restore() has thrown is half another's.
  std::unique_ptr<tuner::Session> session = new_session();
  const auto model = store.cost_model_of(rows.job);
  try {
    session->restore(*saved, model ? model->model : "");
  } catch (const Error& error) {
    if (request.say)
      request.say(
          fmt::format("job {}: {}. Its search begins anew, with what it has measured; nothing else is lost",
                      rows.uuid, error.what()));
    return nullptr;
  }
  return session;
}

/// A search that begins with what is known of its tasks.
void tell_what_is_known(tuner::Session& session, const TuneRequest& request,
                        std::span<const tuner::Task> tasks, const JobRows& rows, db::Reader& store) {
  UntunedSchedules untuned(target_of(request));
  // What any job has measured of the same workloads, this one's earlier lives among them.
  for (size_t i = 0; i < rows.workloads.size(); ++i) {
    // Of other threads, or of suspect workers, times say nothing about these candidates.
    const std::vector<db::Measurement> history = store.history(rows.workloads[i], rows.target);
    for (const db::Measurement& known : history)
      if (known.threads == request.threads && !known.suspect &&
          (!request.device || known.device == *request.device) &&
          known.relative_error <= request.max_relative_error)
        if (auto trace = schedule::readable_trace(known.trace)) session.know(i, *trace, known.seconds);
    if (!request.suggested.empty())
      for (const schedule::Trace& trace : request.suggested[i]) session.suggest(i, trace);
    else if (history.empty())
      suggest_nearest(request, rows, i, store, session);
    untuned.suggest(tasks[i], session, i);
  }
  if (auto known = store.latest_cost_model(rows.target)) session.know_model(known->model);
}

/// What an earlier life of the job tried, some of it in vain: once more it would be no trial, but would be
/// counted as one.
void pass_over_what_was_tried(tuner::Session& session, const JobRows& rows, db::Reader& store) {
  for (size_t i = 0; i < rows.workloads.size(); ++i)
    for (const db::KnownCandidate& known : store.candidates(rows.job, rows.workloads[i], rows.target))
      if (known.tried) session.pass_over(i, known.program);
}

JobCheckpoint job_checkpoint(const JobRows& rows, const tuner::RoundCheckpoint& round) {
  JobCheckpoint checkpoint{.job = rows.job, .target = rows.target, .round = round.round};
  for (const tuner::RoundCheckpoint::Task& task : round.tasks)
    checkpoint.tasks.push_back({rows.workloads[task.task], task.bytes});
  if (!round.model.empty())
    checkpoint.model = {round.model, static_cast<int64_t>(round.lessons), round.quality.spearman,
                        round.quality.recall};
  return checkpoint;
}

}  // namespace

TuneResult run_tune_job(const TuneRequest& request, std::span<const tuner::Task> tasks,
                        const JobPlaces& places, const tuner::Session::OnChange& on_change,
                        const std::function<bool()>& stop) {
  const auto& [store, writer, farm] = places;
  // From here on the job is in the store: a crash leaves it to be resumed.
  const JobRows rows = writer.begin(start_of(request, tasks));
  TuneResult result{.job = rows.job, .uuid = rows.uuid};
  FarmMeasurer measurer(request, rows, store, farm);
  tuner::SessionOptions options{.trials = request.trials,
                                .seconds = request.seconds,
                                .target_seconds = request.target_seconds,
                                .limits = request.limits,
                                .seed = request.seed,
                                .rounding = schedule::rounding_within(request.max_relative_error)};
  const auto new_session = [&] {
    return std::make_unique<tuner::Session>(tasks, target_of(request), measurer, options);
  };
  std::unique_ptr<tuner::Session> session = restored(new_session, request, rows, store);
  bool searches = true;
  if (!session) {
    // What was submitted before any checkpoint, if the job had an earlier life, counts too.
    drain(static_cast<JobId>(rows.job), farm, measurer.patience(), stop);
    const int64_t ended = store.job_progress(rows.job).ended();
    if (request.trials > 0) {  // 0: no limit
      // Of the budget of all lives together; a restored session counts its own.
      options.trials = request.trials - ended;
      searches = options.trials > 0;
    }
    session = new_session();
    tell_what_is_known(*session, request, tasks, rows, store);
    if (ended > 0) pass_over_what_was_tried(*session, rows, store);
  }
  double kept_seconds = 0;  // of searching, with the checkpoints
  if (searches)
    session->run(on_change, stop, [&](const tuner::RoundCheckpoint& round) {
      JobCheckpoint checkpoint = job_checkpoint(rows, round);
      // The database adds up: each checkpoint brings what passed since the last.
      checkpoint.seconds = round.seconds - std::exchange(kept_seconds, round.seconds);
      places.writer.checkpoint(checkpoint);
    });
  exchange_leaders(
      rows, tasks, [&](db::WorkloadId workload) { return query_of(request, rows, workload); }, store,
      measurer, stop);
  // Whoever interrupts wants no confirmations, which take as long as a dozen candidates, nor the rest of
  // them: the next life makes them.
  result.interrupted = stop();
  result.status = session->status();
  result.disturbance = measurer.disturbance();
  if (!result.interrupted) {
    const db::ChoiceKey key{{}, rows.target, request.threads, request.max_relative_error};
    const Target target = target_of(request);
    result.disturbance.add(
        confirm(request, rows, tasks, target, store, farm, measurer.patience().next(0), stop));
    result.interrupted = stop();
    // Read anew: confirmations have moved them.
    update_defaults(tuner::default_records(store, key, tasks, target, request.device), rows, tasks,
                    result.status);
  }
  result.milestones = session->milestones();
  for (db::WorkloadId workload : rows.workloads) {
    // An unconfirmed winner is better than none, and the report says so (`confirmed`).
    db::BestQuery query = query_of(request, rows, workload);
    query.accept_unconfirmed = true;
    auto best = store.best(query);
    result.winners.emplace_back();
    if (best)
      result.winners.back() = {best->measurement.told_seconds, best->measurement.relative_error,
                               best->measurement.confirmed, best->measurement.confirmed_elsewhere,
                               best->measurement.trace};
  }
  writer.add_event(rows.job, "disturbance",
                   nlohmann::json{{"taken", result.disturbance.taken},
                                  {"disturbed", result.disturbance.disturbed},
                                  {"canary", result.disturbance.canary}}
                       .dump());
  const db::JobState state = result.interrupted ? request.when_stopped : db::JobState::kDone;
  // A tracker that comes to this database later would have them measured.
  if (state == db::JobState::kCancelled) farm.cancel(static_cast<JobId>(rows.job));
  writer.end(rows.job, state, result.status.seconds - kept_seconds);
  return result;
}

}  // namespace lathe::tracker
