#include "tracker/exchange.h"

#include <chrono>
#include <set>

#include "core/tir/dims.h"
#include "schedules/family.h"
#include "schedules/space.h"

namespace lathe::tracker {

void UntunedSchedules::suggest(const tuner::Task& task, tuner::Session& session, size_t number) {
  if (task.program.empty()) return;
  auto [traces, fresh] = known_.try_emplace(task.program);
  if (fresh) {
    const tir::Func program = schedule::without_typical_dims(task.workload);
    for (const schedule::Member& member : schedule::family_of(program))
      // Of other members ones are numbers, and theirs is another program.
      if (tir::dims_of(*member.program).size() == tir::dims_of(*program).size())
        traces->second.push_back(schedule::default_trace(member.program, target_));
  }
  for (const schedule::Trace& trace : traces->second) session.suggest(number, trace);
}

void exchange_leaders(const JobRows& rows, std::span<const tuner::Task> tasks,
                      const std::function<db::BestQuery(db::WorkloadId)>& query_of, db::Reader& store,
                      tuner::Measurer& measurer, const std::function<bool()>& stop) {
  constexpr int kExchanged = 2;          // of each size
  constexpr size_t kMostAtOneSize = 32;  // a job's quota has room for these (search_quota.h)
  const auto settle = [&](size_t most) {
    while (measurer.in_flight() > most && !stop()) measurer.wait(std::chrono::milliseconds(200));
  };
  for (size_t i = 0; i < tasks.size() && !stop() && !measurer.has_given_up(); ++i) {
    if (tasks[i].program.empty()) continue;
    std::set<std::string> known;
    for (const db::KnownCandidate& each : store.candidates(rows.job, rows.workloads[i], rows.target))
      known.insert(each.program);
    std::vector<tuner::Proposal> proposals;
    for (size_t j = 0; j < tasks.size(); ++j) {
      if (j == i || tasks[j].program != tasks[i].program) continue;
      for (const db::Measurement& leader : store.top(query_of(rows.workloads[j]), kExchanged)) {
        if (proposals.size() >= kMostAtOneSize || !known.insert(leader.program).second) continue;
        if (auto trace = schedule::readable_trace(leader.trace))
          proposals.push_back({.trace = std::move(*trace), .fingerprint = leader.program});
      }
    }
    if (proposals.empty()) continue;
    measurer.submit(i, proposals);
    settle(measurer.capacity());
  }
  settle(0);
}

}  // namespace lathe::tracker
