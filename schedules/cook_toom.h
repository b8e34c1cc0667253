// Minimal filtering: m outputs of a correlation with r taps from m + r - 1 products instead of m * r
// (Toom 1963, Cook 1966; Winograd, "Arithmetic Complexity of Computations", 1980; for convolutional networks
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015).
#pragma once

#include <cstdint>
#include <vector>

namespace lathe::schedule {

/// Rows of numbers.
using Matrix = std::vector<std::vector<double>>;

/// y = output * ((kernel * g) . (input * d)), where `.` multiplies element by element: y[i] is the sum over k
/// of d[i + k] * g[k] for i < m, k < r.
struct CookToom {
  Matrix output;  // m x (m + r - 1), "A^T"
  Matrix kernel;  // (m + r - 1) x r, "G"
  Matrix input;   // (m + r - 1) x (m + r - 1), "B^T"
};

/// The most products of one dimension that `cook_toom` knows points for. Rounding errors grow with every
/// point (Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2018): 4
/// products lose nothing to speak of, 6 about two decimal digits, 8 about three.
inline constexpr int64_t kMostProducts = 10;

/// A single output takes the definition: each tap is a product. More are made from the points 0, 1, -1, 2,
/// -2, 1/2, -1/2, 4, -4 and infinity, as many as it takes; all factors except those of `kernel` are exact in
/// binary. REQUIRES: outputs >= 1, taps >= 1, outputs + taps - 1 <= kMostProducts.
CookToom cook_toom(int64_t outputs, int64_t taps);

}  // namespace lathe::schedule
