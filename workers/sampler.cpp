#include "workers/sampler.h"

#include <algorithm>
#include <cmath>

namespace lathe::worker {
namespace {

// Of five the least and the most hold the median with 94% only.
constexpr size_t kFewest = 6;

struct Interval {
  double low = 0, high = 0;
};

/// The 95% interval of the median; of fewer than kFewest samples the least and the most, which hold less.
/// REQUIRES: at least one sample, sorted.
Interval median_interval(const std::vector<float>& sorted) {
  const auto n = static_cast<double>(sorted.size());
  // Ranks whose binomial tails hold 2.5% each, by the normal approximation.
  // 1.96 standard deviations of the number of n samples below the median, which is half the root of n.
  const double half = 0.98 * std::sqrt(n);
  const auto low = static_cast<size_t>(std::max(0.0, std::floor(n / 2 - half)));
  const auto high = std::min(sorted.size() - 1, static_cast<size_t>(std::ceil(n / 2 + half)));
  return {sorted[low], sorted[high]};
}

// A run that takes less than the one before, times it, says that the process is still warming up. The first
// one of a short kernel may take over twice what it takes in the end.
constexpr double kWarming = 0.9;
// Who takes so long in its first run, times the incumbent, comes to no less than the incumbent.
constexpr double kHopeless = 3;

/// How far a loser's samples are above the incumbent, times it: the less the more there are, 1.21 for
/// two, 1.12 for three, 1.04 for six, 1.01 for fifteen. Found on recorded searches, as the numbers above
/// (bench/results/2026-11-28-early-stop.md).
double lost_after(size_t samples) { return 1 + 0.6 / std::pow(static_cast<double>(samples), 1.5); }

}  // namespace

double relative_interval(std::vector<float> samples) {
  // 1: not known.
  if (samples.size() < kFewest) return 1;
  std::sort(samples.begin(), samples.end());
  const Interval interval = median_interval(samples);
  return (interval.high - interval.low) / 2 / samples[samples.size() / 2];
}

void Sampler::add(double seconds, bool disturbed) {
  // Taken again, but not for ever: on a machine that is never quiet disturbed samples are all there is.
  const bool again = disturbed && retaken_.size() < std::max(evaluation_.max_samples, 1u);
  if (!again && warming_ && !samples_.empty()) {
    warming_ = seconds < kWarming * samples_.back();
    if (warming_) samples_.clear();
  }
  (again ? retaken_ : samples_).push_back(static_cast<float>(seconds));
}

std::vector<float> Sampler::samples() const {
  std::vector<float> samples = samples_, others = retaken_;
  // The least disturbed first.
  // By time: what disturbs adds to it.
  std::sort(others.begin(), others.end());
  for (size_t i = 0; i < others.size() && samples.size() < std::max(evaluation_.min_samples, 1u); ++i)
    samples.push_back(others[i]);
  return samples;
}

/// A loser that no further sample makes a winner (M1). Its samples still tell by how much it has lost.
bool Sampler::has_lost() const {
  if (evaluation_.incumbent_seconds <= 0 || samples_.empty()) return false;
  if (warming_) return samples_.back() > kHopeless * evaluation_.incumbent_seconds;
  std::vector<float> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  return median_interval(sorted).low > lost_after(sorted.size()) * evaluation_.incumbent_seconds;
}

bool Sampler::done(double elapsed) const {
  if (samples_.size() >= std::max(evaluation_.max_samples, 1u)) return true;
  // So slow that even the smallest number of samples is more than we want to spend.
  // Even with too few: an unscheduled program may take seconds.
  if (elapsed > 3 * evaluation_.budget_seconds) return true;
  if (has_lost()) return true;
  if (samples_.size() < std::max(evaluation_.min_samples, 1u)) return false;
  return elapsed > evaluation_.budget_seconds || relative_interval(samples_) <= evaluation_.relative_interval;
}

}  // namespace lathe::worker
