#include "bench/ranking.h"

#include <algorithm>

#include "core/support/statistics.h"

namespace lathe::bench {
namespace {

/// The `count` largest, as indices.
std::vector<size_t> largest(const std::vector<float>& values, size_t count) {
  std::vector<size_t> order(values.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::min(order.size(), count));
  return order;
}

size_t part_of(const std::vector<float>& all, double share) {
  return static_cast<size_t>(std::ceil(share * static_cast<double>(all.size())));
}

/// The share of the fastest hundredth of `speeds` that is among the best-scored `share` of all.
double recall_of_top(const std::vector<float>& scores, const std::vector<float>& speeds, double share) {
  std::vector<size_t> wanted = largest(speeds, part_of(speeds, 0.01)),
                      found = largest(scores, part_of(speeds, share));
  size_t hits = 0;
  for (size_t i : wanted) hits += std::count(found.begin(), found.end(), i) > 0;
  return static_cast<double>(hits) / static_cast<double>(wanted.size());
}

}  // namespace

std::optional<Ranking> rank_unseen(std::span<const tuner::Sample> seen,
                                   std::span<const tuner::Sample> unseen) {
  std::vector<tuner::Features> features;
  std::vector<float> speeds;
  for (const tuner::Sample& sample : unseen) {
    if (!std::isfinite(sample.seconds)) continue;
    features.push_back(sample.features);
    speeds.push_back(static_cast<float>(1 / sample.seconds));
  }
  if (speeds.empty()) return std::nullopt;
  tuner::CostModel model;
  model.train(seen);
  std::vector<float> scores = model.predict(features);
  float of_first = 0;
  for (size_t i : largest(scores, part_of(speeds, 0.1))) of_first = std::max(of_first, speeds[i]);
  return Ranking{speeds.size(), spearman(scores, speeds), recall_of_top(scores, speeds, 0.01),
                 recall_of_top(scores, speeds, 0.1),
                 of_first / *std::max_element(speeds.begin(), speeds.end())};
}

}  // namespace lathe::bench
