#include "core/support/signed_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/support/error.h"

namespace lathe {
namespace {

constexpr size_t kMostExact = 200;  // beyond, tails of the normal distribution are as good

/// The largest k for which a sum of ranks below k has a probability of `tail` at most, from the sum's
/// distribution: each rank counts or does not, with a chance of one half.
size_t exact_critical(size_t n, double tail) {
  // O(n^3) in all: n ranks over n^2 / 2 sums. At n = 200 that is 4 million steps, some milliseconds.
  std::vector<double> chance(n * (n + 1) / 2 + 1, 0.0);
  chance[0] = 1;
  for (size_t rank = 1, most = 0; rank <= n; ++rank) {
    most += rank;
    // Downward, so that chance[sum - rank] is still that without this rank.
    for (size_t sum = most + 1; sum-- > 0;)
      chance[sum] = 0.5 * (chance[sum] + (sum >= rank ? chance[sum - rank] : 0));
  }
  size_t k = 0;
  // `below` is the chance of a sum less than or equal to k, so the loop ends at the last k
  // that leaves enough.
  for (double below = chance[0]; below <= tail && k + 1 < chance.size(); below += chance[k]) ++k;
  return k;
}

/// How far below its mean a normal variable is with a chance of `tail`, in standard deviations.
double normal_quantile(double tail) {
  // By halving, for the standard library has no inverse; erfc is 0 in double beyond 40 deviations.
  double low = 0, high = 40;
  while (high - low > 1e-9) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > tail ? low : high) = middle;
  }
  return low;
}

/// The same from the normal distribution of equal mean and variance.
size_t normal_critical(size_t n, double tail) {
  const auto count = static_cast<double>(n);
  // n(n+1)/4 and n(n+1)(2n+1)/24, the moments of Wilcoxon's signed-rank sum.
  const double mean = count * (count + 1) / 4, deviation = std::sqrt(mean * (2 * count + 1) / 6);
  return static_cast<size_t>(std::max(0.0, mean - normal_quantile(tail) * deviation));
}

double ranked(std::vector<double>& values, size_t rank) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(rank), values.end());
  return values[rank];
}

}  // namespace

Location hodges_lehmann(std::span<const double> values, double confidence) {
  CHECK(!values.empty());
  // Walsh averages, O(n^2): 270,000 at the last look of a race.
  std::vector<double> means;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i; j < values.size(); ++j) means.push_back((values[i] + values[j]) / 2);
  const size_t n = values.size(), middle = means.size() / 2;
  const double tail = (1 - confidence) / 2;
  // So many means on either side are outside of the interval.
  const size_t outside = n <= kMostExact ? exact_critical(n, tail) : normal_critical(n, tail);
  const double centre = (ranked(means, middle) + ranked(means, means.size() - 1 - middle)) / 2;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // So few values that no interval of them has this confidence.
  if (outside == 0) return {centre, -kInfinity, kInfinity};
  return {centre, ranked(means, outside - 1), ranked(means, means.size() - outside)};
}

}  // namespace lathe
