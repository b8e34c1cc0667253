// Default schedules as the choice over a whole model: what they are faster than was tuned in vain.
#include "schedules/schedule.h"
#include "schedules/space.h"
#include "tuner/search.h"
#include "tuner/whole_model.h"

namespace lathe::tuner {
namespace {

db::BestQuery query_of(const db::ChoiceKey& key, db::WorkloadId workload) {
  return {.workload = workload,
          .target = key.target,
          .threads = key.threads,
          .accept_unconfirmed = true,
          .max_relative_error = key.max_relative_error};
}

/// Whether `record` is what builds of that workload use anyway.
bool is_best(db::Reader& store, const db::ChoiceKey& key, db::WorkloadId workload, db::MeasurementId record) {
  auto best = store.best(query_of(key, workload));
  return best && best->measurement.id == record;
}

}  // namespace

std::string default_fingerprint(const Task& task, const Target& target) {
  return fingerprint(schedule::replay(schedule::default_trace(task.workload, target), task.workload));
}

DefaultRecords default_records(db::Reader& store, const db::ChoiceKey& key, std::span<const Task> tasks,
                               const Target& target, std::optional<db::DeviceId> device) {
  DefaultRecords found;
  for (const Task& task : tasks) {
    auto workload = store.find_workload(task.digest);
    if (!workload) continue;
    // By program and not by trace: another trace may have been measured as the same program.
    const std::string print = default_fingerprint(task, target);
    for (const db::Measurement& known : store.measured(*workload, key.target, print))
      if (known.threads == key.threads && (!device || known.device == *device) &&
          known.relative_error <= key.max_relative_error)
        found[*workload] = known;
  }
  return found;
}

db::Choice choice_of_defaults(const DefaultRecords& defaults, db::Reader& store, const db::ChoiceKey& key,
                              const RaceResult& race) {
  db::Choice choice{.key = key, .seconds_before = race.challenger, .seconds_after = race.incumbent};
  for (const auto& [workload, record] : defaults)
    if (!is_best(store, key, workload, record.id)) choice.tasks.push_back({workload, record.id});
  return choice;
}

bool has_chosen_defaults(const DefaultRecords& defaults, db::Reader& store, const db::ChoiceKey& key) {
  auto choice = store.find_choice(key);
  if (!choice || choice->tasks.empty()) return false;
  std::map<db::WorkloadId, db::MeasurementId> chosen;
  for (const db::Choice::Task& task : choice->tasks) chosen[task.workload] = task.measurement;
  for (const auto& [workload, record] : chosen)
    // A choice with any other record in it is another.
    if (auto known = defaults.find(workload); known == defaults.end() || known->second.id != record)
      return false;
  for (const auto& [workload, record] : defaults)
    // And so is one without a default schedule, unless builds use that anyway.
    if (!chosen.contains(workload) && !is_best(store, key, workload, record.id)) return false;
  return true;
}

}  // namespace lathe::tuner
