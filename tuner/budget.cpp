#include "tuner/budget.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lathe::tuner {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The best share of its limit that another task of the family reached, or 0.
double family_share(std::span<const TaskProgress> tasks, size_t i) {
  double best = 0;
  for (size_t k = 0; k < tasks.size(); ++k)
    if (k != i && tasks[k].family == tasks[i].family && std::isfinite(tasks[k].best()))
      best = std::max(best, tasks[k].limit / tasks[k].best());
  return best;
}

/// Rounds since the last that made the task faster.
size_t idle_rounds(const TaskProgress& task) {
  size_t idle = 0;
  for (size_t r = task.best_after.size(); r-- > 1 && task.best_after[r] == task.best_after[r - 1];) ++idle;
  return idle;
}

}  // namespace

double TaskProgress::best() const { return best_after.empty() ? kInfinity : best_after.back(); }

double headroom(const TaskProgress& task) {
  // Limits are estimates: a task at its own may still gain a twentieth.
  constexpr double kBeyond = 0.05;
  double now = task.best();
  return std::max(now - task.limit, kBeyond * now);
}

// Gradients as in Ansor's task scheduler (Zheng et al., OSDI 2020, section 6), with the machine's limit
// where the paper has 0.
double expected_gain(std::span<const TaskProgress> tasks, size_t i, const BudgetOptions& options) {
  const TaskProgress& task = tasks[i];
  size_t rounds = task.best_after.size();
  double now = task.best();
  // Every task has a round before any has a second.
  if (rounds == 0) return kInfinity;
  // Next_task chooses at random now and then.
  if (std::isinf(now)) return 0;  // nothing it tried runs; a random choice may still come back to it
  size_t window = std::min<size_t>(options.window, rounds - 1);
  // Failed rounds leave infinity behind: a slope from there would be one.
  double before = task.best_after[rounds - 1 - window];
  double slope = window && std::isfinite(before) ? (before - now) / window : 0;
  // Optimism: one more round helps as much as the average of all rounds would if they led to the limit; and
  // a task much further from its own than its family has at least that far to go. The paper's optimism ends
  // at 0 seconds, and no round in vain makes it doubt; here each takes from it, for kernels of one family may
  // not have the same algorithms open to them, and no limit is reached by all.
  const auto doubt = static_cast<double>(1 + idle_rounds(task));
  double optimistic = headroom(task) / static_cast<double>(rounds);
  if (double share = family_share(tasks, i); share > 0)
    optimistic = std::max(optimistic, (now - options.similarity * task.limit / share) / doubt);
  optimistic /= doubt;
  double gain = options.trust_in_past * slope + (1 - options.trust_in_past) * optimistic;
  // No forecast goes beyond what the machine leaves to gain.
  return task.weight * std::min(gain, headroom(task));
}

std::optional<size_t> next_task(std::span<const TaskProgress> tasks, schedule::Random& random,
                                const BudgetOptions& options) {
  std::vector<size_t> open;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (!tasks[i].exhausted) open.push_back(i);
  if (open.empty()) return std::nullopt;
  size_t best = open.front();
  // A gain of 0 is still better than no task.
  double best_gain = -1;
  for (size_t i : open)
    if (double gain = expected_gain(tasks, i, options); gain > best_gain) best = i, best_gain = gain;
  // Chance has no say while tasks wait for their first round.
  if (std::isfinite(best_gain) && random.unit() < options.random_choice)
    return open[random.below(open.size())];
  return best;
}

bool nothing_to_gain(std::span<const TaskProgress> tasks, double model_seconds,
                     const BudgetOptions& options) {
  // Of the model's time, a round: less than that is within the noise of any race.
  constexpr double kWorthARound = 1e-4;
  for (size_t i = 0; i < tasks.size(); ++i)
    if (!tasks[i].exhausted && expected_gain(tasks, i, options) > kWorthARound * model_seconds) return false;
  return true;
}

int round_size(int64_t trials, size_t tasks) {
  constexpr int64_t kRoundsEach = 4, kSmallest = 8, kLargest = 64;
  // Some four rounds a task: fewer would leave the cost model nothing to learn between, more would
  // spend rounds' overhead.
  return static_cast<int>(std::clamp(trials / static_cast<int64_t>(std::max<size_t>(tasks, 1)) / kRoundsEach,
                                     kSmallest, kLargest));
}

}  // namespace lathe::tuner
