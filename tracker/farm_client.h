// The tuner's view of a farm: candidates in, results out. Search goes on while others build and run: keep
// about twice `slots` candidates in flight.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "core/support/error.h"
#include "tracker/farm.h"
#include "tracker/journal.h"

namespace lathe::tracker {

/// There is no room for these candidates now; there will be, when some of the job's or its owner's have been
/// measured.
class QueueFull : public Error {
 public:
  using Error::Error;
};

/// Calls may come from any thread. Each throws Error when the farm has failed for good (its disk is full,
/// say).
class FarmClient {
 public:
  virtual ~FarmClient() = default;

  /// On disk when it returns. Throws QueueFull, and then nothing was submitted.
  virtual std::vector<Submission> submit(JobId job, std::span<const Candidate> candidates) = 0;
  /// The job's results since the last call; waits for at least one, or for the time to pass. Also delivers
  /// results of trials that were open when the tracker started. The first call for a job, or its first
  /// submission, begins the delivery.
  virtual std::vector<Finished> poll(JobId job, std::chrono::milliseconds timeout) = 0;
  /// Trials of the job that have no result yet.
  virtual size_t in_flight(JobId job) = 0;
  virtual FarmStatus status() = 0;
  /// Its open trials end without results.
  virtual void cancel(JobId job) = 0;
};

/// What the jobs that a tracker owns may ask of it besides.
class ServiceFarm : public FarmClient {
 public:
  /// Has the two modules raced by a worker that fits `spec`. The result is one of the job's, with this trial;
  /// its samples are the turns. The race ends with its tracker. REQUIRES: `spec.race`.
  virtual TrialId race(TrialSpec spec) = 0;
  /// Nobody waits for that race any more: its worker may do something else. One that has ended stays so.
  virtual void cancel_race(TrialId race) = 0;
  /// Nobody polls for the job any more; until somebody does, its results are in the database alone.
  virtual void leave(JobId job) = 0;
};

}  // namespace lathe::tracker
