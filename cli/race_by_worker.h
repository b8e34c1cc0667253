// The last race of a job that a tracker owns, on a worker of the job's class.
#pragma once

#include <functional>
#include <string>

#include "cli/ship.h"
#include "tracker/search_link.h"

namespace lathe::cli {

struct RaceOrder {
  std::string untuned, tuned;  // module files in the job's folder
  int threads = 1;
  double seconds = 30;
};

/// Waits for the race, at most until `stop` says so.
RaceOutcome race_by_worker(tracker::SearchLink& link, const RaceOrder& order,
                           const std::function<bool()>& stop);

/// The race whose turns these are, the untuned build's seconds before the tuned one's: what the worker that
/// ran it saw. REQUIRES: their number is even.
RaceResult race_again(std::span<const float> turns);

}  // namespace lathe::cli
