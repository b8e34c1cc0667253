#include "tuner/session.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "core/support/text.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/budget.h"
#include "tuner/features.h"

namespace lathe::tuner {
namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Measurements it takes to rank better than not at all; and so many more of each task to rank better than a
/// model of other tasks (bench/results/2026-11-21-search-quality.md).
constexpr size_t kEnough = 32, kMoreOfEachTask = 8;
/// Candidates in a task's first round, at most.
constexpr size_t kFirstRound = 8;
using Clock = std::chrono::steady_clock;

/// A line that differs when the features do.
std::string feature_version() {
  std::string names;
  for (const std::string& name : feature_names()) names += name + "\n";
  return "features " + sha256(names) + "\n";
}
}  // namespace

struct Session::Impl {
  // The vectors below are by task, in its order, except for `samples` and `milestones`.
  std::span<const Task> tasks;
  Target target;
  Measurer& measurer;
  SessionOptions options;
  schedule::Random random;
  CostModel model;
  RankQuality quality;
  std::vector<TaskSearch> searches;
  std::vector<TaskProgress> progress;
  std::vector<TaskState> states;
  std::vector<Sample> samples;
  // How many of `samples` the model has learnt from; 0 while it is another job's or none.
  size_t trained_on = 0;
  std::unordered_map<std::string, Features> features;  // of candidates in flight, by task and fingerprint
  std::vector<std::string> default_fingerprint;
  int64_t submitted = 0, answered = 0;
  std::vector<Milestone> milestones;
  Ending ending = Ending::kBudget;
  Clock::time_point start = Clock::now();

  Impl(std::span<const Task> t, const Target& target_, Measurer& m, SessionOptions o)
      : tasks(t), target(target_), measurer(m), options(o), random(o.seed), model({.seed = o.seed}) {
    std::unordered_map<std::string, int> families;
    for (size_t i = 0; i < tasks.size(); ++i) {
      searches.emplace_back(tasks[i].workload, target, random.next(),
                            SearchSettings{.rounding = options.rounding});
      // "conv2d_add_1" and "conv2d_add" are of one family: the number tells shapes apart (extract_tasks).
      std::string family = tasks[i].name.substr(0, tasks[i].name.find_last_not_of("_0123456789") + 1);
      int number = families.emplace(family, static_cast<int>(families.size())).first->second;
      double limit =
          options.limits.flops > 0 ? roofline(tasks[i].flops, tasks[i].bytes, options.limits).seconds : 0;
      progress.push_back({.weight = static_cast<double>(tasks[i].calls), .limit = limit, .family = number});
    }
    states.resize(tasks.size());
    for (const Task& task : tasks)
      // A default that is measured under whatever trace has this fingerprint, so it is told by the program
      // and not by the steps.
      default_fingerprint.push_back(
          fingerprint(schedule::replay(schedule::default_trace(task.workload, target), task.workload)));
  }

