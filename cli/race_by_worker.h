// The last race of a job on a worker of its device: of a job that a tracker owns, or for a board.
#pragma once

#include <functional>
#include <span>

#include "cli/ship.h"
#include "tracker/farm_client.h"

namespace lathe::cli {

/// Has the race of the job begun, and waits for it, at most until `stop` says so. What `begin` throws is why
/// there is none.
RaceOutcome race_by_worker(tracker::FarmClient& farm, tracker::JobId job,
                           const std::function<tracker::TrialId()>& begin, const std::function<bool()>& stop);

/// The race whose turns these are, the untuned build's seconds before the tuned one's: what the worker that
/// ran it saw. REQUIRES: their number is even.
RaceResult race_again(std::span<const float> turns);

}  // namespace lathe::cli
