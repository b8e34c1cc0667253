#include "tuner/session.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <set>
#include <unordered_map>
#include <utility>

#include "db/reader.h"
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/budget.h"
#include "tuner/checkpoint.h"
#include "tuner/learner.h"

namespace lathe::tuner {
namespace {
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Candidates in a task's first round, at most.
constexpr size_t kFirstRound = 8;
using Clock = std::chrono::steady_clock;
}  // namespace

struct Session::Impl {
  // The vectors below are by task, in its order, except for `milestones`.
  /// A candidate that was submitted and not yet learnt from.
  struct Open {
    int64_t number = 0;  // in the order of submission
    size_t task = 0;
    Proposal proposal;  // without its program
    Features features;
    std::optional<Measured> answer;
  };
  std::span<const Task> tasks;
  Target target;
  Measurer& measurer;
  SessionOptions options;
  schedule::Random random;
  Learner learner;
  std::vector<TaskSearch> searches;
  std::vector<TaskProgress> progress;
  std::vector<TaskState> states;
  std::vector<std::string> default_fingerprint;
  std::deque<Open> open;  // in the order of submission
  size_t window = 0;
  int round = 0;
  int64_t submitted = 0;
  int64_t answered_before = 0;  // in an earlier life
  std::set<size_t> changed;     // tasks, since the last checkpoint
  bool restored = false;
  std::vector<Milestone> milestones;
  std::optional<Ending> ending;
  Clock::time_point start = Clock::now();

