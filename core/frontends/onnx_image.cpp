// Images read at computed places.
#include <algorithm>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

Value floor(const Value& x) { return emit("floor", {x}); }
Value whole(const Value& x) { return cast_to(x, kInt64); }
Value both(const Value& a, const Value& b) { return a && b ? emit("logical_and", {a, b}) : a ? a : b; }

/// One pixel of those that a place lies between, along one axis.
struct Tap {
  Value index;   // int64, inside the image
  Value weight;  // null: 1
  Value inside;  // null: always
};

/// How places outside the image are read.
enum class Padding { kZeros, kBorder, kReflection };

/// An axis of an image: its extent, and the ends at which it is mirrored.
struct Axis {
  Expr extent;
  bool align_corners;
  Padding padding;

  // Corners aligned: -1 and 1 are the centres of the first and last pixel, else their outer edges.
  double low() const { return align_corners ? 0 : -0.5; }
  /// Between the ends.
  Expr range() const { return align_corners ? extent - 1 : extent; }
  Expr last() const { return extent - 1; }
};

/// An extent as a number of x's type.
Value extent_of(const Value& x, const Expr& extent) { return number_of(simplify(extent), type_of(x).dtype); }

Value between(const Value& x, const Value& low, const Value& high) {
  return emit("minimum", {emit("maximum", {x, low}), high});
}

/// x mirrored at both ends until it lies between them.
Value reflected(const Value& x, const Axis& axis) {
  // Of an image of one pixel all places are that one, whatever comes of this.
  Value twice = extent_of(x, max(axis.range(), 1) * 2);
  Value away = emit("abs", {minus(x, number(x, axis.low()))});
  // The mirrored image repeats every two ranges; of these the second runs backwards.
  Value folded = minus(away, times(floor(over(away, twice)), twice));
  return plus(emit("minimum", {folded, minus(twice, folded)}), number(x, axis.low()));
}

/// A place in -1..1 as a number of pixels. Mirrored it lies inside the image; at the border each pixel that
/// it lies between is kept inside by itself.
Value pixels_of(const Value& place, const Axis& axis) {
  Value half = times(extent_of(place, axis.range()), number(place, 0.5));
  Value x = plus(times(plus(place, number(place, 1)), half), number(place, axis.low()));
  return axis.padding == Padding::kReflection ? reflected(x, axis) : x;
}

/// The pixel at a whole place, which may lie outside. The index is clamped in any case, so that a pixel that
/// counts as 0 is not read outside the image.
Tap tap(const Value& at, const Value& weight, const Axis& axis) {
  Value inside, index = at, first = number(at, 0), last = extent_of(at, axis.last());
  if (axis.padding == Padding::kZeros)
    inside = both(emit("less_equal", {first, at}), emit("less_equal", {at, last}));
  if (axis.padding == Padding::kReflection) index = emit("round", {reflected(at, axis)});
  return {whole(between(index, first, last)), weight, inside};
}

/// The cubic convolution kernel (Keys 1981, a = -0.75) for a pixel at distance 0 <= t <= 1, or 1 <= t <= 2.
Value near_weight(const Value& t) {
  const double a = -0.75;
  return plus(times(times(minus(times(number(t, a + 2), t), number(t, a + 3)), t), t), number(t, 1));
}
Value far_weight(const Value& t) {
  const double a = -0.75;
  Value line = plus(times(minus(times(number(t, a), t), number(t, 5 * a)), t), number(t, 8 * a));
  return minus(times(line, t), number(t, 4 * a));
}

std::vector<Tap> taps_of(const Value& x, const Axis& axis, const std::string& mode) {
  if (mode == "nearest") return {tap(emit("round", {x}), Value(), axis)};
  Value first = floor(x), t = minus(x, first), one = number(x, 1), rest = minus(one, t);
  if (mode == "linear") return {tap(first, rest, axis), tap(plus(first, one), t, axis)};
  // Distances 1 + t, t, 1 - t and 2 - t.
  return {tap(minus(first, one), far_weight(plus(t, one)), axis), tap(first, near_weight(t), axis),
          tap(plus(first, one), near_weight(rest), axis),
          tap(plus(first, number(x, 2)), far_weight(plus(rest, one)), axis)};
}

