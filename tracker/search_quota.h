// How much of the database one job may fill, whatever its searcher has become by reading its model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/support/error.h"
#include "db/records.h"
#include "tracker/job_request.h"

namespace lathe::tracker {

/// A job has come to its limit; it would again.
class QuotaError : public Error {
 public:
  using Error::Error;
};

/// Of a job's trials as many as it asked for, and those that confirm winners; of all texts together, so many
/// for each trial and task and for the time that the job has. What an honest search needs is a small part.
/// And no more than is left of what all jobs of its owner may keep.
class SearchQuota {
 public:
  /// `stored`: by earlier lives of its searcher. `room`: bytes that its owner's other jobs leave it.
  SearchQuota(const JobRequest& request, const db::StoredByJob& stored, int64_t room = INT64_MAX);

  /// The model has so many tasks.
  void set_tasks(size_t tasks);
  /// It exists for so long.
  void set_age(double seconds);

  /// Throws QuotaError, and nothing is taken, when that is more than is left.
  void take_trials(size_t count, size_t bytes);
  void take_text(size_t bytes);
  /// What the job's next life would go on from has so many bytes now. Throws QuotaError where its owner has
  /// no room for more than before.
  void keep_state(size_t bytes);
  /// Some of what was taken was not needed.
  void return_trials(size_t count);
  /// Nothing of take_trials(count, bytes) came to be.
  void give_back(size_t count, size_t bytes);
  /// Taken by all its lives, and kept now.
  int64_t bytes() const { return bytes_ + state_; }

 private:
  int64_t most_trials() const;
  int64_t most_bytes() const;
  void require(int64_t trials, int64_t bytes) const;

  const int64_t searched_;  // trials that it asked for
  const int64_t room_;
  int64_t tasks_ = 0;
  double seconds_ = 0;
  int64_t state_ = 0;
  int64_t trials_, bytes_;  // taken
};

}  // namespace lathe::tracker
