// Choices that all spaces make alike: one of some numbers, and which loops run on several cores.
#include <algorithm>

#include "core/support/error.h"
#include "core/tir/lower.h"
#include "core/tir/machine.h"
#include "schedules/spaces/building_blocks.h"

namespace lathe::schedule {

using namespace tir;

Factor sample_one_of(Schedule& s, const std::vector<int64_t>& values, int64_t preferred,
                     const Policy& policy) {
  auto place = std::find(values.begin(), values.end(), preferred);
  CHECK(place != values.end(), "{} is preferred and not among the choices", preferred);
  // No step is recorded for what has no choice: a mutation of it would change nothing.
  if (values.size() == 1) return preferred;
  bool heuristic = policy.decide == Decide::kHeuristic;
  return s.sample_categorical(values, heuristic ? Decision{place - values.begin()} : Decision{});
}

int64_t value_of(const Schedule& s, const Factor& factor) {
  const auto* sampled = std::get_if<IntHandle>(&factor);
  return sampled ? s[*sampled] : std::get<int64_t>(factor);
}

int64_t choose_one_of(Schedule& s, const std::vector<int64_t>& values, int64_t preferred,
                      const Policy& policy) {
  // No step is recorded: the trace has the steps that followed from the choice, and a replay needs no more.
  if (policy.decide == Decide::kHeuristic) return preferred;
  return value_of(s, sample_one_of(s, values, preferred, policy));
}

std::vector<int64_t> powers_of_two(int64_t most) {
  std::vector<int64_t> powers;
  for (int64_t power = 1; power <= std::max<int64_t>(most, 1); power *= 2) powers.push_back(power);
  return powers;
}

std::vector<int64_t> copies_of(int64_t iterations, int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t count : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
    // A count that does not divide leaves a shorter end, which costs little where there are enough whole
    // ones.
    bool fits = count <= iterations && (iterations % count == 0 || iterations > 2 * count);
    if (count == 1 || (count <= most && fits)) counts.push_back(count);
  }
  return counts;
}

void choose_innermost(Schedule& s, std::vector<LoopHandle>& loops, const Policy& policy) {
  if (loops.size() < 2) return;
  auto last = static_cast<int64_t>(loops.size()) - 1;
  // The last place leaves the order as it is; a loop of one iteration would change nothing inside.
  std::vector<int64_t> places;
  for (int64_t i = 0; i <= last; ++i)
    if (i == last || int_value(s[loops[static_cast<size_t>(i)]]->extent) > 1) places.push_back(i);
  int64_t place = choose_one_of(s, places, last, policy);
  std::rotate(loops.begin() + place, loops.begin() + place + 1, loops.end());
}

void sample_prefetch(Schedule& s, LoopHandle loop, int64_t bytes, const Target& target,
                     const Policy& policy) {
  // What the second-level cache holds need not be asked for.
  if (stays_in_l2(target, static_cast<double>(bytes), kAllOfL2)) return;
  s.annotate(loop, kPrefetch, sample_one_of(s, {0, 512, 2048, 8192}, 0, policy));
}

bool pays_in_parallel(int64_t iterations, const Target& target) {
  constexpr double kIterationsPerCycle = 8;  // of code that waits for data half of the time
  // What the other cores take off this one has to outweigh starting them.
  const double saved = static_cast<double>(iterations) / kIterationsPerCycle * (1 - 1.0 / target.cores);
  return target.cores > 1 && saved >= machine_of(target).launch_cycles;
}

namespace {
/// As many of the outer loops as give every core some iterations.
size_t loops_for_cores(const Schedule& s, const std::vector<LoopHandle>& loops, const Target& target) {
  constexpr int64_t kIterationsPerCore = 8;
  int64_t iterations = 1;
  size_t count = 0;
  while (count < loops.size() && iterations < kIterationsPerCore * target.cores)
    iterations *= int_value(s[loops[count++]]->extent);
  return count;
}
}  // namespace

void run_parallel(Schedule& s, const std::vector<LoopHandle>& loops, const Target& target,
                  const Policy& policy) {
  if (loops.empty() || target.cores == 1) return;
  std::vector<int64_t> counts;  // 0: on one core
  for (size_t count = 0; count <= loops.size(); ++count) counts.push_back(static_cast<int64_t>(count));
  auto preferred = static_cast<int64_t>(loops_for_cores(s, loops, target));
  int64_t count = choose_one_of(s, counts, preferred, policy);
  if (count == 0) return;
  s.run_tasks(s.tasks({loops.begin(), loops.begin() + count}));
}

}  // namespace lathe::schedule