/// An image of (n, channels, pixels), or (n, pixels, channels): a pixel's channels are vectors then.
struct Pixels {
  Value image;
  bool channels_last;
};

/// The sum over all combinations of taps, one of each axis from `axis` on; `chosen` is that of the axes
/// before. Places (n, out...); gives (n, channels, out...), or (n, out..., channels).
Value sampled(const Pixels& pixels, const std::vector<std::vector<Tap>>& taps, std::span<const Expr> extents,
              size_t axis, const Tap& chosen) {
  if (axis == taps.size()) {
    const std::optional<int64_t> along = pixels.channels_last ? 1 : 2;
    Value pixel = emit("take", {pixels.image, chosen.index}, make<relay::TakeAttrs>(int64_t{1}, along));
    std::vector<Expr> dims = dims_of(chosen.index);
    dims.insert(pixels.channels_last ? dims.end() : dims.begin() + 1, Expr(1));
    auto aligned = [&](const Value& value) { return reshape_to(value, dims); };
    if (chosen.inside) pixel = choose(aligned(chosen.inside), pixel, number(pixel, 0));
    return chosen.weight ? times(pixel, aligned(cast_to(chosen.weight, type_of(pixel).dtype))) : pixel;
  }
  Value sum;
  for (const Tap& next : taps[axis]) {
    Value stride = number_of(extents[axis]);
    // Row-major: the index so far times this axis's extent, plus the place along it.
    Tap joined{chosen.index ? plus(times(chosen.index, stride), next.index) : next.index,
               chosen.weight && next.weight ? times(chosen.weight, next.weight) : next.weight,
               both(chosen.inside, next.inside)};
    Value part = sampled(pixels, taps, extents, axis + 1, joined);
    sum = sum ? plus(sum, part) : part;
  }
  return sum;
}

std::string sampling_mode(const Node& node) {
  std::string mode = node.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "nearest" && mode != "cubic") node.reject("mode `{}` is unknown", mode);
  return mode;
}

/// Pixels of x (n, channels, spatial...) at places (n, out..., axes), each -1 to 1 from end to end, last axis
/// first.
Values grid_sample(const Node& node) {
  const std::vector<Expr>&shape = node.dims(0), &grid = node.dims(1);
  const size_t axes = shape.size() - 2;
  const auto differ = [](const Expr& a, const Expr& b) {
    return as_int(a) && as_int(b) && int_value(a) != int_value(b);
  };
  const auto is_zero = [](const Expr& extent) { return is_int(extent, 0); };
  if (shape.size() < 3 || grid.size() != shape.size() || differ(grid[0], shape[0]) ||
      differ(grid.back(), Expr(static_cast<int64_t>(axes))) ||
      std::any_of(shape.begin() + 2, shape.end(), is_zero))
    node.reject("a grid of shape {} for data of shape {}", relay::print(node.in(1)->checked_type),
                relay::print(node.in(0)->checked_type));
  std::string outside = node.text("padding_mode", "zeros"), mode = sampling_mode(node);
  Padding padding = outside == "border"       ? Padding::kBorder
                    : outside == "reflection" ? Padding::kReflection
                                              : Padding::kZeros;
  // In the grid's own shape: rows of it are rows in memory, whole vectors of them.
  std::vector<Expr> places(grid.begin(), grid.end() - 1);
  places[0] = shape[0];
  std::vector<Expr> given = places;
  given.emplace_back(static_cast<int64_t>(axes));
  const Value points = with_dims(node.in(1), given);
  std::vector<std::vector<Tap>> taps;
  const std::span extents(shape.begin() + 2, shape.end());
  for (size_t d = 0; d < axes; ++d) {
    // A grid names the last spatial axis first: (x, y) of an image (H, W).
    auto column = static_cast<int64_t>(axes - 1 - d);
    Value place = reshape_to(sliced(points, static_cast<int64_t>(axes) + 1, column, column + 1), places);
    Axis axis{extents[d], node.integer("align_corners", 0) != 0, padding};
    taps.push_back(taps_of(pixels_of(place, axis), axis, mode));
  }
  Value image = reshape_to(node.in(0), {shape[0], shape[1], elements_of(extents)});
  // Each pixel of few channels is gathered; of many its place is worked out once, and its channels are a
  // vector.
  constexpr int64_t kManyChannels = 8;
  if (!as_int(shape[1]) || int_value(shape[1]) < kManyChannels)
    return {sampled({image, /*channels_last=*/false}, taps, extents, 0, {})};
  Value result = sampled({transposed(image, {0, 2, 1}), /*channels_last=*/true}, taps, extents, 0, {});
  Ints channels_first{0, static_cast<int64_t>(axes) + 1};
  for (size_t d = 0; d < axes; ++d) channels_first.push_back(static_cast<int64_t>(d) + 1);
  return {transposed(result, channels_first)};
}

