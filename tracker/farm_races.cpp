// Races of two builds of a model. Each is a trial that any worker of its class may have who speaks the
// version: what holds for leases, lost workers and results that cannot be, holds for it. Nothing of it is
// written down, for nothing rests on it but the search that waits for it: a tracker's next life knows
// neither.
#include <algorithm>

#include "core/support/error.h"
#include "tracker/defaults.h"
#include "tracker/farm.h"

namespace lathe::tracker {

using namespace defaults;

void Farm::write_down(const Trial& trial, Record record) {
  // The one place where a race differs from a trial in what is kept: all records of trials pass here.
  if (!trial.spec->race) effects_->records.push_back(std::move(record));
}

/// The module of the trial's race that has this digest, or nullptr.
std::shared_ptr<const ModuleFile> Farm::find_module(const Trial& trial, const std::string& digest) {
  const RaceModules* race = trial.spec->race.get();
  if (!race) return nullptr;
  if (digest == race->incumbent->blob().digest) return race->incumbent;
  return digest == race->challenger->blob().digest ? race->challenger : nullptr;
}

/// The search that waited for it has ended, or asks again in its next life.
void Farm::cancel_race(TrialId race) {
  // Races are numbered from 2^62 on (tracker.cpp), but a searcher may name any trial.
  if (const auto found = trials_.find(race); found != trials_.end() && found->second.spec->race)
    cancel(found->second);
}

/// Whoever waits for a race is told when there is nobody to have it; its job can end without.
void Farm::end_hopeless_races() {
  std::vector<TrialId> hopeless;
  for (const auto& [lane, kinds] : retries_)
    for (const auto& [kind, waiting] : kinds) {
      if (!kind.is_race) continue;
      // A worker that is busy is hope; one that is drained, suspect or of another class or version is not.
      const Trial& first = trials_.at(waiting.begin()->second);
      const bool has_hope = std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
        return entry.second.credit() > 0 && part_for(entry.second, first);
      });
      if (has_hope) continue;
      for (const auto& [place, id] : waiting)
        // Some patience, for a worker that is only being restarted is back within seconds.
        if (now_ - trials_.at(id).pending_since >= kRaceWaits) hopeless.push_back(id);
    }
  for (const TrialId id : hopeless) {
    Trial& trial = trials_.at(id);
    wire::Result result{.trial = id,
                        .outcome = Outcome::kWorkerLost,
                        .message = fmt::format("no worker is {} and races builds", trial.spec->device_class)};
    // Told, but not written down (write_down), as nothing of a race is.
    effects_->finished.push_back({id, trial.spec->job, "", "", std::move(result), ""});
    close_trial(trial);
  }
}

}  // namespace lathe::tracker