  Impl(std::span<const Task> t, const Target& target_, Measurer& m, SessionOptions o)
      : tasks(t), target(target_), measurer(m), options(o), random(o.seed), learner(t, target_, o.seed) {
    std::unordered_map<std::string, int> families;
    for (size_t i = 0; i < tasks.size(); ++i) {
      searches.emplace_back(tasks[i].workload, target, random.next(),
                            SearchSettings{.rounding = options.rounding});
      // Kernels of one family have similar limits to reach: see expected_gain.
      int number = families.emplace(tasks[i].family, static_cast<int>(families.size())).first->second;
      double limit = options.limits.flops > 0 ? limit_of(tasks[i], options.limits).seconds : 0;
      progress.push_back({.weight = tasks[i].weight(), .limit = limit, .family = number});
    }
    states.resize(tasks.size());
    for (const Task& task : tasks)
      // Replayed once a task, at the start: a candidate's own program is gone when its answer comes.
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

  /// The sum of weight x `of` over the tasks; 0 until every task has one.
  double sum_of(double TaskState::*of) const {
    double sum = 0;
    for (size_t i = 0; i < states.size(); ++i) {
      if (states[i].*of <= 0) return 0;
      sum += tasks[i].weight() * states[i].*of;
    }
    return sum;
  }

  /// Why no more is to be proposed; nothing while the search goes on.
  std::optional<Ending> ended(const std::function<bool()>& stop) const {
    // Who stops comes first, then what was asked for, then what it may cost: of several reasons the first is
    // told.
    if (stop()) return Ending::kStopped;
    if (measurer.has_given_up()) return Ending::kGivenUp;
    // 0 while a task has no time: then there is nothing to compare with a target or a gain.
    double model = sum_of(&TaskState::best_seconds);
    if (model > 0 && model <= options.target_seconds) return Ending::kTarget;
    if (spent()) return Ending::kBudget;
    if (std::all_of(progress.begin(), progress.end(), [](const TaskProgress& p) { return p.exhausted; }))
      return Ending::kExhausted;
    if (model > 0 && nothing_to_gain(progress, model)) return Ending::kNoGain;
    return std::nullopt;
  }

  int64_t answers() const {
    int64_t count = 0;
    for (const TaskState& state : states) count += state.trials;
    return count;
  }

  /// Empty while nothing is learnt: the search then samples at random.
  Score scorer() const { return options.guided ? learner.scorer() : Score(); }

  /// Has the best of the same program's other sizes measured at this one: one kernel may serve both.
  void exchange(size_t task) {
    if (tasks[task].program.empty()) return;
    for (size_t other = 0; other < tasks.size(); ++other)
      if (other != task && tasks[other].program == tasks[task].program && states[other].best_seconds > 0)
        searches[task].suggest(states[other].best);
  }

  /// Sends a round of candidates for one task. REQUIRES: not ended.
  void propose_round(const OnRound& on_round) {
    // Not empty: ended() has found a task that is not exhausted.
    auto task = next_task(progress, random);
    // Without a limit on trials rounds are as large as in a job of 1000.
    auto count = static_cast<size_t>(round_size(options.trials > 0 ? options.trials : 1000, tasks.size()));
    // Every task has its first results early, however short the job.
    if (progress[*task].best_after.empty()) count = std::min(count, kFirstRound);
    if (options.trials > 0) count = std::min(count, static_cast<size_t>(options.trials - submitted));
    exchange(*task);
    std::vector<Proposal> proposals = searches[*task].propose(count, scorer());
    if (proposals.empty()) {
      progress[*task].exhausted = states[*task].exhausted = true;
      changed.insert(*task);
      return;
    }
    measurer.submit(*task, proposals);
    for (Proposal& proposal : proposals) {
      // Extracted now, while the program is there, and kept instead of it, which is by far the larger.
      Features features = learner.features(std::exchange(proposal.program, {}));
      // The number tells the order in which answers are learnt, also after a restart.
      open.push_back({submitted++, *task, std::move(proposal), std::move(features), {}});
    }
    ++round;
    changed.insert(*task);
    // Until answers come, the round counts as one that changed nothing: other tasks get their turn.
    progress[*task].best_after.push_back(states[*task].best_seconds > 0 ? states[*task].best_seconds
                                                                        : kNever);
    checkpoint(on_round);
  }

  /// Fills the window, unless the search has ended.
  void propose(const std::function<bool()>& stop, const OnRound& on_round) {
    // Each turn either proposes a round or ends: a task that has nothing left is marked
    // exhausted in propose_round().
    while (!ending && open.size() < window) {
      const std::optional<Ending> reason = ended(stop);
      // What is in flight may still show that there is more to gain.
      if (reason == Ending::kNoGain && !open.empty()) break;
      if (!reason) propose_round(on_round);
      ending = reason;
    }
  }

  /// Who stops does not wait: what is in flight stays open for the job to be resumed.
  bool is_over(const std::function<bool()>& stop) {
    if (stop())
      ending = Ending::kStopped;
    else if (measurer.has_given_up())  // whatever it was waiting for the last answers of
      ending = Ending::kGivenUp;
    return ending && (ending == Ending::kStopped || open.empty());
  }

  /// Notes the answers, which come in any order; learn_next() takes them in the order of submission, so that
  /// the same seed learns the same whichever worker was faster.
  void receive(std::vector<Measured> answers) {
    // A fingerprint names a candidate within its task.
    // Of an earlier life of the job there may be answers that nobody waits for.
    for (Measured& answer : answers) {
      const auto asked = std::find_if(open.begin(), open.end(), [&](const Open& candidate) {
        return candidate.task == answer.task && candidate.proposal.fingerprint == answer.fingerprint;
      });
      if (asked != open.end()) asked->answer = std::move(answer);
    }
    // What the measurer gave up will not be answered.
    // A farm that lost patience cancels: without this the search would wait for those answers for ever.
    if (measurer.in_flight() == 0)
      std::erase_if(open, [](const Open& candidate) { return !candidate.answer; });
  }

  /// Learns from the next answer in the order of submission; false while it is missing.
  bool learn_next() {
    if (open.empty() || !open.front().answer) return false;
    Open next = std::move(open.front());
    open.pop_front();
    // After each answer and not after a batch, so that what is learnt does not depend on how
    // answers were bundled.
    learn(*next.answer, std::move(next.features));
    learner.train();
    return true;
  }

  /// Passes one answer on to the task's search, to the data of the cost model and to the budget's view of the
  /// task.
  void learn(const Measured& answer, Features features) {
    TaskState& state = states[answer.task];
    changed.insert(answer.task);
    ++state.trials;
    ++state.since_best;
    ++state.outcomes[static_cast<size_t>(answer.outcome)];
    bool ok = answer.outcome == Outcome::kOk;
    searches[answer.task].report(answer.trace, answer.fingerprint,
                                 ok ? std::optional(answer.seconds) : std::nullopt);
    // That says nothing of the candidate; all other failures teach the model what fails.
    if (answer.outcome != Outcome::kWorkerLost)
      learner.add(answer.task, answer.fingerprint, std::move(features), ok ? answer.seconds : kNever);
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

  /// A worker was found to lie, say, after what it said was learnt.
  void forget(const Withdrawn& withdrawn) {
    const size_t task = withdrawn.task;
    for (Open& candidate : open)
      // Answered, and not learnt yet: nothing is known of it.
      if (candidate.task == task && candidate.answer &&
          withdrawn.fingerprints.contains(candidate.proposal.fingerprint))
        candidate.answer->outcome = Outcome::kWorkerLost;
    // Of another job, before this one.
    if (!learner.forget(task, withdrawn.fingerprints)) return;
    std::vector<SearchState::Known> elite;
    for (const Withdrawn::Believed& one : withdrawn.believed) {
      try {
        schedule::replay(one.trace, tasks[task].workload);
        elite.push_back({one.trace, one.seconds});
      } catch (const Error&) {
        // As in know().
      }
    }
    TaskState& state = states[task];
    state.best_seconds = elite.empty() ? 0 : elite.front().seconds;
    state.best = elite.empty() ? schedule::Trace() : elite.front().trace;
    state.since_best = 0;
    if (withdrawn.fingerprints.contains(default_fingerprint[task])) state.default_seconds = 0;
    searches[task].believe(std::move(elite));
    // As if the lies had not been told, as far as can be known: what came before the best was no faster.
    std::vector<double>& best_after = progress[task].best_after;
    for (double& after : best_after) after = std::max(after, state.best_seconds);
    // Nothing is left of its rounds: not as if all had failed, but as if there had been none.
    if (state.best_seconds == 0) best_after.clear();
    milestones.clear();
    // It may not be fast enough yet, and there may be more to gain.
    if (ending == Ending::kTarget || ending == Ending::kNoGain) ending.reset();
    changed.insert(task);
  }

  TaskCheckpoint checkpoint_of(size_t task) const {
    TaskCheckpoint checkpoint{
        .shared = {round, random.state(), submitted, window, learner.trained_on(), learner.quality()},
        .search = searches[task].state(),
        .best_after = progress[task].best_after,
        .state = states[task],
        .lessons = learner.lessons(task)};
    for (const Open& candidate : open)
      if (candidate.task == task)
        checkpoint.open.push_back({candidate.number, candidate.proposal.trace, candidate.proposal.fingerprint,
                                   candidate.proposal.score});
    return checkpoint;
  }

  void checkpoint(const OnRound& on_round) {
    if (!on_round) return;
    RoundCheckpoint all{
        .round = round, .quality = learner.quality(), .lessons = learner.trained_on(), .seconds = elapsed()};
    // Only what has changed is written: the rest of a model's tasks are in the database as they were.
    for (size_t task : changed) all.tasks.push_back({task, to_bytes(checkpoint_of(task))});
    all.model = learner.take_new_model();
    on_round(all);
    changed.clear();
  }

  void restore(size_t task, TaskCheckpoint saved, const std::map<std::string, std::string>& candidates) {
    searches[task].restore(std::move(saved.search));
    progress[task].best_after = std::move(saved.best_after);
    progress[task].exhausted = saved.state.exhausted;
    states[task] = std::move(saved.state);
    // Throws where the trace does not fit this release's workload, before anything rests on it.
    if (states[task].best_seconds > 0) schedule::replay(states[task].best, tasks[task].workload);
    // Each is replayed: a text of megabytes that says one again and again would take hours.
    if (saved.lessons.size() > candidates.size() + db::kHistory)
      fail("it has learnt {} times from {} candidates", saved.lessons.size(), candidates.size());
    for (const Lesson& lesson : saved.lessons) {
      const auto known = candidates.find(lesson.fingerprint);
      // The caller begins anew, with what was measured (restored() in tracker/tune_job.cpp).
      if (known == candidates.end()) fail("it has learnt from a candidate that is not there");
      learner.restore(task, lesson, schedule::parse_trace(known->second));
    }
    for (OpenCandidate& candidate : saved.open) {
      Features features = learner.features(schedule::replay(candidate.trace, tasks[task].workload));
      open.push_back({candidate.number,
                      task,
                      {std::move(candidate.trace), {}, std::move(candidate.fingerprint), candidate.score},
                      std::move(features),
                      {}});
    }
  }

  /// Asks again for the answers that an earlier life of the session was waiting for.
  void submit_open() {
    for (auto first = open.begin(); first != open.end();) {
      // Runs of one task, in the order of submission; a round was one of these.
      const auto end = std::find_if(first, open.end(), [&](const Open& o) { return o.task != first->task; });
      std::vector<Proposal> proposals;
      for (auto candidate = first; candidate != end; ++candidate) proposals.push_back(candidate->proposal);
      measurer.submit(first->task, proposals);
      first = end;
    }
  }

  SessionStatus status() const {
    SessionStatus s;
    const int64_t answered = answers();
    s.trials = answered;
    s.budget = options.trials;
    s.seconds = elapsed();
    s.quality = learner.quality();
    s.ending = ending.value_or(Ending::kBudget);
    s.tasks = states;
    // Of two budgets the one that ends first tells how long it takes.
    // The pace of this life: what an earlier one did in its hours says nothing of now.
    const int64_t answered_now = answered - answered_before;
    double by_trials = options.trials > 0 && answered_now > 0
                           ? s.seconds / static_cast<double>(answered_now) *
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
  impl_->learner.add(task, print, impl_->learner.features(program), seconds);
  TaskState& state = impl_->states[task];
  if (print == impl_->default_fingerprint[task]) state.default_seconds = seconds;
  if (state.best_seconds == 0 || seconds < state.best_seconds) {
    state.best_seconds = seconds;
    state.best = trace;
  }
}

void Session::pass_over(size_t task, const std::string& fingerprint) {
  impl_->searches[task].report({}, fingerprint, std::nullopt);
}

void Session::know_model(const std::string& saved) { impl_->learner.take_over(saved); }

void Session::restore(std::span<const SavedTask> tasks, const std::string& model) {
  Impl& s = *impl_;
  CHECK(tasks.size() == s.tasks.size(), "{} tasks of {}", tasks.size(), s.tasks.size());
  SharedState latest;
  for (size_t i = 0; i < tasks.size(); ++i) {
    try {
      TaskCheckpoint saved = parse_task_checkpoint(tasks[i].bytes);
      // Each task's checkpoint has the state that all tasks share as of its own last round: the newest
      // counts.
      if (i == 0 || saved.shared.round > latest.round) latest = saved.shared;
      s.restore(i, std::move(saved), tasks[i].candidates);
    } catch (const Error& error) {
      fail("the checkpoint of {} cannot be used: {}", s.tasks[i].name, error.what());
    }
  }
  std::sort(s.open.begin(), s.open.end(),
            [](const Impl::Open& a, const Impl::Open& b) { return a.number < b.number; });
  s.learner.restore(latest, model);
  s.random = schedule::Random(latest.random);
  s.round = latest.round;
  s.submitted = latest.submitted;
  s.answered_before = s.answers();
  s.window = latest.window;
  s.restored = true;
}

void Session::run(const OnChange& on_change, const std::function<bool()>& stop, const OnRound& on_round) {
  Impl& s = *impl_;
  s.start = Clock::now();
  for (const Withdrawn& withdrawn : s.measurer.withdrawn()) s.forget(withdrawn);
  // It only grows: workers that left may come back, and what was proposed is proposed.
  s.window = std::max(s.window, s.measurer.capacity());
  if (s.restored) {
    s.submit_open();
  } else {
    // What know() brought may be enough to learn from before anything is measured.
    s.learner.train();
    for (size_t i = 0; i < s.tasks.size(); ++i) s.changed.insert(i);
    s.checkpoint(on_round);
  }
  s.propose(stop, on_round);
  while (!s.is_over(stop)) {
    s.receive(s.measurer.wait(std::chrono::milliseconds(200)));
    for (const Withdrawn& withdrawn : s.measurer.withdrawn()) s.forget(withdrawn);
    s.window = std::max(s.window, s.measurer.capacity());
    // Search goes on while others build and run; the next round is ready before the last one ends.
    // What was learnt may make the next proposal another; answers that wait are learnt one by
    // one between proposals.
    do {
      s.propose(stop, on_round);
    } while (s.learn_next());
    SessionStatus status = s.status();
    // A milestone needs a time of each task; the first is when the last of them had one.
    if (status.model_seconds > 0 &&
        (s.milestones.empty() || status.model_seconds < s.milestones.back().model_seconds))
      s.milestones.push_back({status.trials, status.seconds, status.model_seconds});
    on_change(status);
  }
  // The last lessons, which no round came after.
  s.checkpoint(on_round);
}

SessionStatus Session::status() const { return impl_->status(); }

const std::vector<Milestone>& Session::milestones() const { return impl_->milestones; }

std::optional<Milestone> reached(std::span<const Milestone> milestones, double share) {
  for (const Milestone& milestone : milestones)
    if (milestone.model_seconds * share <= milestones.back().model_seconds) return milestone;
  return {};
}

}  // namespace lathe::tuner
