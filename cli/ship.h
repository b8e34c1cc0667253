// What a job ships: the tuned build or, where it lost against that, the untuned one.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/tune_job.h"
#include "core/relay/expr.h"
#include "core/support/race.h"
#include "core/tir/target.h"

namespace lathe::cli {

/// What became of a race of two module files.
struct RaceOutcome {
  std::optional<RaceResult> result;
  std::string why_not;   // there is no result
  bool crashed = false;  // for a build crashed or hung
};

/// Races the untuned build's file, the incumbent, against the tuned one's, for so many seconds; `dims` are
/// the numbers for their open dimensions.
using RaceFiles = std::function<RaceOutcome(const std::string& untuned, const std::string& tuned,
                                            double seconds, std::span<const int64_t> dims)>;

/// One size of a model with open dimensions.
struct SizeRace {
  std::string size;   // "batch=1, length=16"
  double weight = 0;  // of all sizes together 1
  RaceResult race;
};

struct Shipment {
  std::string module;           // the file
  bool tuned = true;            // else it is the untuned build
  bool same = false;            // both builds are the same bytes
  bool raced = true;            // else only the kernels were timed
  std::string why_not_raced;    // "": nobody was asked to
  bool crashed = false;         // a build did, in the race
  RaceResult race;              // the untuned build as incumbent, the tuned one as challenger
  std::vector<SizeRace> sizes;  // where dimensions are open; `race` is then all together (together())
  double rounding_error = 0;    // of what is shipped
  double seconds() const { return tuned ? race.challenger : race.incumbent; }
};

/// On this machine. Ctrl-C ends the race early.
RaceFiles race_here(int threads);

/// The races of all sizes as one: its ratio is the mean of theirs by weight (of the logarithms), as are its
/// times, and its interval is at least as wide as 95% asks, since it takes their intervals' ends together.
RaceResult together(std::span<const SizeRace> sizes);

/// Builds the model with default and with best schedules, races the two and leaves the faster in the job's
/// folder; where neither is clearly faster, the tuned one if `favoured`. Where dimensions are open the two
/// race at each size, and the sizes decide by their weights. Where the race came to nothing the kernels'
/// times decide; where a build crashed in it, the untuned one is left. Throws Error as best_build and the
/// race do.
Shipment ship(const RaceFiles& race, const TuneJob& job, const PreparedJob& prepared, bool favoured);

/// For a model without anything to tune, where nobody is there to race it: builds it with its best schedules
/// or, unless `favoured`, with the default ones.
Shipment ship_unraced(const TuneJob& job, const PreparedJob& prepared, bool favoured);

/// The lines of a report about the race and its outcome, each with its newline.
std::string shipment_text(const Shipment& shipment);

}  // namespace lathe::cli
