#include "cli/race_record.h"

#include <cmath>
#include <utility>

namespace lathe::cli {

RaceRecord::RaceRecord(const TuneJob& job, std::span<const tuner::Task> tasks, const Target& target,
                       std::optional<db::DeviceKind> kind, db::Reader& reader, tracker::JobWriter& writer)
    : key_{.model_digest = tuner::tasks_digest(tasks),
           .target = reader.find_target(to_text(target)).value(),
           .threads = static_cast<int>(job.threads),
           .max_relative_error = job.max_relative_error,
           .kind = std::move(kind)},
      defaults_(tuner::default_records(reader, key_, tasks, target)),
      reader_(reader),
      writer_(writer) {
  if (tuner::has_chosen_defaults(defaults_, reader_, key_)) writer_.choose({.key = key_});
}

void RaceRecord::keep(const Shipment& shipment) {
  if (!shipment.raced) return;
  const RaceResult& race = shipment.race;
  const Location& run = shipment.tuned ? race.challenger_run : race.incumbent_run;
  // Of many sizes there is no one time; without ends there were too few turns.
  if (shipment.sizes.empty() && std::isfinite(run.low) && run.centre > 0)
    writer_.add_model_latency({.model_digest = key_.model_digest,
                               .target = key_.target,
                               .threads = key_.threads,
                               .seconds = run.centre,
                               .low = run.low,
                               .high = run.high,
                               .n = race.turns});
  if (!shipment.tuned) writer_.choose(tuner::choice_of_defaults(defaults_, reader_, key_, race));
}

}  // namespace lathe::cli
