// Pooling: one number for each window of the data, and its inverse.
#include <cmath>
#include <limits>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_window.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

double lowest(DataType dtype) {
  if (dtype.is_float()) return -std::numeric_limits<double>::infinity();
  return dtype.code == TypeCode::kInt ? -std::ldexp(1.0, dtype.bits - 1) : 0;
}

/// Where in the input, all its elements in a row, the first maximum of each window is: of `extents` windows.
/// An element of padding is never told but where the window has none above negative infinity.
Value places_of_maxima(const Node& node, const Window& w, const std::vector<Expr>& extents) {
  const std::vector<Expr>& image = node.dims(0);
  const auto rank = static_cast<int64_t>(w.rank) + 2;
  const bool by_columns =
      node.integer("storage_order", 0) != 0;  // the first spatial axis is the innermost then
  // Of bytes the least one is a number like others: padding is less than any.
  const DataType dtype = node.dtype(0).is_float() || node.dtype(0).bits > 8 ? node.dtype(0) : kInt32;
  const Value fill = scalar(dtype, lowest(dtype));
  Value data = cast_to(node.in(0), dtype),
        place = times(counted_along(image[0], 0, rank), number_of(image[1]));
  place = plus(place, counted_along(image[1], 1, rank));
  std::vector<Expr> steps(w.rank, Expr(1));  // from one element to the next along an axis
  Expr elements = 1;
  for (size_t k = 0; k < w.rank; ++k) {
    const size_t d = by_columns ? k : w.rank - 1 - k;
    steps[d] = elements;
    elements = simplify(elements * image[d + 2]);
  }
  place = times(place, number_of(elements));
  for (size_t d = 0; d < w.rank; ++d) {
    const auto axis = static_cast<int64_t>(d) + 2;
    const Expr before = w.frame.empty() ? Expr(w.padding[d]) : w.frame[d];
    const Expr reached = (extents[d + 2] - 1) * w.strides[d] + w.reach(d);
    data = padded_along(data, axis, before, simplify(max(reached - image[d + 2] - before, 0)), fill);
    const Value first =
        minus(times(counted_along(extents[d + 2], axis, rank), number_of(w.strides[d])), number_of(before));
    place = plus(place, times(first, number_of(steps[d])));
  }
  // Element by element of the window: the largest so far, and where it is from the window's first.
  Value best, offset;
  for (int64_t k = 0; k < shape_size(w.kernel); ++k) {
    Value element = data;
    Expr at = 0;
    int64_t rest = k;
    for (size_t d = w.rank; d-- > 0; rest /= w.kernel[d]) {
      const int64_t distance = rest % w.kernel[d] * w.dilation[d];
      element = sliced_by(element, static_cast<int64_t>(d) + 2, {distance, extents[d + 2], w.strides[d]});
      at = at + steps[d] * distance;
    }
    const Value offset_here = number_of(simplify(at));
    if (best) {
      offset = choose(emit("greater", {element, best}), offset_here, offset);
      best = emit("maximum", {element, best});
    } else {
      best = element, offset = offset_here;
    }
  }
  return plus(offset, place);
}

/// The mean or the maximum of each channel. Images have an operator of their own, which layouts know; other
/// ranks are reductions.
Value pool_over_all(const Node& node, bool average) {
  Ints axes(node.rank(0) - 2);
  std::iota(axes.begin(), axes.end(), 2);
  if (axes.size() == 2) return emit(average ? "nn.global_avg_pool2d" : "nn.global_max_pool2d", {node.in(0)});
  return emit(average ? "mean" : "max", {node.in(0)}, make<relay::ReduceAttrs>(axes, true));
}

/// Whether the one window there is has all elements of the image and nothing else, as where exporters write
/// the last mean of a network with the size it had.
bool covers_all(const Node& node, const Window& w) {
  if (!w.frame.empty()) return false;
  for (size_t d = 0; d < w.rank; ++d) {
    const IntImm* extent = node.dims(0)[d + 2].as<IntImm>();
    if (!extent || extent->value != w.kernel[d] || w.reach(d) != w.kernel[d]) return false;
    if (w.padding[d] != 0 || w.padding[d + w.rank] != 0) return false;
  }
  return true;
}