/// Places (n, spatial..., axes) that matrices (n, axes, axes + 1) move the points of a regular grid to.
Values affine_grid(const Node& node) {
  const std::vector<Expr> size = sizes_of(node, 1);
  if (size.size() < 4 || node.rank(0) != 3)
    node.reject("theta of rank {} for a size of {} numbers", node.rank(0), size.size());
  const std::vector<Expr> extents(size.begin() + 2, size.end());
  const auto axes = static_cast<int64_t>(extents.size()), width = axes + 1;
  const Expr points = elements_of(extents);
  if (as_int(points)) node.constant_shape({int_value(points), width});
  const Value theta = with_dims(node.in(0), {size[0], axes, width});
  const bool corners = node.integer("align_corners", 0) != 0;
  // Homogeneous coordinates (x, y, .., 1): the last column of theta is added.
  Values columns{repeated_to(number(theta, 1), {points, 1})};
  for (int64_t d = 0; d < axes; ++d) {
    const Expr& extent = extents[static_cast<size_t>(d)];
    const Value twice = times(cast_to(counted_along(extent, d, axes), node.dtype(0)), number(theta, 2));
    const Value place = corners ? over(twice, extent_of(theta, max(extent - 1, 1)))
                                : over(plus(twice, number(theta, 1)), extent_of(theta, extent));
    columns.push_back(reshape_to(repeated_to(minus(place, number(theta, 1)), extents), {points, 1}));
  }
  std::reverse(columns.begin(), columns.end());
  const Value grid = reshape_to(concatenated(columns, 1), {1, points, width});
  std::vector<Expr> result = extents;
  result.insert(result.begin(), size[0]);
  result.emplace_back(axes);
  return {reshape_to(batched_product(repeated_to(grid, {size[0], points, width}), theta), result)};
}

/// The two rows (columns) of pixels that each sample of each region lies between: (regions, samples).
std::vector<Tap> region_taps(const Value& start, const Value& bin, int64_t bins, int64_t samples,
                             const Expr& extent) {
  // Samples lie in the middles of equal parts of the bins.
  Tensor offsets({1, bins * samples}, kFloat32);
  for (int64_t i = 0; i < offsets.size(); ++i)
    offsets.set(i, (static_cast<double>(i) + 0.5) / static_cast<double>(samples));
  Value x = plus(start, times(bin, cast_to(constant(offsets), type_of(bin).dtype)));
  const Value pixels = number_of(extent, type_of(x).dtype), last = minus(pixels, number(x, 1));
  const Value inside = both(emit("less_equal", {number(x, -1), x}), emit("less_equal", {x, pixels}));
  auto up_to_last = [&](const Value& v) { return emit("minimum", {v, last}); };
  x = up_to_last(emit("maximum", {x, number(x, 0)}));
  const Value low = floor(x), high = up_to_last(plus(low, number(x, 1))), t = minus(x, low);
  return {{whole(low), minus(number(x, 1), t), inside}, {whole(high), t, inside}};
}

/// Where regions (x1, y1, x2, y2), which are scaled to pixels, begin and end along an axis: (regions, 1)
/// each.
struct Edges {
  Value begin, size;
};

