// Whether a worker is to be believed: what its canaries say, and whether candidates fail with it alone.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "db/records.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// Of a worker on devices of one class. The first canaries make a baseline, the median of them; how far they
/// lie apart says what is chance on that machine, at least 5%. From then on a canary is good when it is no
/// further from the baseline. Two in a row that are not, or three candidates that failed with this worker and
/// then did well with another, make it suspect; two good ones in a row make it trusted again, or an
/// administrator does. Heat and load make a machine slower than it is, and nothing makes it faster: where it
/// stays faster than the baseline, that becomes the new one.
class Health {
 public:
  Health(std::string worker, std::string device_class);
  /// As it was written down.
  explicit Health(db::WorkerHealth row);

  enum class Change : uint8_t { kNone, kSuspect, kTrusted };
  /// A canary came. Nothing, for a copy: one whose number is not above the last one's.
  std::optional<Change> hear(const wire::Canary& canary);
  /// The same worker's next process: its canaries count from 1 again.
  void begin() { number_ = 0; }
  /// A candidate that this worker said fails, or takes what it cannot (`lied`), did well with another.
  Change blame(uint64_t trial, bool lied = false);
  /// What this worker said of a candidate is contradicted by others. Of two candidates its canaries do not
  /// make it trusted again: whoever chooses when to lie has good ones.
  Change contradict(int64_t candidate, std::string reason);
  /// Of the same worker, which has become a device of another class.
  Health elsewhere(std::string device_class) const;
  /// An administrator's word: trusted from now on, with a baseline of the canaries to come.
  void trust();

  /// Among what it is blamed for is a time that cannot be.
  bool said_what_cannot_be() const { return !lies_.empty(); }
  bool suspect() const { return !row_.suspect.empty(); }
  /// It is suspect, or would sooner be than a stranger.
  bool has_a_record() const { return suspect() || !contradicted_.empty() || !lies_.empty(); }
  bool has_baseline() const { return row_.compute.seconds > 0; }
  /// The last canary that counted was as it should be; so are those that make a baseline.
  bool last_was_good() const { return off_ == 0; }
  /// The one of both kernels that is further from its baseline.
  double drift() const;
  const db::WorkerHealth& row() const { return row_; }

 private:
  /// Of more than one candidate, so that it is no accident.
  bool lies() const;
  Change make_suspect(std::string reason);
  void set_baseline();
  void set_drift();
  std::string describe_drift() const;

  db::WorkerHealth row_;
  uint32_t number_ = 0;              // of the last canary
  std::deque<wire::Canary> recent_;  // that make a baseline, or may
  int off_ = 0, good_ = 0;           // in a row, up to the last
  std::set<uint64_t> blamed_;        // trials
  std::set<uint64_t> lies_;          // of these, for which it said what cannot be
  std::set<int64_t> contradicted_;   // candidates; as long as this tracker lives
};

}  // namespace lathe::tracker
