#include "core/support/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/support/error.h"

namespace lathe {

namespace {

/// The `fraction` quantile of sorted values, linear between neighbours.
double quantile(const std::vector<double>& sorted, double fraction) {
  // Type 7 of Hyndman and Fan (1996), as NumPy's default.
  double position = fraction * (sorted.size() - 1);
  size_t below = static_cast<size_t>(position), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - below) * (sorted[above] - sorted[below]);
}

/// The rank of each value from 0; equal ones share the mean of theirs.
std::vector<double> ranks(std::span<const float> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return values[i] < values[j]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]];) ++end;
    // The mean of their ranks, as Spearman's coefficient wants it for ties.
    for (size_t i = begin; i < end; ++i) result[order[i]] = (begin + end - 1) / 2.0;
  }
  return result;
}

}  // namespace

double median(std::vector<double> values) {
  CHECK(!values.empty());
  // The upper one of an even count: a value that was measured, in O(n). summarize() has the mean of both.
  auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Summary summarize(std::span<const float> samples) {
  CHECK(!samples.empty());
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  Summary summary{.median = quantile(sorted, 0.5), .p25 = quantile(sorted, 0.25), .min = sorted.front()};
  for (double& value : sorted) value = std::abs(value - summary.median);
  std::sort(sorted.begin(), sorted.end());
  summary.mad = quantile(sorted, 0.5);
  return summary;
}

double spearman(std::span<const float> a, std::span<const float> b) {
  CHECK(a.size() == b.size(), "{} against {} values", a.size(), b.size());
  std::vector<double> x = ranks(a), y = ranks(b);
  // Ranks sum up to the same whatever the values are, shared ones too.
  double mean = (a.size() - 1) / 2.0, xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace lathe
