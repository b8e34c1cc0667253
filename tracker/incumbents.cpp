#include "tracker/incumbents.h"

#include <algorithm>
#include <limits>

namespace lathe::tracker {

void Incumbent::note(CandidateId candidate, double seconds) {
  if (candidate == fastest_) {
    first_ = std::min(first_, seconds);
  } else if (seconds < first_) {
    second_ = std::exchange(first_, seconds);
    fastest_ = candidate;
  } else {
    second_ = std::min(second_, seconds);
  }
}

double Incumbent::seconds() const {
  return second_ >= wire::kNoIncumbent ? wire::kNoIncumbent : std::max(first_, kAlone * second_);
}

void Incumbents::note(const TrialSpec& spec, CandidateId candidate, double seconds) {
  const auto [rivals, is_new] = known_.try_emplace({spec.job, spec.workload_id});
  rivals->second.note(candidate, seconds);
  // The oldest job's go first.
  if (is_new && known_.size() > kMost) known_.erase(known_.begin());
}

double Incumbents::seconds(const TrialSpec& spec) const {
  const auto known = known_.find({spec.job, spec.workload_id});
  return known == known_.end() ? wire::kNoIncumbent : known->second.seconds();
}

void Incumbents::forget(JobId job) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const auto first = known_.lower_bound({job, kLeast});
  known_.erase(first, known_.lower_bound({job + 1, kLeast}));
}

}  // namespace lathe::tracker
