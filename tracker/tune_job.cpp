#include "tracker/tune_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "core/support/error.h"
#include "core/support/statistics.h"
#include "tracker/confirm.h"
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

/// How a candidate is measured while searching, and how a winner is confirmed.
wire::Evaluation evaluation_of(const TuneRequest& request, bool confirm) {
  wire::Evaluation evaluation;
  evaluation.threads = static_cast<uint32_t>(request.threads);
  evaluation.budget_seconds = confirm ? 0.15 : 0.06;
  evaluation.max_samples = confirm ? 80 : 25;
  evaluation.relative_interval = confirm ? 0.005 : 0.02;
  evaluation.tolerance = request.max_relative_error;
  evaluation.far_weights = request.far_weights;
  return evaluation;
}

/// The tuner's candidates as trials of one job of the farm.
class FarmMeasurer final : public tuner::Measurer {
 public:
  FarmMeasurer(const TuneRequest& request, db::JobId job, std::vector<db::WorkloadId> workloads,
               db::TargetId target, db::Store& store, FarmClient& farm)
      : request_(request),
        job_(job),
        workloads_(std::move(workloads)),
        target_(target),
        store_(store),
        farm_(farm),
        patience_({request.seconds > 0, request.seconds, request.patience}) {}

  size_t submit(size_t task, std::span<const tuner::Proposal> proposals, double incumbent_seconds) override {
    std::vector<Candidate> candidates;
    for (const tuner::Proposal& proposal : proposals) {
      Candidate candidate{workloads_[task], schedule::to_json(proposal.trace), proposal.fingerprint,
                          proposal.score};
      candidate.evaluation = evaluation_of(request_, false);
      candidate.evaluation.incumbent_seconds = incumbent_seconds;
      candidates.push_back(std::move(candidate));
    }
    std::vector<Submission> answers = farm_.submit(static_cast<JobId>(job_), candidates);
    size_t fresh = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      tuner::Measured pending{task, proposals[i].trace, proposals[i].fingerprint};
      if (answers[i].status == Submission::Status::kQueued) {
        waiting_[answers[i].trial] = std::move(pending);
        ++fresh;
      } else if (answers[i].status == Submission::Status::kMeasured) {
        recall(std::move(pending), answers[i].measurement);
        ++fresh;
      }
    }
    return fresh;
  }

  std::vector<tuner::Measured> wait(milliseconds timeout) override {
    std::vector<tuner::Measured> answers = std::exchange(recalled_, {});
    for (const Finished& finished :
         farm_.poll(static_cast<JobId>(job_), answers.empty() ? timeout : milliseconds(0))) {
      auto found = waiting_.find(finished.trial);
      // A trial of an earlier life of this job: its result is in the store, which the session learnt from.
      if (found == waiting_.end()) continue;
      tuner::Measured answer = std::move(found->second);
      waiting_.erase(found);
      disturbance_.add(finished.result.disturbance);
      answer.outcome = finished.result.outcome;
      answer.message = finished.result.message;
      if (answer.outcome == Outcome::kOk)
        answer.seconds = median({finished.result.samples.begin(), finished.result.samples.end()});
      answers.push_back(std::move(answer));
    }
    if (!answers.empty()) patience_.answered();
    if (answers.empty() && !waiting_.empty()) complain();
    if (!waiting_.empty() && patience_.is_over(farm_)) {
      farm_.cancel(static_cast<JobId>(job_));
      waiting_.clear();
    }
    return answers;
  }

  const JobDisturbance& disturbance() const { return disturbance_; }
  size_t in_flight() const override { return waiting_.size() + recalled_.size(); }
  size_t capacity() const override { return std::max<size_t>(2 * farm_.status().slots, 16); }

 private:
  /// Says so when for a while no worker could take what waits.
  void complain() {
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
    for (const db::Measurement& known : store_.history(workloads_[pending.task], target_)) {
      if (known.id != measurement) continue;
      pending.seconds = known.seconds;
      if (known.relative_error > request_.max_relative_error) pending.outcome = Outcome::kWrongResult;
    }
    recalled_.push_back(std::move(pending));
  }

  const TuneRequest& request_;
  db::JobId job_;
  std::vector<db::WorkloadId> workloads_;
  db::TargetId target_;
  db::Store& store_;
  FarmClient& farm_;
  Patience patience_;
  std::unordered_map<TrialId, tuner::Measured> waiting_;
  std::vector<tuner::Measured> recalled_;
  JobDisturbance disturbance_;
  std::chrono::steady_clock::time_point unserved_since_;
  bool complained_ = false;
};

JobStart start_of(const TuneRequest& request, std::span<const tuner::Task> tasks) {
  JobStart start{.model = request.model,
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
          .threads = request.threads,
          .max_relative_error = request.max_relative_error};
}

