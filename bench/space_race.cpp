#include "bench/space_race.h"

#include <algorithm>
#include <set>

#include "bench/cold_run.h"
#include "core/support/error.h"
#include "core/support/statistics.h"
#include "schedules/primitive.h"
#include "schedules/space.h"

namespace lathe::bench {
namespace {

/// The space, told apart by whether the reduction is cut in blocks of terms.
std::string kind_of(const schedule::DesignSpace& space, const schedule::Trace& trace) {
  const bool blocks = std::any_of(trace.steps.begin(), trace.steps.end(), [](const schedule::Step& step) {
    return step.primitive == &schedule::primitive("rfactor");
  });
  return std::string(space.name) + (blocks ? " in blocks" : "");
}

struct Candidate {
  std::function<void()> run;
  std::string trace;
  std::vector<double> times;
};

using Best = std::map<std::string, std::vector<Candidate>>;  // by kind

bool is_faster(const Candidate& a, const Candidate& b) { return median(a.times) < median(b.times); }

/// Adds the fastest of the space's first schedules, each timed a few times.
void add_best(Best& all, const schedule::DesignSpace& space, const SpaceRace& race,
              const tir::Func& workload) {
  constexpr int kRuns = 7;
  // Of a few runs the fastest is mostly luck: several go on to the final race.
  constexpr size_t kKept = 3;
  Evictor evict;
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < race.samples; ++seed) {
    try {
      schedule::Schedule s = schedule::sample(space, workload, race.target, seed + 1);
      std::string trace = schedule::to_json(s.trace());
      if (!seen.insert(trace).second) continue;
      Candidate candidate{race.build([&](const tir::Func&) { return s.func(); }), trace, {}};
      for (int i = 0; i < kRuns; ++i) candidate.times.push_back(timed_run(candidate, evict));
      std::vector<Candidate>& best = all[kind_of(space, s.trace())];
      best.push_back(std::move(candidate));
      std::stable_sort(best.begin(), best.end(), is_faster);
      // Built code is dropped with its candidate.
      if (best.size() > kKept) best.pop_back();
    } catch (const Error&) {
      continue;  // a sample that cannot be compiled
    }
  }
}
}  // namespace

std::map<std::string, RacedSchedule> race_spaces(const SpaceRace& race) {
  constexpr int kRounds = 60;
  tir::Func workload;
  // Building is the only way to see the program that is asked for.
  race.build([&](const tir::Func& asked) {
    workload = asked;
    return schedule::replay(schedule::default_trace(asked, race.target), asked);
  });
  Best best;
  for (const schedule::DesignSpace* space : schedule::spaces_for(workload, race.target))
    add_best(best, *space, race, workload);
  Evictor evict;
  for (auto& [kind, candidates] : best)
    for (Candidate& each : candidates) each.times.clear();
  // All candidates of all spaces in turn: a slow minute of the machine hits each alike. What chose them is
  // forgotten, for the chosen were lucky.
  for (int round = 0; round < kRounds; ++round)
    for (auto& [kind, candidates] : best)
      for (Candidate& each : candidates) each.times.push_back(timed_run(each, evict));
  std::map<std::string, RacedSchedule> fastest;
  for (auto& [kind, candidates] : best) {
    const Candidate& first = *std::min_element(candidates.begin(), candidates.end(), is_faster);
    fastest[kind] = {median(first.times), first.trace};
  }
  return fastest;
}

std::vector<std::string> kinds_of_schedules() {
  return {"contraction", "contraction in blocks", "implicit-gemm", "implicit-gemm in blocks", "winograd",
          "strassen"};
}

std::string table_head(const std::string& first, const std::string& unit) {
  std::string head = "| " + first;
  for (const std::string& kind : kinds_of_schedules()) head += " | " + kind + unit;
  std::string rule = "|";
  for (int64_t columns = std::count(head.begin(), head.end(), '|'); columns > 0; --columns) rule += "---|";
  return head + " |\n" + rule + "\n";
}

}  // namespace lathe::bench
