// Which task to tune next: the gradient of the model's latency (Zheng et al., "Ansor", OSDI 2020,
// section 6.2), within what the machine's limits leave to gain.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "schedules/random.h"

namespace lathe::tuner {

/// A task as the budget sees it. A round is one batch of measured candidates.
struct TaskProgress {
  double weight = 1;               // how often one run of the model calls it
  double limit = 0;                // the least seconds of one call (core/tir/roofline.h); 0: not known
  int family = 0;                  // tasks of one family (the same operators) come about as near to it
  std::vector<double> best_after;  // seconds, after each round so far; infinite while all candidates failed
  bool exhausted = false;          // its search has nothing new to measure

  double best() const;
};

struct BudgetOptions {
  double trust_in_past =
      0.2;                // alpha: the share of the last rounds' slope in the guess of the next one's gain
  double similarity = 2;  // beta: a task is taken to reach 1/beta of its family's best share of the limit
  double random_choice = 0.05;  // epsilon: how often any task is taken
  int window = 3;               // delta t: rounds over which the slope is taken
};

/// How many seconds of a call lie between now and its limit. What is faster than the direct algorithm's limit
/// allows (another algorithm, data in caches) is taken to have a twentieth left.
double headroom(const TaskProgress& task);

/// How many seconds the model's run is guessed to lose by one more round of task `i`; at least 0. Infinite
/// for a task with no round yet.
double expected_gain(std::span<const TaskProgress> tasks, size_t i, const BudgetOptions& options = {});

/// The task with the largest gain, at times a random one. Tasks with no round yet come first, in their order.
/// None when all are exhausted.
std::optional<size_t> next_task(std::span<const TaskProgress> tasks, schedule::Random& random,
                                const BudgetOptions& options = {});

/// No round of any task is expected to make the model's run, of so many seconds, faster by the share that is
/// worth a round.
bool nothing_to_gain(std::span<const TaskProgress> tasks, double model_seconds,
                     const BudgetOptions& options = {});

/// Candidates in a round, so that a task of average weight gets several rounds of a budget of `trials`.
int round_size(int64_t trials, size_t tasks);

}  // namespace lathe::tuner