/// The weight of each pixel along an axis in the mean of a bin's samples, which lie in the middles of as many
/// equal parts of the bin as it is long: (regions, bins, extent).
Value bin_weights(const Edges& edges, int64_t bins, const Expr& extent, const Expr& regions) {
  const Value& like = edges.begin;
  const Value bin = over(edges.size, number(like, static_cast<double>(bins)));
  const Value count = emit("maximum", {emit("ceil", {bin}), number(like, 0)});  // (regions, 1)
  const Value most = cast_to(emit("max", {count}, make<relay::ReduceAttrs>(std::optional<Ints>())), kInt64);
  // Of no regions the largest number is the least that there is.
  const Value samples = zeros_of(emit("maximum", {most, scalar(kInt64, 0)}));
  OpenDimensions::current()->learn_from(samples);
  const DataType dtype = type_of(like).dtype;
  // (regions, bins, samples, extent)
  const auto of_region = [&](const Value& x) { return reshape_to(x, {regions, 1, 1, 1}); };
  const Value sample = cast_to(counted_along(dims_of(samples)[0], 2, 4), dtype),
              pixel = cast_to(counted_along(extent, 3, 4), dtype),
              part =
                  over(plus(sample, number(like, 0.5)), emit("maximum", {of_region(count), number(like, 1)}));
  const Value x = plus(of_region(edges.begin),
                       times(of_region(bin), plus(cast_to(counted_along(bins, 1, 4), dtype), part)));
  const Value length = extent_of(like, extent);
  const Value counts = both(less(sample, of_region(count)),
                            both(emit("less_equal", {number(like, -1), x}), emit("less_equal", {x, length})));
  const Value inside = between(x, number(like, 0), minus(length, number(like, 1)));
  // Of the two pixels that a sample lies between, each counts by its distance.
  const Value share =
      emit("maximum", {minus(number(like, 1), emit("abs", {minus(inside, pixel)})), number(like, 0)});
  const Value sum = sum_over(choose(counts, share, number(like, 0)), {2}, false);
  return over(sum, emit("maximum", {reshape_to(count, {regions, 1, 1}), number(like, 1)}));
}

/// Means of samples, as many in each region as its bins are long: the weights of rows and of columns are
/// factors, so that a region is two products of matrices however many samples it has.
Value means_of_regions(const Value& image, const Value& batch, const Value& down, const Value& across) {
  const std::vector<Expr> shape = dims_of(image), rows = dims_of(down), columns = dims_of(across);
  const Expr regions = rows[0], lines = simplify(shape[1] * shape[3]);
  // Rows last, those of all channels and columns in front: (n, channels * width, height).
  const Value turned = reshape_to(transposed(image, {0, 1, 3, 2}), {shape[0], lines, shape[2]});
  const Value of_regions =
      emit("take", {turned, batch},
           make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
  // One image is that of all regions, and is not repeated for each.
  const Value by_rows = is_int(shape[0], 1)
                            ? emit("nn.dense", {reshape_to(down, {simplify(regions * rows[1]), shape[2]}),
                                                reshape_to(turned, {lines, shape[2]})})
                            : batched_product(down, of_regions);
  const Value both_ways =
      batched_product(reshape_to(by_rows, {regions, simplify(rows[1] * shape[1]), shape[3]}), across);
  return transposed(reshape_to(both_ways, {regions, rows[1], shape[1], columns[1]}), {0, 2, 1, 3});
}

/// Of regions of images (n, channels, rows, columns), each in the image that `images` says, the pixels at the
/// taps of rows (regions, high) and columns (regions, wide), by their weights and put together by `op`:
/// (regions, high, wide, channels).
Value sampled_regions(const Value& data, const Value& images, const std::vector<Tap>& down,
                      const std::vector<Tap>& across, const char* op) {
  const std::vector<Expr> shape = dims_of(data);
  const Expr regions = dims_of(down[0].index)[0], high = dims_of(down[0].index)[1],
             wide = dims_of(across[0].index)[1];
  // The pixels of all images in one axis, the channels of each as a vector: a region's place names image, row
  // and column in one number.
  const Value image = reshape_to(transposed(data, {0, 2, 3, 1}),
                                 {elements_of(std::vector{shape[0], shape[2], shape[3]}), shape[1]});
  const Value batch = reshape_to(images, {regions, 1, 1});
  Value result;
  for (const Tap& y : down)
    for (const Tap& x : across) {
      auto pair = [&](const char* of, const Value& a, const Value& b) {
        return emit(of, {reshape_to(a, {regions, high, 1, 1}), reshape_to(b, {regions, 1, wide, 1})});
      };
      Value line = plus(times(batch, number_of(shape[2])), reshape_to(y.index, {regions, high, 1}));
      Value index = plus(times(line, number_of(shape[3])), reshape_to(x.index, {regions, 1, wide}));
      Value part = emit("take", {image, index},
                        make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(0), std::string("clip")));
      if (y.weight) part = times(part, pair("multiply", y.weight, x.weight));
      if (y.inside) part = choose(pair("logical_and", y.inside, x.inside), part, number(part, 0));
      result = !result ? part : emit(op, {result, part});
    }
  return result;
}

