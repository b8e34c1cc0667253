// Minimal filtering: m outputs of a correlation with r taps from m + r - 1 products instead of m * r
// (Toom 1963, Cook 1966; Winograd, "Arithmetic Complexity of Computations", 1980; for convolutional networks
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015). With a stride s, the taps fall
// into s phases (every s-th tap, from the first .. s-th), each a correlation of stride 1 on every s-th datum:
// their products stand side by side, and the output adds them up (the polyphase decomposition; Huang et al.,
// "DWM: A Decomposable Winograd Method for Convolution Acceleration", 2020).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lathe::schedule {

/// Rows of numbers.
using Matrix = std::vector<std::vector<double>>;

/// m outputs of r taps at a stride of s.
struct Filtering {
  int64_t outputs, taps, stride = 1;

  int64_t inputs() const { return stride * (outputs - 1) + taps; }
  /// Of the phase with the most taps: the points that it is made from decide the rounding error.
  int64_t products_of_a_phase() const { return outputs + (taps + stride - 1) / stride - 1; }
  /// Of all phases.
  int64_t products() const { return std::min(stride, taps) * (outputs - 1) + taps; }
};

/// y = output * ((kernel * g) . (input * d)), where `.` multiplies element by element: y[i] is the sum over k
/// of d[s * i + k] * g[k] for i < m, k < r.
struct CookToom {
  Matrix output;  // m x products, "A^T"
  Matrix kernel;  // products x r, "G"
  Matrix input;   // products x inputs, "B^T"
};

/// The most products of one phase that `cook_toom` knows points for, and the most it makes of all phases.
/// Rounding errors grow with every point (Barabasz et al., "Error Analysis and Improving the Accuracy of
/// Winograd Convolution", 2018): 4 products lose nothing to speak of, 6 about two decimal digits, 8 about
/// three.
inline constexpr int64_t kMostProducts = 10;

/// A single output takes the definition: each tap is a product. More are made from the points 0, 1, -1, 2,
/// -2, 1/2, -1/2, 4, -4 and infinity, as many as it takes; all factors except those of `kernel` are exact in
/// binary. REQUIRES: outputs, taps and stride >= 1, f.products() <= kMostProducts.
CookToom cook_toom(const Filtering& f);

}  // namespace lathe::schedule