  /// Seconds since run() began.
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start).count(); }
  /// Counts what was submitted, not what was answered: nothing beyond the budget is ever sent.
  bool spent() const {
    return (options.trials > 0 && submitted >= options.trials) ||
           (options.seconds > 0 && elapsed() >= options.seconds);
  }

  /// The sum of calls x `of` over the tasks; 0 until every task has one.
  double sum_of(double TaskState::*of) const {
    double sum = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].*of <= 0) return 0;
      sum += static_cast<double>(tasks[i].calls) * states[i].*of;
    }
    return sum;
  }

  /// Why no more is to be proposed; nothing while the search goes on.
  std::optional<Ending> ended(const std::function<bool()>& stop) const {
    // Who stops comes first, then what was asked for, then what it may cost: of several reasons the first is
    // told.
    if (stop()) return Ending::kStopped;
    double model = sum_of(&TaskState::best_seconds);
    if (model > 0 && model <= options.target_seconds) return Ending::kTarget;
    if (spent()) return Ending::kBudget;
    if (std::all_of(progress.begin(), progress.end(), [](const TaskProgress& p) { return p.exhausted; }))
      return Ending::kExhausted;
    if (model > 0 && nothing_to_gain(progress, model)) return Ending::kNoGain;
    return std::nullopt;
  }

  /// A fingerprint names a candidate within its task.
  static std::string key(size_t task, const std::string& fingerprint) {
    return std::to_string(task) + ":" + fingerprint;
  }

  /// Empty without a model: the search then samples at random.
  Score scorer() {
    if (!options.guided || !model.trained()) return {};
    return [this](std::span<const tir::Func> programs) {
      std::vector<Features> rows;
      for (const tir::Func& program : programs) rows.push_back(extract_features(program, target));
      std::vector<float> scores = model.predict(rows);
      return std::vector<double>(scores.begin(), scores.end());
    };
  }

  /// Sends a round of candidates for one task. REQUIRES: not ended.
  void propose_round() {
    auto task = next_task(progress, random);
    // Without a limit on trials rounds are as large as in a job of 1000.
    auto count = static_cast<size_t>(round_size(options.trials > 0 ? options.trials : 1000, tasks.size()));
    // Every task has its first results early, however short the job.
    if (progress[*task].best_after.empty()) count = std::min(count, kFirstRound);
    if (options.trials > 0) count = std::min(count, static_cast<size_t>(options.trials - submitted));
    std::vector<Proposal> proposals = searches[*task].propose(count, scorer());
    if (proposals.empty()) {
      progress[*task].exhausted = states[*task].exhausted = true;
      return;
    }
    for (const Proposal& proposal : proposals)
      features[key(*task, proposal.fingerprint)] = extract_features(proposal.program, target);
    // Those that the store answers cost no trial.
    submitted += static_cast<int64_t>(measurer.submit(*task, proposals, states[*task].best_seconds));
    // Until answers come, the round counts as one that changed nothing: other tasks get their turn.
    progress[*task].best_after.push_back(states[*task].best_seconds > 0 ? states[*task].best_seconds
                                                                        : kNever);
  }

  /// Passes one answer on to the task's search, to the data of the cost model and to the budget's view of the
  /// task. Answers come in any order.
  void learn(const Measured& answer) {
    TaskState& state = states[answer.task];
    ++answered;
    ++state.trials;
    ++state.since_best;
    ++state.outcomes[static_cast<size_t>(answer.outcome)];
    bool ok = answer.outcome == Outcome::kOk;
    searches[answer.task].report(answer.trace, answer.fingerprint,
                                 ok ? std::optional(answer.seconds) : std::nullopt);
    auto found = features.find(key(answer.task, answer.fingerprint));
    // A worker that was lost says nothing about the candidate; any other failure does, and is a sample of
    // speed 0.
    if (found != features.end() && answer.outcome != Outcome::kWorkerLost) {
      samples.push_back(
          {static_cast<int>(answer.task), std::move(found->second), ok ? answer.seconds : kNever});
      features.erase(found);
    }
    if (!ok) return;
    if (answer.fingerprint == default_fingerprint[answer.task]) state.default_seconds = answer.seconds;
    if (state.best_seconds == 0 || answer.seconds < state.best_seconds) {
      state.best_seconds = answer.seconds;
      state.best = answer.trace;
      state.since_best = 0;
      // An answer may be of an earlier round than the last; it counts for the last one all the same.
      if (!progress[answer.task].best_after.empty()) progress[answer.task].best_after.back() = answer.seconds;
    }
  }

  /// Retrains when the data has grown by a quarter: the cost stays in proportion.
  void train() {
    // A model that is another job's stays until there is more to learn from than it takes to beat none.
    bool inherited = trained_on == 0 && model.trained();
    if (samples.size() < kEnough + (inherited ? kMoreOfEachTask * tasks.size() : 0) ||
        samples.size() < trained_on + std::max(kEnough, trained_on / 4))
      return;
    quality = model.train(samples);
    trained_on = samples.size();
  }

  SessionStatus status() const {
    SessionStatus s;
    s.trials = answered;
    s.budget = options.trials;
    s.seconds = elapsed();
    s.quality = quality;
    s.ending = ending;
    s.tasks = states;
    // Of two budgets the one that ends first tells how long it takes.
    double by_trials = options.trials > 0 && answered > 0
                           ? s.seconds / static_cast<double>(answered) *
                                 static_cast<double>(std::max<int64_t>(0, options.trials - answered))
                           : kNever;
    double by_time = options.seconds > 0 ? std::max(0.0, options.seconds - s.seconds) : kNever;
    s.seconds_left = std::min(by_trials, by_time);
    s.model_seconds = sum_of(&TaskState::best_seconds);
    s.default_model_seconds = sum_of(&TaskState::default_seconds);
    return s;
  }
};

