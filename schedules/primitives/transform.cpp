#include "schedules/primitives/transform.h"

#include <algorithm>
#include <cmath>

#include "core/tir/builder.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// The sum of factor * value; subtracts what has a negative factor, and begins with a positive one where
/// there is any, so that no value has to be negated.
Expr sum_of(const std::vector<std::pair<double, Expr>>& terms, DataType dtype) {
  auto scaled = [&](double factor, const Expr& e) { return factor == 1 ? e : constant(dtype, factor) * e; };
  auto first = std::find_if(terms.begin(), terms.end(), [](const auto& term) { return term.first > 0; });
  if (first == terms.end()) first = terms.begin();
  if (first == terms.end()) return constant(dtype, 0);
  Expr sum = scaled(first->first, first->second);
  for (auto term = terms.begin(); term != terms.end(); ++term) {
    if (term == first) continue;
    Expr part = scaled(std::abs(term->first), term->second);
    sum = term->first < 0 ? sum - part : sum + part;
  }
  return sum;
}

/// Columns k, l of which each row holds the same factor up to its sign: x[k] + x[l] and x[k] - x[l] serve all
/// rows.
bool columns_pair(const Matrix& m, size_t k, size_t l) {
  return std::all_of(m.begin(), m.end(),
                     [&](const auto& row) { return std::abs(row[k]) == std::abs(row[l]); });
}
}  // namespace

std::vector<Expr> transformed(const Matrix& matrix, const std::vector<Expr>& x) {
  DataType dtype = x[0].dtype();
  // By column, the one it is paired with; x.size() for none.
  std::vector<size_t> partner(x.size(), x.size());
  for (size_t k = 0; k < x.size(); ++k)
    for (size_t l = k + 1; l < x.size() && partner[k] == x.size(); ++l)
      if (partner[l] == x.size() && columns_pair(matrix, k, l)) partner[k] = l, partner[l] = k;
  std::vector<Expr> result;
  for (const std::vector<double>& row : matrix) {
    // Where a row of the other signs exists, the terms that keep theirs come first.
    auto mirrored = [&](const std::vector<double>& other) {
      for (size_t k = 0; k < row.size(); ++k)
        if (std::abs(row[k]) != std::abs(other[k])) return false;
      return &other != &row;
    };
    auto mirror = std::find_if(matrix.begin(), matrix.end(), mirrored);
    std::vector<std::pair<double, Expr>> same, opposite;
    for (size_t k = 0; k < row.size(); ++k) {
      if (row[k] == 0 || partner[k] < k) continue;
      bool paired = partner[k] < row.size(), flips = mirror != matrix.end() && (*mirror)[k] != row[k];
      Expr term = !paired ? x[k] : row[k] == row[partner[k]] ? x[k] + x[partner[k]] : x[k] - x[partner[k]];
      (flips && !paired ? opposite : same).emplace_back(row[k], term);
    }
    if (same.empty()) std::swap(same, opposite);
    Expr value = sum_of(same, dtype);
    if (!opposite.empty()) {
      // The mirror's part is this one times -1: both read the same sum.
      bool negate = opposite.front().first < 0;
      for (auto& term : opposite) term.first = negate ? -term.first : term.first;
      Expr part = sum_of(opposite, dtype);
      value = negate ? value - part : value + part;
    }
    result.push_back(value);
  }
  return result;
}

Expr element(const std::vector<Expr>& values, const Expr& index) {
  Expr result = values.back();
  for (size_t i = values.size() - 1; i-- > 0;)
    result = select(equal(index, static_cast<int64_t>(i)), values[i], result);
  return result;
}

}  // namespace lathe::schedule
