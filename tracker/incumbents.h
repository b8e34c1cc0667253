// What the candidates of a search are compared with while they are measured: an incumbent that no single one
// of them can make up.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "tracker/journal.h"
#include "tracker/wire.h"

namespace lathe::tracker {

/// Of rivals: candidates of one workload that one job measures, alike.
class Incumbent {
 public:
  /// A candidate takes so long, as far as is believed.
  void note(CandidateId candidate, double seconds);
  /// The fastest, but never less than kAlone of the second: whatever one candidate is said to take, those
  /// that are as fast as the second are measured by enough samples for an interval (workers/sampler.h). So
  /// the incumbent is told by two; wire::kNoIncumbent before.
  double seconds() const;

 private:
  static constexpr double kAlone = 0.95;

  CandidateId fastest_ = 0;
  double first_ = wire::kNoIncumbent, second_ = wire::kNoIncumbent;
};

/// The incumbents of jobs. What is forgotten is only measured in full once more.
class Incumbents {
 public:
  void note(const TrialSpec& spec, CandidateId candidate, double seconds);
  double seconds(const TrialSpec& spec) const;
  void forget(JobId job);
  void forget_all() { known_.clear(); }

 private:
  static constexpr size_t kMost = 1 << 16;

  std::map<std::pair<JobId, int64_t>, Incumbent> known_;  // by job and workload
};

}  // namespace lathe::tracker
