#include "core/support/process_spread.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/support/error.h"

namespace lathe {
namespace {

/// Of the median of so many normal values, in relation to that of one: pi / 2n for many; for few within 1%
/// where they are odd, and 18% too much where they are even.
double variance_of_median(size_t count) {
  const auto n = static_cast<double>(count);
  return count <= 2 ? 1 / n : std::numbers::pi / (2 * n + 1);
}

}  // namespace

void ProcessSpread::add(std::span<const double> medians) {
  double sum = 0;
  for (double median : medians) {
    CHECK(median > 0 && std::isfinite(median), "a median of {}", median);
    sum += std::log(median);
  }
  for (double median : medians)
    squares_ += std::pow(std::log(median) - sum / static_cast<double>(medians.size()), 2);
  if (!medians.empty()) freedom_ += static_cast<double>(medians.size() - 1);
}

void ProcessSpread::add(const ProcessSpread& other) {
  squares_ += other.squares_;
  freedom_ += other.freedom_;
}

std::optional<TimeInterval> interval_of_sum(std::span<const TimedTerm> terms, double confidence) {
  ProcessSpread all;
  double sum = 0;
  for (const TimedTerm& term : terms) all.add(term.spread), sum += term.seconds;
  if (all.freedom() <= 0) return std::nullopt;
  // Variances of the terms, in relation to the sum; and, for the freedom of their sum, of these.
  double variance = 0, of_variance = 0, of_others = 0;
  for (const TimedTerm& term : terms) {
    const double share = std::pow(term.seconds / sum, 2) * variance_of_median(term.processes);
    if (term.spread.freedom() <= 0) {
      of_others += share;
      continue;
    }
    const double its = share * term.spread.variance();
    variance += its;
    of_variance += its * its / term.spread.freedom();
  }
  // They share one estimate.
  const double its = of_others * all.variance();
  variance += its;
  of_variance += its * its / all.freedom();
  const double freedom = of_variance > 0 ? std::max(1.0, variance * variance / of_variance) : all.freedom();
  const double half = student_quantile(confidence, freedom) * std::sqrt(variance);
  return TimeInterval{sum * std::exp(-half), sum * std::exp(half)};
}

double student_quantile(double confidence, double freedom) {
  CHECK(freedom >= 1 && confidence > 0 && confidence < 1);
  // With t = sqrt(freedom) * tan(angle) the density is cos(angle)^(freedom - 1), which is smooth.
  const auto within = [&](double angle) {  // Simpson's rule from 0
    constexpr int kSteps = 128;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double weight = i == 0 || i == kSteps ? 1 : i % 2 ? 4 : 2;
      sum += weight * std::pow(std::cos(angle * i / kSteps), freedom - 1);
    }
    return sum * angle / kSteps / 3;
  };
  const double scale =
      2 / std::sqrt(std::numbers::pi) * std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2));
  double low = 0, high = std::numbers::pi / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (scale * within(middle) < confidence ? low : high) = middle;
  }
  return std::sqrt(freedom) * std::tan(low);
}

}  // namespace lathe