Values pool(const Node& node) {
  bool average = node.op() == "AveragePool";
  Window w = window_of(node, std::nullopt);
  if (node.outputs() == 1 && covers_all(node, w)) return {pool_over_all(node, average)};
  const bool counts = node.integer("count_include_pad", 0) != 0;
  auto attrs =
      make<relay::PoolAttrs>(w.kernel, w.strides, w.padding, w.dilation, std::string(), std::string(),
                             node.integer("ceil_mode", 0) != 0, counts || !w.frame.empty());
  const char* op = average ? by_rank(w.rank, {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"})
                           : by_rank(w.rank, {"nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d"});
  const DataType dtype = node.dtype(0);
  const Value fill = scalar(dtype, average ? 0 : lowest(dtype));
  const Value result = emit(op, {framed(node.in(0), w, fill)}, attrs);
  if (!average && node.outputs() > 1) return {result, places_of_maxima(node, w, dims_of(result))};
  if (!average || counts || w.frame.empty()) return {result};
  // The frame does not count: over the share of each window that is data.
  std::vector<Expr> image = node.dims(0);
  image[0] = image[1] = 1;
  const Value share = framed(repeated_to(scalar(dtype, 1), image), w, fill);
  return {over(result, emit(op, {share}, attrs))};
}

double norm_order(const Node& node) {
  int64_t p = node.integer("p", 2);
  if (p < 1) node.reject("p is {}, must be positive", p);
  return static_cast<double>(p);
}
/// x to the power p, for the p of norms.
Value to_power(const Value& x, double p) {
  if (p == 1) return x;
  return p == 2 ? times(x, x) : emit("power", {x, number(x, p)});
}
Value root(const Value& x, double p) {
  return p == 1 ? x : p == 2 ? emit("sqrt", {x}) : emit("power", {x, number(x, 1 / p)});
}

/// The p-norm of each window: the mean of powers times the size of the window, padding being zeros.
Values lp_pool(const Node& node) {
  const Window w = window_of(node, std::nullopt);
  const double p = norm_order(node);
  const char* op = by_rank(w.rank, {"nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d"});
  // count_include_pad: each mean is over the whole window, so times its size it is the sum.
  const auto mean_of = [&](const Value& x, const Ints& padding, bool ceil) {
    return emit(op, {x},
                make<relay::PoolAttrs>(w.kernel, w.strides, padding, w.dilation, std::string(), std::string(),
                                       ceil, true));
  };
  Value data = to_power(emit("abs", {framed(node.in(0), w, scalar(node.dtype(0), 0))}), p);
  Value mean = mean_of(data, w.padding, node.integer("ceil_mode", 0) != 0);
  if (node.integer("ceil_mode", 0) != 0) {
    // What the last windows reach beyond is no part of their means: zeros there are.
    const std::vector<Expr> extents = dims_of(mean), image = dims_of(data);
    for (size_t d = 0; d < w.rank; ++d) {
      const Expr reached = (extents[d + 2] - 1) * w.strides[d] + w.reach(d), before = w.padding[d];
      data = padded_along(data, static_cast<int64_t>(d) + 2, before,
                          simplify(max(reached - image[d + 2] - before, 0)), number(data, 0));
      data = sliced_by(data, static_cast<int64_t>(d) + 2, {0, reached, 1});
    }
    mean = mean_of(data, Ints(2 * w.rank, 0), false);
  }
  return {root(times(mean, number(mean, static_cast<double>(shape_size(w.kernel)))), p)};
}

Values global_lp_pool(const Node& node) {
  Ints axes(static_cast<size_t>(std::max<int64_t>(node.rank(0) - 2, 0)));
  std::iota(axes.begin(), axes.end(), 2);
  double p = norm_order(node);
  return {root(sum_over(to_power(emit("abs", {node.in(0)}), p), axes, true), p)};
}

Values global_pool(const Node& node) {
  if (node.rank(0) < 3) node.reject("data of rank {}, must be 3 or more", node.rank(0));
  return {pool_over_all(node, node.op() == "GlobalAveragePool")};
}

/// The inverse of a pooling that told where its maxima were: these in an image of zeros.
Values max_unpool(const Node& node) {
  const Window w = window_of(node, std::nullopt);
  if (!w.frame.empty()) node.reject("auto_pad is not supported");
  if (node.rank(1) != node.rank(0))
    node.reject("places of rank {} for data of rank {}", node.rank(1), node.rank(0));
  std::vector<Expr> image = node.dims(0);
  for (size_t d = 0; d < w.rank; ++d)
    image[d + 2] =
        simplify((image[d + 2] - 1) * w.strides[d] + w.reach(d) - w.padding[d] - w.padding[w.rank + d]);
  const Expr length = elements_of(node.dims(0));
  const Value room = repeated_to(scalar(node.dtype(0), 0), {elements_of(image)});
  Value result = emit(
      "scatter_elements",
      {room, reshape_to(with_dims(node.in(1), node.dims(0)), {length}), reshape_to(node.in(0), {length})},
      make<relay::ScatterElementsAttrs>(int64_t{0}, std::string("update")));
  result = reshape_to(result, image);
  if (!node.has(2)) return {result};
  // Another size: what lies behind is zeros, or is left out.
  const std::vector<Expr> wanted = node.sizes_in(2);
  if (wanted.size() != image.size())
    node.reject("an output shape of {} numbers for rank {}", wanted.size(), image.size());
  for (size_t d = 0; d < image.size(); ++d) {
    const auto axis = static_cast<int64_t>(d);
    result = padded_along(result, axis, 0, simplify(max(wanted[d] - image[d], 0)), scalar(node.dtype(0), 0));
    result = sliced_by(result, axis, {0, wanted[d], 1});
  }
  return {result};
}

constexpr Converter kConverters[] = {
    {"MaxPool", pool},
    {"AveragePool", pool, Arithmetic::kWide},
    {"GlobalAveragePool", global_pool, Arithmetic::kWide},
    {"GlobalMaxPool", global_pool},
    {"LpPool", lp_pool, Arithmetic::kWide},
    {"GlobalLpPool", global_lp_pool, Arithmetic::kWide},
    {"MaxUnpool", max_unpool},
};
}  // namespace

std::span<const Converter> pool_converters() { return kConverters; }

}  // namespace lathe::onnx
