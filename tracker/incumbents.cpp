#include "tracker/incumbents.h"

#include <algorithm>
#include <limits>

namespace lathe::tracker {

void Incumbent::note(CandidateId candidate, const std::string& who, double seconds) {
  const Claim claim{candidate, who, seconds};
  many_ |= first_.candidate != 0 && who != first_.who;
  if (seconds < first_.seconds) {
    const Claim before = std::exchange(first_, claim);
    if (before.candidate != candidate) second_ = before.seconds;
    // What was the fastest is faster than all others.
    if (before.candidate != 0 && before.is_rival_of(first_))
      other_ = before;
    else if (!other_.is_rival_of(first_))
      other_ = {};
    return;
  }
  if (candidate != first_.candidate) second_ = std::min(second_, seconds);
  if (claim.is_rival_of(first_) && seconds < other_.seconds) other_ = claim;
}

double Incumbent::seconds(const std::string& who) const {
  const double second = many_ || who != first_.who ? other_.seconds : second_;
  return second >= wire::kNoIncumbent ? wire::kNoIncumbent : std::max(first_.seconds, kAlone * second);
}

void Incumbents::note(const TrialSpec& spec, CandidateId candidate, const std::string& who, double seconds) {
  const auto [rivals, is_new] = known_.try_emplace({spec.job, spec.workload_id});
  rivals->second.note(candidate, who, seconds);
  // The oldest job's go first.
  if (is_new && known_.size() > kMost) known_.erase(known_.begin());
}

double Incumbents::seconds(const TrialSpec& spec, const std::string& who) const {
  const auto known = known_.find({spec.job, spec.workload_id});
  return known == known_.end() ? wire::kNoIncumbent : known->second.seconds(who);
}

void Incumbents::forget(JobId job) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  const auto first = known_.lower_bound({job, kLeast});
  known_.erase(first, known_.lower_bound({job + 1, kLeast}));
}

}  // namespace lathe::tracker