/// Means (or maxima) of samples in the bins of regions (x1, y1, x2, y2) of images. How many regions there are
/// may be known by a run alone, as that of the boxes which a suppression keeps.
Values roi_align(const Node& node) {
  if (node.rank(0) != 4 || node.rank(1) != 2)
    node.reject("data of rank {} and regions of rank {}, must be 4 and 2", node.rank(0), node.rank(1));
  const std::vector<Expr>&shape = node.dims(0), &boxes = node.dims(1);
  if (is_int(shape[2], 0) || is_int(shape[3], 0)) node.reject("images without pixels");
  if (as_int(boxes[1]) && !is_int(boxes[1], 4)) node.reject("regions must have 4 numbers each");
  const Expr channels = shape[1], regions = boxes[0];
  const int64_t rows = node.integer("output_height", 1), columns = node.integer("output_width", 1);
  const int64_t samples = node.integer("sampling_ratio", 0);
  if (samples < 0 || rows < 1 || columns < 1)
    node.reject("{} x {} bins of {} samples", rows, columns, samples);
  node.constant_shape({rows * std::max<int64_t>(samples, 1), columns * std::max<int64_t>(samples, 1)});
  const bool maximum = node.text("mode", "avg") == "max";
  if (samples == 0 && maximum) node.reject("maxima of as many samples as a region has are not supported");
  bool half = node.opset() >= 16 && node.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  double scale = node.real("spatial_scale", 1);
  const Value given = with_dims(node.in(1), {regions, 4});
  const Value edges = minus(times(given, number(given, scale)), number(given, half ? 0.5 : 0));
  auto edge = [&](int64_t i) { return sliced(edges, 1, i, i + 1); };
  auto edges_along = [&](int64_t axis) {
    const Value size = minus(edge(axis + 2), edge(axis));
    return Edges{edge(axis), half ? size : emit("maximum", {size, number(size, 1)})};
  };
  const Value images = reshape_to(cast_to(with_dims(node.in(2), {regions}), kInt64), {regions});
  if (samples == 0)
    return {means_of_regions(node.in(0), images, bin_weights(edges_along(1), rows, shape[2], regions),
                             bin_weights(edges_along(0), columns, shape[3], regions))};
  auto taps = [&](int64_t axis, int64_t bins, const Expr& extent) {
    const Edges along = edges_along(axis);
    return region_taps(along.begin, over(along.size, number(along.size, static_cast<double>(bins))), bins,
                       samples, extent);
  };
  const Value sampled_bins = sampled_regions(node.in(0), images, taps(1, rows, shape[2]),
                                             taps(0, columns, shape[3]), maximum ? "maximum" : "add");
  // (regions, rows, samples, columns, samples, channels)
  auto bins = make<relay::ReduceAttrs>(Ints{2, 4}, false);
  const Value result =
      emit(maximum ? "max" : "mean",
           {reshape_to(sampled_bins, {regions, rows, samples, columns, samples, channels})}, bins);
  return {transposed(result, {0, 3, 1, 2})};
}

/// Where along an axis the pixels of crops of regions lie in an image, of which each is as long as the
/// numbers at `begin` and `end` say: (regions, count).
Value crop_places(const Value& begin, const Value& end, const Expr& count, const Expr& extent) {
  const Value last = extent_of(begin, extent - 1);
  const Value first = times(begin, last), length = minus(times(end, last), first);
  // Of one alone the middle.
  const Value is_one = emit("equal", {number_of(count), integer(1)});
  const Value from = choose(is_one, plus(first, times(length, number(begin, 0.5))), first);
  const Value steps = cast_to(counted_along(count, 1, 2), type_of(begin).dtype);
  return plus(from, times(steps, over(length, extent_of(begin, max(count - 1, 1)))));
}