Session::Session(std::span<const Task> tasks, const Target& target, Measurer& measurer,
                 SessionOptions options)
    : impl_(std::make_unique<Impl>(tasks, target, measurer, options)) {}

Session::~Session() = default;

void Session::suggest(size_t task, const schedule::Trace& trace) { impl_->searches[task].suggest(trace); }

// What is known is no trial of this session: it enters the search, the data and the best, but no count.
void Session::know(size_t task, const schedule::Trace& trace, double seconds) {
  tir::Func program;
  try {
    program = schedule::replay(trace, impl_->tasks[task].workload);
  } catch (const Error&) {
    return;  // recorded by a version whose primitives differ
  }
  std::string print = fingerprint(program);
  impl_->searches[task].report(trace, print, seconds);
  impl_->samples.push_back({static_cast<int>(task), extract_features(program, impl_->target), seconds});
  TaskState& state = impl_->states[task];
  if (print == impl_->default_fingerprint[task]) state.default_seconds = seconds;
  if (state.best_seconds == 0 || seconds < state.best_seconds) {
    state.best_seconds = seconds;
    state.best = trace;
  }
}

void Session::know_model(const std::string& saved) {
  const std::string header = feature_version();
  if (!saved.starts_with(header)) return;
  try {
    CostModel model = CostModel::load(saved.substr(header.size()), {.seed = impl_->options.seed});
    if (model.width() == feature_names().size()) impl_->model = std::move(model);
  } catch (const Error&) {  // as the header says
  }
}

std::string Session::saved_model() const { return impl_->trained_on > 0 ? save_for_later(impl_->model) : ""; }

std::string save_for_later(const CostModel& model) { return feature_version() + model.save(); }

void Session::run(const OnChange& on_change, const std::function<bool()>& stop) {
  Impl& s = *impl_;
  s.start = Clock::now();
  // What know() brought may be enough to learn from before anything is measured.
  s.train();
  std::optional<Ending> ended;
  while (true) {
    // Search goes on while others build and run; the next round is ready before the last one ends. What is in
    // flight may still show that there is more to gain.
    while (!ended && s.measurer.in_flight() < s.measurer.capacity()) {
      std::optional<Ending> reason = s.ended(stop);
      if (reason == Ending::kNoGain && s.measurer.in_flight() > 0) break;
      if (!reason) s.propose_round();
      ended = reason;
    }
    // Who stops does not wait: what is in flight stays open for the job to be resumed.
    if (stop()) ended = Ending::kStopped;
    if (ended && (ended == Ending::kStopped || s.measurer.in_flight() == 0)) break;
    for (const Measured& answer : s.measurer.wait(std::chrono::milliseconds(200))) s.learn(answer);
    s.train();
    SessionStatus status = s.status();
    // A milestone needs a time of each task; the first is when the last of them had one.
    if (status.model_seconds > 0 &&
        (s.milestones.empty() || status.model_seconds < s.milestones.back().model_seconds))
      s.milestones.push_back({status.trials, status.seconds, status.model_seconds});
    on_change(status);
  }
  s.ending = *ended;
}

SessionStatus Session::status() const { return impl_->status(); }

const std::vector<Milestone>& Session::milestones() const { return impl_->milestones; }

std::optional<Milestone> reached(std::span<const Milestone> milestones, double share) {
  for (const Milestone& milestone : milestones)
    if (milestone.model_seconds * share <= milestones.back().model_seconds) return milestone;
  return {};
}

}  // namespace lathe::tuner