/// A search that knows nothing of its task starts from what is best for the nearest shape.
void suggest_nearest(const TuneRequest& request, const JobRows& rows, size_t task, db::Store& store,
                     tuner::Session& session) {
  db::BestQuery query = query_of(request, rows, rows.workloads[task]);
  query.accept_unconfirmed = true;
  if (auto nearest = tuner::nearest_shape(store, query); nearest && nearest->applies)
    session.suggest(task, nearest->trace);
}

/// What the report compares the best with is measured as often, and beside it.
void update_defaults(const tuner::DefaultRecords& defaults, const JobRows& rows,
                     tuner::SessionStatus& status) {
  for (size_t i = 0; i < rows.workloads.size(); ++i)
    if (auto known = defaults.find(rows.workloads[i]); known != defaults.end())
      status.tasks[i].default_seconds = known->second.seconds;
}

/// Measures the leaders of each task and its default schedule again.
JobDisturbance confirm(const TuneRequest& request, const JobRows& rows, const tuner::DefaultRecords& defaults,
                       db::Store& store, FarmClient& farm) {
  std::vector<Leader> leaders = find_leaders(
      store, rows.workloads, [&](db::WorkloadId workload) { return query_of(request, rows, workload); },
      defaults);
  Patience patience({request.seconds > 0, 0, request.patience});
  confirm_leaders(leaders, static_cast<JobId>(rows.job), evaluation_of(request, true), farm, patience);
  JobDisturbance sum;
  for (const Leader& leader : leaders) sum.add(leader.disturbance);
  return sum;
}

}  // namespace

TuneResult run_tune_job(const TuneRequest& request, std::span<const tuner::Task> tasks,
                        const JobPlaces& places, const tuner::Session::OnChange& on_change,
                        const std::function<bool()>& stop) {
  const auto& [store, writer, farm] = places;
  const JobRows rows = writer.begin(start_of(request, tasks));
  TuneResult result{.job = rows.job, .uuid = rows.uuid};
  FarmMeasurer measurer(request, rows.job, rows.workloads, rows.target, store, farm);
  tuner::SessionOptions options{.trials = request.trials,
                                .seconds = request.seconds,
                                .target_seconds = request.target_seconds,
                                .limits = request.limits,
                                .seed = request.seed,
                                .rounding = schedule::rounding_within(request.max_relative_error)};
  bool searches = true;
  if (request.resume) {
    // Trials open since the job's earlier life end first: the search learns from them, and they count.
    const auto job = static_cast<JobId>(rows.job);
    while (farm.in_flight(job) > 0 && !stop()) farm.poll(job, milliseconds(100));
    if (request.trials > 0) {  // 0: no limit
      options.trials = request.trials - store.job_progress(rows.job).ended();
      searches = options.trials > 0;
    }
  }
  tuner::Session session(tasks, target_of(request), measurer, options);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const std::vector<db::Measurement> history = store.history(rows.workloads[i], rows.target);
    for (const db::Measurement& known : history)
      if (known.threads == request.threads && !known.suspect &&
          known.relative_error <= request.max_relative_error)
        session.know(i, schedule::parse_trace(known.trace), known.seconds);
    if (history.empty()) suggest_nearest(request, rows, i, store, session);
  }
  if (auto known = store.latest_cost_model(rows.target)) session.know_model(known->model);
  if (searches) session.run(on_change, stop);
  result.interrupted = stop();
  result.status = session.status();
  result.disturbance = measurer.disturbance();
  if (!result.interrupted) {
    const db::ChoiceKey key{{}, rows.target, request.threads, request.max_relative_error};
    const Target target = target_of(request);
    result.disturbance.add(
        confirm(request, rows, tuner::default_records(store, key, tasks, target), store, farm));
    update_defaults(tuner::default_records(store, key, tasks, target), rows, result.status);
  }
  result.milestones = session.milestones();
  if (std::string model = session.saved_model(); !model.empty())
    writer.save_cost_model({rows.job, rows.target, 0, result.status.trials, result.status.quality.spearman,
                            result.status.quality.recall, model});
  for (db::WorkloadId workload : rows.workloads) {
    db::BestQuery query = query_of(request, rows, workload);
    query.accept_unconfirmed = true;
    auto best = store.best(query);
    result.winners.emplace_back();
    if (best)
      result.winners.back() = {best->measurement.seconds, best->measurement.relative_error,
                               best->measurement.confirmed, best->measurement.confirmed_elsewhere,
                               best->measurement.trace};
  }
  writer.add_event(rows.job, "disturbance",
                   nlohmann::json{{"taken", result.disturbance.taken},
                                  {"disturbed", result.disturbance.disturbed},
                                  {"canary", result.disturbance.canary}}
                       .dump());
  writer.end(rows.job, result.interrupted ? db::JobState::kStopped : db::JobState::kDone,
             result.status.seconds);
  return result;
}

}  // namespace lathe::tracker
