// Operators whose result is as large as its input's values say: of inputs that are known when the model is
// compiled a constant.
#include <algorithm>
#include <cmath>
#include <map>

#include "core/frontends/onnx_run_sizes.h"

namespace lathe::onnx {
namespace {
using Ints = std::vector<int64_t>;

Value int_matrix(const Ints& values, int64_t rows, int64_t columns) {
  return constant(tensor_of(values, {rows, columns}, kInt64));
}

/// The coordinates of the elements that are not 0, one column an element.
Values non_zero(const Node& node) {
  if (!is_known(node.in(0)) || holds_handles(node.in(0))) return non_zero_at_run_time(node);
  const Tensor& x = node.known_in(0);
  Ints found;
  for (int64_t i = 0; i < x.size(); ++i)
    if (x.value(i) != 0) found.push_back(i);
  const auto count = static_cast<int64_t>(found.size()), rank = node.rank(0);
  Ints coordinates(static_cast<size_t>(rank * count));
  for (int64_t k = 0; k < count; ++k)
    for (int64_t d = rank, rest = found[static_cast<size_t>(k)]; d-- > 0; rest /= node.dim(0, d))
      coordinates[static_cast<size_t>(d * count + k)] = rest % node.dim(0, d);
  return {int_matrix(coordinates, rank, count)};
}

/// x seen as (before, extent, after): what lies along one axis, or, without one, all elements in a row.
struct Slices {
  int64_t before = 1, extent = 1, after = 1;
  int64_t count() const { return before * after; }  // elements of one slice
  /// Element k of slice i.
  int64_t place(int64_t i, int64_t k) const { return (k / after * extent + i) * after + k % after; }
};

Values unique(const Node& node) {
  if (!is_known(node.in(0)) || holds_handles(node.in(0))) return unique_at_run_time(node);
  const Tensor& x = node.known_in(0);
  Ints shape = node.shape(0);
  Slices slices{.extent = x.size()};
  int64_t axis = 0;
  if (node.has_attr("axis")) {
    axis = node.axis(node.integer("axis", 0), node.rank(0));
    slices.extent = node.dim(0, axis);
    for (int64_t d = 0; d < node.rank(0); ++d)
      if (d != axis) (d < axis ? slices.before : slices.after) *= node.dim(0, d);
  } else {
    shape = {x.size()};
  }
  auto element_less = [&](int64_t i, int64_t j) {
    // An int64 need not fit a double.
    if (!x.dtype().is_float()) return x.integer(i) < x.integer(j);
    // NaN is equal to itself and larger than all numbers, or there would be no order.
    const double a = x.value(i), b = x.value(j);
    return a < b || (!std::isnan(a) && std::isnan(b));
  };
  auto less = [&](int64_t a, int64_t b) {
    for (int64_t k = 0; k < slices.count(); ++k) {
      const int64_t i = slices.place(a, k), j = slices.place(b, k);
      if (element_less(i, j)) return true;
      if (element_less(j, i)) return false;
    }
    return false;
  };
  // By their smallest: the first slice of each value, in the order of values.
  std::map<int64_t, Ints, decltype(less)> groups(less);
  for (int64_t i = 0; i < slices.extent; ++i) groups[i].push_back(i);
  std::vector<const Ints*> order;
  for (const auto& [first, members] : groups) order.push_back(&members);
  if (node.integer("sorted", 1) == 0)
    std::sort(order.begin(), order.end(),
              [](const Ints* a, const Ints* b) { return a->front() < b->front(); });
  Ints firsts, counts, inverse(static_cast<size_t>(slices.extent));
  for (size_t group = 0; group < order.size(); ++group) {
    firsts.push_back(order[group]->front());
    counts.push_back(static_cast<int64_t>(order[group]->size()));
    for (int64_t member : *order[group]) inverse[static_cast<size_t>(member)] = static_cast<int64_t>(group);
  }
  shape[static_cast<size_t>(axis)] = static_cast<int64_t>(firsts.size());
  Tensor values(shape, x.dtype());
  Slices kept = slices;
  kept.extent = static_cast<int64_t>(firsts.size());
  for (int64_t i = 0; i < kept.extent; ++i)
    for (int64_t k = 0; k < kept.count(); ++k) {
      const int64_t from = slices.place(firsts[static_cast<size_t>(i)], k), to = kept.place(i, k);
      if (x.dtype().is_float())
        values.set(to, x.value(from));
      else
        values.set_integer(to, x.integer(from));
    }
  return {constant(values), int_constant(firsts), int_constant(inverse), int_constant(counts)};
}

constexpr Converter kConverters[] = {
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero},
    {"Unique", unique},
};
}  // namespace

std::span<const Converter> data_sized_converters() { return kConverters; }

}  // namespace lathe::onnx
