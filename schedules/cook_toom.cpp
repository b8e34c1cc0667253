#include "schedules/cook_toom.h"

#include <array>

#include "core/support/error.h"

namespace lathe::schedule {

namespace {
/// Small, and exact in binary with all their powers.
constexpr std::array kPoints = {0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 4.0, -4.0};
static_assert(kPoints.size() + 1 == kMostProducts);

/// The coefficients of the product of (x - p) over the first `count` points other than `skipped`, from x^0.
std::vector<double> product_of_roots(size_t count, size_t skipped) {
  std::vector<double> result{1};
  for (size_t i = 0; i < count; ++i) {
    if (i == skipped) continue;
    // Times (x - p): from the highest coefficient down, so that each still finds the old one below it.
    result.push_back(0);
    for (size_t k = result.size() - 1; k > 0; --k) result[k] = result[k - 1] - kPoints[i] * result[k];
    result[0] *= -kPoints[i];
  }
  return result;
}

/// Of stride 1.
CookToom phase(size_t m, size_t r) {
  size_t products = m + r - 1;
  size_t finite = products - 1;  // the last point is infinity
  CookToom result{Matrix(m, std::vector<double>(products)), Matrix(products, std::vector<double>(r)),
                  Matrix(products, std::vector<double>(products))};
  if (m == 1) {  // nothing to save
    result.output[0].assign(products, 1);
    for (size_t k = 0; k < products; ++k) result.kernel[k][k] = result.input[k][k] = 1;
    return result;
  }
  // Toom and Cook multiply polynomials by evaluating both at points, multiplying, and interpolating; a
  // correlation is the transpose of that with one factor fixed. So the kernel is evaluated (and takes
  // Lagrange's denominators, so that the other factors are exact), the data goes through the transposed
  // interpolation, whose rows are the coefficients of the product of all other roots, and the output is the
  // transposed evaluation.
  for (size_t j = 0; j < finite; ++j) {
    double power = 1, scale = 1;
    for (size_t other = 0; other < finite; ++other)
      if (other != j) scale *= kPoints[j] - kPoints[other];
    for (size_t k = 0; k < products; ++k, power *= kPoints[j]) {
      if (k < m) result.output[k][j] = power;
      if (k < r) result.kernel[j][k] = power / scale;
    }
    std::vector<double> row = product_of_roots(finite, j);
    for (size_t k = 0; k < row.size(); ++k) result.input[j][k] = row[k];
  }
  // At infinity a polynomial is its highest coefficient.
  result.output[m - 1][finite] = 1;
  result.kernel[finite][r - 1] = 1;
  result.input[finite] = product_of_roots(finite, finite);
  return result;
}
}  // namespace

CookToom cook_toom(const Filtering& f) {
  CHECK(f.outputs >= 1 && f.taps >= 1 && f.stride >= 1 && f.products() <= kMostProducts, "F({}, {}) / {}",
        f.outputs, f.taps, f.stride);
  auto m = static_cast<size_t>(f.outputs), r = static_cast<size_t>(f.taps), s = static_cast<size_t>(f.stride);
  auto inputs = static_cast<size_t>(f.inputs());
  CookToom result;
  result.output.resize(m);
  // Phases stand one after the other among the products; `spread` puts the taps and data of one back to every
  // s-th place.
  for (size_t first = 0; first < std::min(r, s); ++first) {
    CookToom part = phase(m, (r - first + s - 1) / s);
    for (size_t i = 0; i < m; ++i)
      result.output[i].insert(result.output[i].end(), part.output[i].begin(), part.output[i].end());
    auto spread = [&](const Matrix& rows, size_t width, Matrix& into) {
      for (const std::vector<double>& row : rows) {
        std::vector<double>& wide = into.emplace_back(width);
        for (size_t k = 0; k < row.size(); ++k) wide[first + s * k] = row[k];
      }
    };
    spread(part.kernel, r, result.kernel);
    spread(part.input, inputs, result.input);
  }
  return result;
}

}  // namespace lathe::schedule
