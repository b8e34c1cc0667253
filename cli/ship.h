// What a job ships: the tuned build or, where it lost against that, the untuned one.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "cli/tune_job.h"
#include "core/relay/expr.h"
#include "core/tir/target.h"
#include "db/store.h"
#include "tuner/race.h"
#include "tuner/whole_model.h"

namespace lathe::cli {

/// Where a choice for the job's model is kept.
struct ChoicePlace {
  db::ChoiceKey key;
  tuner::DefaultRecords defaults;
};

struct Shipment {
  std::string module;         // the file
  bool tuned = true;          // else it is the untuned build
  bool same = false;          // both builds are the same bytes
  bool raced = true;          // else they run elsewhere, and only their kernels were timed
  tuner::RaceResult race;     // the untuned build as incumbent, the tuned one as challenger
  double rounding_error = 0;  // of what is shipped
  double seconds() const { return tuned ? race.challenger : race.incumbent; }
};

/// Builds the model with default and with best schedules, races the two and leaves the faster in the job's
/// folder; where neither is clearly faster, the tuned one if `favoured`. When the untuned one is shipped it
/// is also stored as the choice for the model, if there is a place: later builds follow. Code for another CPU
/// than this machine's is not raced: the kernels' times, measured where it runs, decide. Ctrl-C ends the race
/// early. Throws Error as best_build and the store do.
Shipment ship(const TuneJob& job, const Target& target, const relay::Module& fused,
              const std::optional<ChoicePlace>& place, bool favoured);

/// For a device that is elsewhere: builds the model with its best schedules or, unless `favoured`, with the
/// default ones.
Shipment ship_unraced(const TuneJob& job, const Target& target, const relay::Module& fused, bool favoured);

/// The lines of a report about the race and its outcome, each with its newline.
std::string shipment_text(const Shipment& shipment);

}  // namespace lathe::cli
