#include "core/runtime/turns.h"

#include <map>

namespace lathe::runtime {
namespace {

/// Less stays in a second-level cache anyway, beside what else a step reads.
constexpr int64_t kLarge = 512 << 10;

struct Loop {
  void (*body)(void*, int64_t, int64_t);
  void* closure;
};

/// Each range that a thread takes, from its last iteration on: a thread has the same ranges in both
/// directions, and finds in its cache what it read itself.
void launch_backwards(void* pool, void (*body)(void*, int64_t, int64_t), void* closure, int64_t iterations) {
  const auto& forwards = *static_cast<const LatheParallel*>(pool);
  Loop loop{body, closure};
  forwards.launch(
      forwards.pool,
      [](void* given, int64_t begin, int64_t end) {
        const Loop& loop = *static_cast<const Loop*>(given);
        for (int64_t i = end; i-- > begin;) loop.body(loop.closure, i, i + 1);
      },
      &loop, iterations);
}

/// Where the step's largest constant lies among the plan's, if that is large; else -1.
int64_t large_constant(const Plan& plan, const Step& step) {
  int64_t at = -1, most = kLarge - 1;
  for (int64_t arg : step.args) {
    const Value& value = plan.values[static_cast<size_t>(arg)];
    if (value.place == Place::kConstant && value.bytes() > most) at = value.at, most = value.bytes();
  }
  return at;
}

}  // namespace

Turns::Turns(const Plan& plan, const LatheParallel* forwards, Runs runs)
    : forwards_(forwards), backwards_{launch_backwards, const_cast<LatheParallel*>(forwards)} {
  std::map<int64_t, std::vector<size_t>> readers;
  for (size_t s = 0; s < plan.steps.size(); ++s)
    if (const int64_t at = large_constant(plan, plan.steps[s]); at >= 0) readers[at].push_back(s);
  for (const auto& [at, steps] : readers) {
    if (steps.size() < 2 && runs == Runs::kOnce) continue;
    turn_of_.resize(plan.steps.size(), kNone);
    for (size_t step : steps) turn_of_[step] = is_back_.size();
    is_back_.push_back(false);
  }
}

}  // namespace lathe::runtime
