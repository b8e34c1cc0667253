#include "gate/change_points.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>

#include "core/support/error.h"

namespace lathe::gate {
namespace {

// Of two or three values the variance is by luck next to nothing, and any step beside them clear.
constexpr size_t kLeastPoints = 4;  // of a segment

using Values = std::span<const double>;

/// The sum of the distances from `value` to each of the others.
double distance(double value, Values others) {
  return std::accumulate(others.begin(), others.end(), 0.0,
                         [&](double sum, double other) { return sum + std::abs(value - other); });
}

/// Where the energy distance between what is before and after, weighted by their sizes, is largest.
/// O(n^2): moving one value to the left changes the three sums by its distances alone.
size_t best_split(Values values) {
  const size_t n = values.size();
  double left = 0, right = 0, across = 0;  // sums of |x - y| over pairs within and between the sides
  for (size_t i = 0; i < n; ++i) right += distance(values[i], values.subspan(i + 1));
  size_t best = kLeastPoints;
  double best_energy = -1;
  for (size_t at = 1; at + kLeastPoints <= n; ++at) {  // values[at - 1] goes to the left
    const double to_left = distance(values[at - 1], values.first(at - 1)),
                 to_right = distance(values[at - 1], values.subspan(at));
    left += to_left;
    right -= to_right;
    across += to_right - to_left;
    if (at < kLeastPoints) continue;
    // Twice the mean distance between the sides less the mean distances within them, times ab / (a + b); it
    // estimates 0 where both are of one distribution.
    const auto a = static_cast<double>(at), b = static_cast<double>(n - at);
    const double energy =
        a * b / (a + b) * (2 * across / (a * b) - 2 * left / (a * (a - 1)) - 2 * right / (b * (b - 1)));
    if (energy > best_energy) best_energy = energy, best = at;
  }
  return best;
}

/// Splits down to the least segments, without asking whether a change is clear: change_points() judges that
/// afterwards. Points come in ascending order.
/// A test at each split would not do: where a level rose and fell back, no single split of the whole stands
/// out, and the two changes would never be looked for.
void split(Values values, size_t offset, std::vector<size_t>& points) {
  if (values.size() < 2 * kLeastPoints) return;
  const size_t at = best_split(values);
  split(values.first(at), offset, points);
  points.push_back(offset + at);
  split(values.subspan(at), offset + at, points);
}

struct Level {
  double mean = 0, variance = 0, count = 0;
};

Level level_of(Values values) {
  Level level{.count = static_cast<double>(values.size())};
  level.mean = std::accumulate(values.begin(), values.end(), 0.0) / level.count;
  for (double value : values)
    // Of a sample; segments have kLeastPoints, so count - 1 is above 0.
    level.variance += (value - level.mean) * (value - level.mean) / (level.count - 1);
  return level;
}

/// Welch's t-test, two-sided.
double p_value(const Level& a, const Level& b) {
  const double of_a = a.variance / a.count, of_b = b.variance / b.count;
  // Before the quotient, which would be 0 / 0 for two levels that are constant and the same.
  if (a.mean == b.mean) return 1;
  // Two levels without any scatter: no chance makes them differ.
  if (of_a + of_b == 0) return 0;
  const double t = std::abs(a.mean - b.mean) / std::sqrt(of_a + of_b);
  // Of Welch and Satterthwaite: the two variances are not taken for one.
  const double freedom =
      (of_a + of_b) * (of_a + of_b) / (of_a * of_a / (a.count - 1) + of_b * of_b / (b.count - 1));
  // The complement, for 1 - cdf is 0 where p is below the resolution of a double at 1.
  return 2 * boost::math::cdf(boost::math::complement(boost::math::students_t(freedom), t));
}

/// The point at `at` between the segments [begin, at) and [at, end).
ChangePoint judge(Values logarithms, size_t begin, size_t at, size_t end) {
  const Level before = level_of(logarithms.subspan(begin, at - begin)),
              after = level_of(logarithms.subspan(at, end - at));
  return {at, std::exp(before.mean), std::exp(after.mean), p_value(before, after)};
}

std::vector<ChangePoint> judge_all(Values logarithms, const std::vector<size_t>& points) {
  std::vector<ChangePoint> judged;
  for (size_t i = 0; i < points.size(); ++i)
    judged.push_back(judge(logarithms, i == 0 ? 0 : points[i - 1], points[i],
                           i + 1 < points.size() ? points[i + 1] : logarithms.size()));
  return judged;
}

}  // namespace

std::vector<ChangePoint> change_points(std::span<const double> series, const ChangeRule& rule) {
  std::vector<double> logarithms;
  for (double value : series) {
    CHECK(value > 0, "{}", value);
    logarithms.push_back(std::log(value));
  }
  std::vector<size_t> points;
  split(logarithms, 0, points);
  // There were so many places to choose from (Bonferroni).
  const double most_p = rule.alpha / static_cast<double>(std::max<size_t>(series.size(), 1));
  // A change too small to matter is joined first, whatever its p.
  const auto doubt = [&](const ChangePoint& point) {
    return std::abs(point.after / point.before - 1) < rule.least_change ? 2 : point.p;
  };
  // One point goes at a time, the least clear one, for its neighbours' segments grow by it and have to be
  // judged anew.
  for (;;) {
    std::vector<ChangePoint> judged = judge_all(logarithms, points);
    const auto weakest = std::max_element(judged.begin(), judged.end(),
                                          [&](const auto& a, const auto& b) { return doubt(a) < doubt(b); });
    if (weakest == judged.end() || doubt(*weakest) <= most_p) return judged;
    points.erase(points.begin() + (weakest - judged.begin()));
  }
}

}  // namespace lathe::gate