/// Crops of regions (y1, x1, y2, x2) of images, scaled to one size; what lies outside of an image is one
/// number.
Values crop_and_resize(const Node& node) {
  if (node.rank(0) != 4 || node.rank(1) != 2)
    node.reject("data of rank {} and regions of rank {}, must be 4 and 2", node.rank(0), node.rank(1));
  const std::string mode = node.text("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest") node.reject("mode `{}` is unknown", mode);
  const Expr regions = node.dims(1)[0];
  const std::vector<Expr> crop = sizes_of(node, 3);
  if (crop.size() != 2) node.reject("a crop of {} axes, must be of 2", crop.size());
  const Value edges = with_dims(node.in(1), {regions, 4});
  const Value images = cast_to(with_dims(node.in(2), {regions}), kInt64);
  std::vector<std::vector<Tap>> taps;
  Values inside;
  for (int64_t d = 0; d < 2; ++d) {
    const auto axis = static_cast<size_t>(d);
    const Expr& extent = node.dims(0)[axis + 2];
    const Value x =
        crop_places(sliced(edges, 1, d, d + 1), sliced(edges, 1, d + 2, d + 3), crop[axis], extent);
    const Value first = number(x, 0), last = extent_of(x, extent - 1);
    inside.push_back(both(emit("less_equal", {first, x}), emit("less_equal", {x, last})));
    // Of a place outside no matter which: it is not looked at.
    const Value near = between(x, first, last), low = floor(near), t = minus(near, low);
    if (mode == "nearest")
      taps.push_back({{whole(floor(plus(near, number(x, 0.5)))), Value(), Value()}});
    else
      taps.push_back({{whole(low), minus(number(x, 1), t), Value()},
                      {whole(between(plus(low, number(x, 1)), first, last)), t, Value()}});
  }
  const Value result = sampled_regions(node.in(0), images, taps[0], taps[1], "add");
  const Value shown =
      both(reshape_to(inside[0], {regions, crop[0], 1, 1}), reshape_to(inside[1], {regions, 1, crop[1], 1}));
  const Value filled = choose(shown, result, number(result, node.real("extrapolation_value", 0)));
  return {transposed(filled, {0, 3, 1, 2})};
}

/// A window of two axes whose taps are moved.
struct MovedWindow {
  Ints kernel, strides, dilations, pads;
  int64_t taps() const { return kernel[0] * kernel[1]; }
};

MovedWindow moved_window(const Node& node, const Ints& data, const Ints& weight, const Ints& offsets) {
  if (data.size() != 4 || weight.size() != 4 || offsets.size() != 4)
    node.reject("data of shape {}, a weight of {} and offsets of {}: images alone are supported",
                shape_text(data), shape_text(weight), shape_text(offsets));
  MovedWindow w{{weight[2], weight[3]},
                node.ints("strides", {1, 1}),
                node.ints("dilations", {1, 1}),
                node.ints("pads", {0, 0, 0, 0})};
  if (node.ints("kernel_shape", w.kernel) != w.kernel || w.strides.size() != 2 || w.dilations.size() != 2 ||
      w.pads.size() != 4)
    node.reject("kernel_shape, strides, dilations or pads do not fit a weight of shape {}",
                shape_text(weight));
  for (size_t d = 0; d < 2; ++d) {
    if (w.strides[d] < 1 || w.dilations[d] < 1 || w.kernel[d] < 1)
      node.reject("kernel, strides and dilations must be positive");
    const int64_t span = data[d + 2] + w.pads[d] + w.pads[d + 2] - w.dilations[d] * (w.kernel[d] - 1) - 1;
    if (span < 0 || offsets[d + 2] != span / w.strides[d] + 1)
      node.reject("offsets of shape {} for data of shape {}", shape_text(offsets), shape_text(data));
  }
  return w;
}

/// Where along axis d each tap of each result lies before it is moved: (1, results * taps).
Value unmoved_places(const Node& node, const MovedWindow& w, size_t d, const Ints& offsets) {
  const int64_t results = offsets[2] * offsets[3];
  Tensor places(node.constant_shape({1, results * w.taps()}), kFloat32);
  for (int64_t i = 0; i < places.size(); ++i) {
    const int64_t result = i / w.taps(), tap = i % w.taps();
    const int64_t of_tap = d == 0 ? tap / w.kernel[1] : tap % w.kernel[1],
                  of_result = d == 0 ? result / offsets[3] : result % offsets[3];
    places.set_integer(i, of_result * w.strides[d] - w.pads[d] + of_tap * w.dilations[d]);
  }
  return constant(std::move(places));
}

