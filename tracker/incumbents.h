// What the candidates of a search are compared with while they are measured: an incumbent that no single one
// of them, and no single worker, can make up.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tracker/journal.h"
#include "tracker/wire/wire.h"

namespace lathe::tracker {

/// Of rivals: candidates of one workload that one job measures, alike.
class Incumbent {
 public:
  /// A candidate takes so long, as far as is believed; `who` says so: a worker's key, or its name.
  void note(CandidateId candidate, const std::string& who, double seconds);
  /// For whom `who` measures: the fastest, but never less than kAlone of the second: whatever one candidate
  /// is said to take, those that are as fast as the second are measured by enough samples for an interval
  /// (workers/sampler.h). So the incumbent is told by two candidates; and by two workers, or by `who` alone,
  /// for what one says of two candidates is to cost nobody else samples. wire::kNoIncumbent before.
  double seconds(const std::string& who) const;
  /// Whether it would be another without what `who` said.
  bool rests_on(const std::string& who) const { return first_.who == who || other_.who == who; }

 private:
  static constexpr double kAlone = 0.95;
  struct Claim {
    CandidateId candidate = 0;
    std::string who;
    double seconds = wire::kNoIncumbent;

    bool is_rival_of(const Claim& other) const { return candidate != other.candidate && who != other.who; }
  };

  bool many_ = false;                   // not all was said by who said first_
  Claim first_;                         // the fastest,
  double second_ = wire::kNoIncumbent;  // the fastest of another candidate,
  Claim other_;                         // and of another candidate by another worker
};

/// The incumbents of jobs. What is forgotten is only measured in full once more.
class Incumbents {
 public:
  void note(const TrialSpec& spec, CandidateId candidate, const std::string& who, double seconds);
  double seconds(const TrialSpec& spec, const std::string& who) const;
  void forget(JobId job);
  /// Those that rest on the word of one who is not believed any more.
  void forget_said_by(const std::string& who) {
    std::erase_if(known_, [&](const auto& entry) { return entry.second.rests_on(who); });
  }

 private:
  static constexpr size_t kMost = 1 << 16;

  std::map<std::pair<JobId, int64_t>, Incumbent> known_;  // by job and workload
};

}  // namespace lathe::tracker
