#include "schedules/open_dims.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "core/arith/simplify.h"
#include "core/arith/typical_dims.h"
#include "core/tir/dims.h"

namespace lathe::schedule {

using namespace tir;

namespace {
/// Annotations of a function: kTypicalKey + "0" is for its first dimension, and kMostKey + "0" what that is
/// in calls at most, where it is at least 1; the last one is of a program with these in place of them.
constexpr const char *kTypicalKey = "typical", *kMostKey = "most", *kStandsInKey = "stands_in";

/// One below, at and above multiples of vectors and register tiles, and less than any of these.
constexpr int64_t kEdges[] = {2, 7, 15, 16, 17, 33, 61};

/// Less of the other dimensions where one is large: the unscheduled program is to run at a size that is no
/// larger than the one that is measured.
void make_lighter(std::vector<int64_t>& values, std::span<const int64_t> typical) {
  constexpr double kLight = 4096;
  while (product_of(values) > std::max(product_of(typical), kLight)) {
    int64_t* most = nullptr;
    for (int64_t& value : values)
      if (value > kEdges[0] && std::find(std::begin(kEdges), std::end(kEdges), value) != std::end(kEdges) &&
          (!most || value > *most))
        most = &value;
    if (!most) return;
    *most = *(std::find(std::begin(kEdges), std::end(kEdges), *most) - 1);
  }
}
}  // namespace

std::vector<int64_t> typical_dims(const Func& program) {
  std::vector<int64_t> values;
  for (size_t i = 0; i < dims_of(*program).size(); ++i) {
    auto found = program->annotations.find(kTypicalKey + std::to_string(i));
    values.push_back(found == program->annotations.end() ? kTypicalDim : found->second);
  }
  return values;
}

Func for_typical_dims(const Func& program, std::span<const int64_t> values) {
  auto copy = mutate(*with_dims(program, values));
  copy->annotations[kStandsInKey] = 1;
  return seal(std::move(copy));
}

Func at_typical_dims(const Func& program) {
  const std::vector<int64_t> values = typical_dims(program);
  return values.empty() ? program : for_typical_dims(program, values);
}

bool is_for_typical_dims(const FuncNode& program) { return program.annotations.count(kStandsInKey) != 0; }

Func without_typical_dims(const Func& program) {
  auto copy = mutate(*program);
  std::erase_if(copy->annotations, [](const auto& each) { return each.first.starts_with(kTypicalKey); });
  return copy->annotations.size() == program->annotations.size() ? program : seal(std::move(copy));
}

Func with_typical(const Func& program, size_t dim, int64_t value) {
  auto copy = mutate(*program);
  copy->annotations[kTypicalKey + std::to_string(dim)] = value;
  return seal(std::move(copy));
}

Func with_most(const Func& program, size_t dim, int64_t value) {
  auto copy = mutate(*program);
  copy->annotations[kMostKey + std::to_string(dim)] = value;
  return seal(std::move(copy));
}

Expr simplify_for_calls(const FuncNode& program, const Expr& e) {
  Analyzer known;
  const std::vector<Var> dims = dims_of(program);
  for (size_t i = 0; i < dims.size(); ++i)
    if (auto most = program.annotations.find(kMostKey + std::to_string(i)); most != program.annotations.end())
      known.bind(dims[i], {1, most->second});
  Expr simple = known.simplify(e);
  const Bound value = known.bound(simple);
  return value.is_point() ? Expr(value.min) : simple;
}

double product_of(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), 1.0,
                         [](double product, int64_t value) { return product * static_cast<double>(value); });
}

std::optional<int64_t> least_extent(const Func& program, std::span<const int64_t> values) {
  int64_t least = std::numeric_limits<int64_t>::max();
  const Func bound = with_dims(program, values);
  for (const Buffer& param : bound->params)
    for (const Expr& extent : param->shape) {
      if (!as_int(extent)) return std::nullopt;
      least = std::min(least, int_value(extent));
    }
  return least;
}

std::vector<std::vector<int64_t>> checked_dims(const Func& program) {
  const std::vector<int64_t> typical = typical_dims(program);
  std::vector<std::vector<int64_t>> checked;
  if (typical.empty()) return checked;
  constexpr size_t kCount = std::size(kEdges) + 2;
  for (size_t i = 0; i < kCount; ++i) {
    std::vector<int64_t> values;
    for (size_t d = 0; d < typical.size(); ++d) {
      // Each dimension begins elsewhere: not all of them are at the same place of a tile.
      const size_t at = (i + 2 * d) % kCount;
      values.push_back(at < std::size(kEdges) ? kEdges[at]
                                              : std::max<int64_t>(typical[d] + (at % 2 == 0 ? 1 : -1), 1));
    }
    make_lighter(values, typical);
    if (values != typical && least_extent(program, values).value_or(-1) >= 0)
      checked.push_back(std::move(values));
  }
  return checked;
}

}  // namespace lathe::schedule
