// What the race of a job leaves in its database.
#pragma once

#include <optional>
#include <span>

#include "cli/ship.h"
#include "tracker/job_writer.h"
#include "tuner/whole_model.h"

namespace lathe::cli {

class RaceRecord {
 public:
  /// For builds of that model with the job's threads and error, on devices of that kind (none: see
  /// db::Store). Takes back what an earlier race there chose: what was measured now decides, until this race
  /// is over. REQUIRES: reader and writer outlive it.
  RaceRecord(const TuneJob& job, std::span<const tuner::Task> tasks, const Target& target,
             std::optional<db::DeviceKind> kind, db::Reader& reader, tracker::JobWriter& writer);

  const db::ChoiceKey& key() const { return key_; }

  /// Keeps how long a run of what is shipped takes, for `tune query coverage`; and where that is the untuned
  /// build, the choice of it, which later builds follow. Nothing, where nobody raced.
  void keep(const Shipment& shipment);

 private:
  db::ChoiceKey key_;
  tuner::DefaultRecords defaults_;
  db::Reader& reader_;
  tracker::JobWriter& writer_;
};

}  // namespace lathe::cli
