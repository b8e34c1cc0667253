// One tuning job: which task gets the next trials, what is proposed for it, and what the answers teach.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/support/outcome.h"
#include "core/tir/roofline.h"
#include "core/tir/target.h"
#include "tuner/cost_model.h"
#include "tuner/search.h"
#include "tuner/tasks.h"

namespace lathe::tuner {

/// What became of a candidate that was submitted.
struct Measured {
  size_t task = 0;
  schedule::Trace trace;
  std::string fingerprint;
  Outcome outcome = Outcome::kOk;
  double seconds = 0;   // the median; kOk only
  std::string message;  // of a failure
};

/// What was found not to be believed of a task's measurements, after it was told.
struct Withdrawn {
  struct Believed {
    schedule::Trace trace;
    double seconds = 0;
  };
  size_t task = 0;
  std::set<std::string> fingerprints;
  std::vector<Believed> believed;  // the fastest of what is left, by whoever measured them
};

/// Where candidates are built and measured: the tracker, or a fake in tests.
class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Each will be answered once, in any order. What was submitted before, in an earlier life of the job, is
  /// not measured again; its `program` may be missing.
  virtual void submit(size_t task, std::span<const Proposal> proposals) = 0;
  /// What ended since the last call; waits for at least one, or for the time to pass.
  virtual std::vector<Measured> wait(std::chrono::milliseconds timeout) = 0;
  /// What was found since the last call, or before the first.
  virtual std::vector<Withdrawn> withdrawn() { return {}; }
  /// Submitted, and still to be answered.
  virtual size_t in_flight() const = 0;
  /// How many candidates in flight keep all workers busy.
  virtual size_t capacity() const = 0;
  /// Nobody is waited for any more who could measure: what was in flight will not be answered.
  virtual bool has_given_up() const { return false; }
};

struct SessionOptions {
  int64_t trials = 512;
  double seconds = 0;         // 0: no limit
  double target_seconds = 0;  // of one run of the model: it is fast enough then; 0: as fast as can be
  MachineLimits limits;       // of the threads that a kernel runs on; 0: not known
  uint64_t seed = 0;
  schedule::Rounding rounding = schedule::Rounding::kNone;
  bool guided = true;  // by the cost model; else every candidate is a random sample of the space
};

/// Why a session ended.
enum class Ending : uint8_t {
  kBudget,     // trials or time are spent
  kStopped,    // as asked
  kTarget,     // the model is as fast as was asked for
  kExhausted,  // no task has a candidate left
  kNoGain,     // no round is expected to gain what it costs
  kGivenUp,    // the measurer has
};

struct TaskState {
  double default_seconds = 0;  // of the default schedule, the first candidate; 0 while not measured
  double best_seconds = 0;     // 0: nothing measured
  schedule::Trace best;
  int64_t trials = 0;
  std::array<int64_t, kOutcomeNames.size()> outcomes{};  // by Outcome
  int64_t since_best = 0;                                // trials in vain after the best
  bool exhausted = false;                                // no new candidate was found
};

/// A moment at which the model's estimated latency had come down.
struct Milestone {
  int64_t trials = 0;
  double seconds = 0;        // since the start
  double model_seconds = 0;  // SessionStatus's
};

/// The first milestone within `share` (0.95, say) of the last one's speed; nothing when there is none.
std::optional<Milestone> reached(std::span<const Milestone> milestones, double share);

/// For displays: a copy of what a session knows.
struct SessionStatus {
  int64_t trials = 0, budget = 0;
  double seconds = 0, seconds_left = 0;  // an estimate
  double model_seconds = 0,
         default_model_seconds = 0;  // sum of calls x best; 0 until every task has a measurement
  RankQuality quality;               // of the cost model, last time it was trained
  Ending ending = Ending::kBudget;   // once it has ended
  std::vector<TaskState> tasks;
};

/// A cost model as one job leaves it to the next: with the names of the features it was learnt from.
std::string save_for_later(const CostModel& model);

/// What a session has become in a round, to be kept together: all of it, or none.
struct RoundCheckpoint {
  int round = 0;
  struct Task {
    size_t task = 0;
    std::string bytes;  // checkpoint.h
  };
  std::vector<Task> tasks;  // those that changed
  std::string model;        // for Session::know_model, when it changed; else ""
  RankQuality quality;      // of the model
  size_t lessons = 0;       // it was learnt from
  double seconds = 0;       // since the session began to run
};

/// What is left of a task of an earlier life of the job.
struct SavedTask {
  std::string bytes;                              // RoundCheckpoint::Task
  std::map<std::string, std::string> candidates;  // fingerprint -> trace (JSON) of all it may have measured
};

/// Learns from answers in the order of submission, whatever the order in which they come, and proposes as
/// soon as the answers still missing are fewer than its window: what it proposes depends on the seed and on
/// the answers alone, not on when they come. The window is the measurer's capacity; it grows with it.
class Session {
 public:
  using OnChange = std::function<void(const SessionStatus&)>;
  /// REQUIRES: tasks and measurer outlive the session.
  Session(std::span<const Task> tasks, const Target& target, Measurer& measurer, SessionOptions options);
  ~Session();

  /// Tells a task what is known of it already: its search starts from there.
  void know(size_t task, const schedule::Trace& trace, double seconds);
  /// A candidate that is not to be proposed.
  void pass_over(size_t task, const std::string& fingerprint);
  /// Has a schedule of a similar task measured early (nearest_shape.h).
  void suggest(size_t task, const schedule::Trace& trace);
  /// Ranks by a model that was saved for later until there is enough to learn one of this job's own. Ignored
  /// when it is damaged or of a version whose features differ.
  void know_model(const std::string& saved);
  using OnRound = std::function<void(const RoundCheckpoint&)>;

  /// Goes on where the last checkpoint was taken, with what is left of every task and the last model ("":
  /// none). Throws Error, and is good for nothing then, when that is damaged or of another version.
  void restore(std::span<const SavedTask> tasks, const std::string& model);
  /// Spends the budget, or ends before when there is nothing left to gain. `on_change` is called after each
  /// batch of answers; `stop` ends the job early (what is in flight stays open); `on_round` before the first
  /// round, after each was submitted, and at the end.
  void run(const OnChange& on_change, const std::function<bool()>& stop, const OnRound& on_round = {});

  SessionStatus status() const;
  /// In order; the first is when every task had been measured.
  const std::vector<Milestone>& milestones() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::tuner
