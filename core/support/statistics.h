// Statistics of measurements and of predictions.
#pragma once

#include <span>
#include <vector>

namespace lathe {

/// What is kept of a series of samples. `mad` is the median absolute deviation from the median.
struct Summary {
  double median = 0, p25 = 0, min = 0, mad = 0;
};

/// REQUIRES: at least one sample, none of them NaN.
Summary summarize(std::span<const float> samples);

/// The middle value, of an even number the upper one. REQUIRES: at least one value, none of them NaN.
double median(std::vector<double> values);

/// Spearman's rank correlation in -1 .. 1; equal values share their mean rank. 0 when either side is
/// constant. REQUIRES: equal sizes.
double spearman(std::span<const float> a, std::span<const float> b);

}  // namespace lathe
