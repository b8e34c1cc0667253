// Results of a job on their way to whoever searches.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "tracker/journal.h"

namespace lathe::tracker {

/// Races are numbered from here on. They are not in the journal, whose trials are far below.
inline constexpr TrialId kFirstRace = TrialId{1} << 62;

/// Holds no more than so many bytes of what was measured, however long nobody takes it. Of what comes then it
/// keeps how each trial ended, without samples and message: those are in the database.
class Mailbox {
 public:
  static constexpr size_t kBytes = size_t{16} << 20;
  explicit Mailbox(size_t bytes = kBytes) : room_(bytes), left_(bytes) {}

  void put(Finished finished);
  std::vector<Finished> take();
  bool empty() const { return results_.empty(); }

 private:
  size_t room_, left_;
  std::deque<Finished> results_;
};

}  // namespace lathe::tracker
