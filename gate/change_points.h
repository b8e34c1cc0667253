// Where a series of measurements changed its level: the nights of a benchmark.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace lathe::gate {

struct ChangeRule {
  double alpha = 0.01;          // the chance that a series without a change shows one
  double least_change = 0.005;  // of the level, as a share
};

/// Between the change point before it (or the begin) and the one after it (or the end).
struct ChangePoint {
  size_t at = 0;                 // the first point of the new level
  double before = 0, after = 0;  // the levels: geometric means
  double p = 1;                  // of Welch's t-test between the two
};

/// E-divisive (Matteson and James, Journal of the American Statistical Association 109, 2014) with a t-test
/// in place of its permutations, as Hunter does it (Fleming et al., ICPE 2023): the same series gives the
/// same points each time. Works on logarithms, so a level is a factor. Segments are split where the energy
/// distance between the sides is largest down to a few points, then joined again where the t-test finds
/// least, until all changes that remain are clear. O(n^2) where splits halve a segment, O(n^3) where each
/// takes a few points off an end. REQUIRES: values above 0.
std::vector<ChangePoint> change_points(std::span<const double> series, const ChangeRule& rule = {});

}  // namespace lathe::gate
