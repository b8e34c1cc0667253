#include "tracker/confirm.h"

#include <unordered_map>

namespace lathe::tracker {
namespace {

// One round more than measurements: one of them may fail, or go with its worker.
constexpr int kLeaders = 5, kTimes = 2, kRounds = kTimes + 1;

int& times(Leader& leader, db::Purpose purpose) {
  return purpose == db::Purpose::kTell ? leader.again.told : leader.again.ranked;
}

/// One more measurement of each that has too few. False when patience ended, or somebody wants an end.
bool measure_once(std::span<Leader> leaders, db::Purpose purpose, JobId job,
                  const wire::Evaluation& evaluation, FarmClient& farm, Patience& patience,
                  const std::function<bool()>& stop) {
  std::unordered_map<TrialId, Leader*> open;
  for (Leader& leader : leaders) {
    if (times(leader, purpose) >= kTimes) continue;
    Candidate again{leader.workload, leader.trace, leader.program};
    again.purpose = purpose;
    again.evaluation = evaluation;
    // One by one, in their order: what is submitted first is measured first, and patience may end.
    for (const Submission& answer : farm.submit(job, std::span(&again, 1)))
      if (answer.status == Submission::Status::kQueued) open[answer.trial] = &leader;
  }
  while (!open.empty()) {
    for (const Finished& finished : farm.poll(job, std::chrono::milliseconds(500))) {
      patience.answered();
      auto leader = open.extract(finished.trial);
      if (!leader) continue;
      leader.mapped()->disturbance.add(finished.result.disturbance);
      if (finished.result.outcome == Outcome::kOk) ++times(*leader.mapped(), purpose);
    }
    // What is open stays so: the job's next life waits for it first.
    if (stop()) return false;
    if (patience.is_over(farm)) {
      farm.cancel(job);
      return false;
    }
  }
  return true;
}

}  // namespace

bool Patience::is_over(FarmClient& farm) const {
  const auto since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  if (since(last_answer_) <= limits_.silence) return false;
  const bool late = limits_.limited && since(start_) > limits_.seconds;
  const FarmStatus status = farm.status();
  return status.given_up || (late && status.slots == 0);
}

std::vector<Leader> find_leaders(db::Reader& store, std::span<const db::WorkloadId> workloads,
                                 const std::function<db::BestQuery(db::WorkloadId)>& query_of,
                                 std::span<const std::string> default_programs,
                                 const tuner::DefaultRecords& defaults) {
  // First the first of every task, then the seconds: when patience ends, each task has had its best
  // confirmed. The last place is for what is suspect, and for default schedules.
  std::vector<std::vector<Leader>> places(kLeaders + 1);
  for (size_t i = 0; i < workloads.size(); ++i) {
    const db::WorkloadId workload = workloads[i];
    const std::vector<db::Measurement> fastest = store.top(query_of(workload), kLeaders);
    auto known = defaults.find(workload);
    bool has_default = known == defaults.end();
    // Theirs is the last place: a time that is not believed is worth a look when all else is confirmed.
    const std::vector<db::Measurement> suspect =
        store.top_suspect(query_of(workload), has_default ? kMostSuspect : kLeaders);
    for (size_t place = 0; place < fastest.size(); ++place) {
      places[place].push_back({workload, fastest[place].trace, fastest[place].program});
      has_default |= known != defaults.end() && fastest[place].id == known->second.id;
    }
    for (size_t k = 0; k < suspect.size(); ++k) {
      const db::Measurement& doubtful = suspect[k];
      // One of a worker that is not believed may be the fastest all the same: measured again, it counts.
      const bool may_lead =
          k < kLeaders && (fastest.size() < kLeaders || doubtful.seconds < fastest.back().seconds);
      // All else is compared with it.
      const bool is_default = known == defaults.end() && doubtful.program == default_programs[i];
      if (may_lead || is_default) places.back().push_back({workload, doubtful.trace, doubtful.program});
    }
    if (!has_default) places.back().push_back({workload, known->second.trace, known->second.program});
  }
  std::vector<Leader> leaders;
  for (std::vector<Leader>& place : places)
    std::move(place.begin(), place.end(), std::back_inserter(leaders));
  return leaders;
}

std::vector<Leader> find_told(db::Reader& store, std::span<const db::WorkloadId> workloads,
                              const std::function<db::BestQuery(db::WorkloadId)>& query_of,
                              const tuner::DefaultRecords& defaults) {
  std::vector<Leader> told;
  const auto add = [&](db::WorkloadId workload, const db::Measurement& measured) {
    told.push_back({workload, measured.trace, measured.program});
  };
  for (db::WorkloadId workload : workloads) {
    db::BestQuery query = query_of(workload);
    // What was not confirmed, for want of workers, is told all the same.
    query.accept_unconfirmed = true;
    const auto best = store.best(query);
    if (best) add(workload, best->measurement);
    const auto known = defaults.find(workload);
    if (known != defaults.end() && !(best && best->measurement.id == known->second.id))
      add(workload, known->second);
  }
  return told;
}

bool measure_again(std::span<Leader> leaders, db::Purpose purpose, JobId job,
                   const wire::Evaluation& evaluation, FarmClient& farm, Patience& patience,
                   const std::function<bool()>& stop) {
  // Round by round and not leader by leader: whatever the machine does meanwhile meets all alike (M2).
  for (int round = 0; round < kRounds; ++round)
    if (!measure_once(leaders, purpose, job, evaluation, farm, patience, stop)) return false;
  return true;
}

}  // namespace lathe::tracker