/// A convolution whose taps are moved: a pair (y, x) for each tap, result and group of channels. The moved
/// pixels of a result are a row that the weights multiply.
Values deform_conv(const Node& node) {
  const Ints data = node.shape(0), weight = node.shape(1), offsets = node.shape(2);
  const MovedWindow w = moved_window(node, data, weight, offsets);
  const int64_t groups = node.integer("group", 1), moved = node.integer("offset_group", 1);
  const int64_t taps = w.taps(), results = offsets[2] * offsets[3];
  if (groups < 1 || moved < 1 || data[1] != weight[1] * groups || weight[0] % groups || data[1] % moved ||
      offsets[0] != data[0] || offsets[1] != 2 * moved * taps)
    node.reject("data of shape {}, a weight of {} and offsets of {} in {} groups and {} of offsets",
                shape_text(data), shape_text(weight), shape_text(offsets), groups, moved);
  const int64_t images = data[0] * moved, channels = data[1] / moved;
  // Of each image (results, taps), so that the taps of a result lie one behind the other.
  const auto by_results = [&](const Value& given, int64_t each) {
    return transposed(reshape(given, {images, taps, each, results}), {0, 3, 1, 2});
  };
  const Value moves = by_results(node.in(2), 2);
  std::vector<std::vector<Tap>> places;
  for (size_t d = 0; d < 2; ++d) {
    const auto axis = static_cast<int64_t>(d);
    const Value by = reshape(sliced(moves, 3, axis, axis + 1), {images, results * taps});
    const Value at = plus(by, cast_to(unmoved_places(node, w, d, offsets), type_of(by).dtype));
    places.push_back(taps_of(at, {data[d + 2], false, Padding::kZeros}, "linear"));
  }
  const Value image = transposed(reshape(node.in(0), {images, channels, data[2] * data[3]}), {0, 2, 1});
  Value pixels = sampled({image, /*channels_last=*/true}, places, std::vector<Expr>{data[2], data[3]}, 0, {});
  if (node.has(4)) pixels = times(pixels, reshape(by_results(node.in(4), 1), {images, results * taps, 1}));
  pixels = reshape(pixels, {data[0], moved, results, taps, channels});
  Value result;
  if (groups == 1) {
    const Value rows = reshape(transposed(pixels, {0, 2, 1, 3, 4}), {data[0] * results, taps * data[1]});
    const Value weights = reshape(node.in(1), {weight[0], moved, channels, taps});
    result =
        emit("nn.dense", {rows, reshape(transposed(weights, {0, 1, 3, 2}), {weight[0], taps * data[1]})});
    result = transposed(reshape(result, {data[0], results, weight[0]}), {0, 2, 1});
    result = reshape(result, {data[0], weight[0], offsets[2], offsets[3]});
  } else {
    auto attrs = std::make_unique<relay::ConvAttrs>();
    attrs->groups = groups, attrs->channels = weight[0], attrs->kernel_size = {1, 1};
    pixels = transposed(pixels, {0, 1, 4, 3, 2});
    result = emit("nn.conv2d",
                  {reshape(pixels, {data[0], data[1] * taps, offsets[2], offsets[3]}),
                   reshape(node.in(1), {weight[0], weight[1] * taps, 1, 1})},
                  seal(std::move(attrs)));
  }
  return {node.has(3) ? emit("nn.bias_add", {result, node.in(3)}, make<relay::ChannelAttrs>(1)) : result};
}

constexpr Converter kConverters[] = {
    {"GridSample", grid_sample, Arithmetic::kWide},
    {"AffineGrid", affine_grid, Arithmetic::kWide},
    {"RoiAlign", roi_align, Arithmetic::kWide},
    {"DeformConv", deform_conv, Arithmetic::kWide},
};
}  // namespace

std::span<const Converter> image_converters() { return kConverters; }

std::span<const Converter> contrib_image_converters() {
  static constexpr Converter kContrib[] = {{"CropAndResize", crop_and_resize, Arithmetic::kWide}};
  return kContrib;
}

}  // namespace lathe::onnx
