// Where the centre of paired differences lies, with no assumption but symmetry.
#pragma once

#include <span>

namespace lathe {

struct Location {
  double centre = 0, low = 0, high = 0;
};

/// The Hodges-Lehmann estimate of the centre of `values` (the median of the means of all pairs, each value
/// with itself among them), and the interval of Wilcoxon's signed-rank test, which covers the centre of any
/// symmetric distribution with at least `confidence` (Hodges and Lehmann, The Annals of Mathematical
/// Statistics 34, 1963; Hollander and Wolfe, Nonparametric Statistical Methods, section 3.3). A quarter of
/// the values may be wild. The interval is infinite when there are too few values for the confidence; exact
/// up to 200 values. Time O(n^3) where it is exact, memory O(n^2). REQUIRES: at least one value, none of them
/// NaN.
Location hodges_lehmann(std::span<const double> values, double confidence);

}  // namespace lathe
