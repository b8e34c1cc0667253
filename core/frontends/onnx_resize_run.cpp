// Resize and Upsample by factors that only a run tells, and by filters whose width does: what
// core/relay/ops/resample.cpp does with factors that are known, by places and weights that the program
// computes along each axis.
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_resize.h"
#include "core/frontends/onnx_run_sizes.h"

namespace lathe::onnx {
namespace {

Value f64(double value) { return scalar(kFloat64, value); }
Value floor_of(const Value& x) { return emit("floor", {x}); }
Value ceil_of(const Value& x) { return emit("ceil", {x}); }
Value as_integers(const Value& x) { return cast_to(x, kInt64); }

/// One axis: its extent, and the result's.
struct Axis {
  Value in, out, factor;  // float64 of rank 0
  Value places;           // of the result: 0, 1, ...
};

Value extent_of(const Value& image, int64_t axis, DataType dtype) {
  return number_of(dims_of(image)[static_cast<size_t>(axis)], dtype);
}

/// `image` along the axis to so many elements, by a factor.
Axis axis_of(const Value& image, int64_t axis, const Value& size, const Value& factor) {
  return {extent_of(image, axis, kFloat64), cast_to(size, kFloat64), cast_to(factor, kFloat64),
          cast_to(counted_at_run_time(size), kFloat64)};
}
Axis axis_by_factor(const Value& image, int64_t axis, const Value& factor) {
  // In float32, as ONNX Runtime does: 3 times 10 / 3 is 10.
  const Value scaled = times(extent_of(image, axis, kFloat32), cast_to(factor, kFloat32));
  return axis_of(image, axis, as_integers(floor_of(scaled)), factor);
}
Value ratio_of(const Value& image, int64_t axis, const Expr& size) {
  return over(number_of(size, kFloat64), extent_of(image, axis, kFloat64));
}

/// Where each element of the result lies in the source. For the nearest one quotients are rounded to float32,
/// of which factors are: 3 / 0.6 is 5, though the float32 nearest to 0.6 is larger.
Value coordinates(const Node& node, const relay::ResizeAttrs& attrs, const Axis& a) {
  const std::string& mode = attrs.coordinate_transformation_mode;
  const auto scaled_back = [&](const Value& places) {
    const Value exact = over(places, a.factor);
    return attrs.method == "nearest_neighbor" ? cast_to(cast_to(exact, kFloat32), kFloat64) : exact;
  };
  const Value half = f64(0.5), one = f64(1), whole = times(a.in, a.factor);
  const Value half_pixel = minus(scaled_back(plus(a.places, half)), half);
  const Value is_single = emit("equal", {a.out, one});
  if (mode == "half_pixel") return half_pixel;
  if (mode == "pytorch_half_pixel") return choose(is_single, f64(0), half_pixel);
  if (mode == "asymmetric") return scaled_back(a.places);
  if (mode == "tf_half_pixel_for_nn")  // an axis that stays, as that of channels, does stay
    return choose(emit("equal", {a.factor, one}), a.places, scaled_back(plus(a.places, half)));
  if (mode == "align_corners")
    return choose(is_single, f64(0), times(a.places, over(minus(a.in, one), minus(whole, one))));
  // From the middle, which is that of the source whatever rounding cut off.
  if (mode == "half_pixel_symmetric")
    return plus(scaled_back(minus(plus(a.places, half), times(a.out, half))), times(minus(a.in, one), half));
  node.reject("with coordinate_transformation_mode `{}` scales must be known when the model is compiled",
              mode);
}

/// Coordinates that are whole but for the last bits of their computation stay there.
Value rounded(const std::string& how, const Value& x) {
  if (how == "floor") return floor_of(plus(x, f64(1e-9)));
  if (how == "ceil") return ceil_of(minus(x, f64(1e-9)));
  return how == "round_prefer_floor" ? ceil_of(minus(x, f64(0.5))) : floor_of(plus(x, f64(0.5)));
}

/// The cubic convolution kernel (Keys 1981) at distance t >= 0.
Value cubic(const Value& t, double a) {
  const Value square = times(t, t), cube = times(square, t);
  const Value near = plus(minus(times(f64(a + 2), cube), times(f64(a + 3), square)), f64(1));
  const Value far =
      minus(plus(minus(times(f64(a), cube), times(f64(5 * a), square)), times(f64(8 * a), t)), f64(4 * a));
  return choose(emit("less_equal", {t, f64(1)}), near, choose(less(t, f64(2)), far, f64(0)));
}

/// The weight of an element at distance t >= 0, counted in elements or, in a wider filter, as many times
/// those.
Value kernel_of(const relay::ResizeAttrs& attrs, const Value& t) {
  return attrs.method == "linear" ? emit("maximum", {f64(0), minus(f64(1), t)}) : cubic(t, attrs.cubic_alpha);
}

/// The elements of the source that each one of the result is made of.
struct Taps {
  Values places, weights;
};

Taps taps_of(const relay::ResizeAttrs& attrs, const Value& x, const Value& extent) {
  const bool is_linear = attrs.method == "linear";
  const Value own = rounded("floor", x), first = is_linear ? own : minus(own, f64(1));
  Taps taps;
  Value total;
  for (int64_t tap = 0; tap < (is_linear ? 2 : 4); ++tap) {
    const Value at = plus(first, f64(static_cast<double>(tap))), distance = emit("abs", {minus(x, at)});
    Value weight = kernel_of(attrs, distance);
    if (attrs.cubic_exclude) {
      const Value inside = emit("logical_and", {emit("less_equal", {f64(0), at}), less(at, extent)});
      weight = choose(inside, weight, f64(0));
    }
    taps.places.push_back(as_integers(at));
    taps.weights.push_back(weight);
    total = total ? plus(total, weight) : weight;
  }
  // Of those that are left out the others have the weight.
  for (Value& weight : taps.weights)
    if (attrs.cubic_exclude) weight = over(weight, total);
  return taps;
}

/// `image` as the taps along the axis say; places outside are the nearest inside.
Value combined(const Value& image, int64_t axis, const Taps& taps) {
  const DataType dtype = type_of(image).dtype, real = dtype == kFloat64 ? kFloat64 : kFloat32;
  std::vector<Expr> along(dims_of(image).size(), Expr(1));
  Value sum;
  for (size_t i = 0; i < taps.places.size(); ++i) {
    along[static_cast<size_t>(axis)] = dims_of(taps.places[i])[0];
    const Value weight = reshape_to(cast_to(taps.weights[i], real), along);
    const Value term = times(cast_to(taken(image, taps.places[i], axis), real), weight);
    sum = sum ? plus(sum, term) : term;
  }
  return cast_to(sum, dtype);
}

/// `image` by a filter that is the wider the smaller the result. How many elements that takes a run tells:
/// the weights of all are a matrix, and the result a product with it.
Value filtered(const Value& image, int64_t axis, const Axis& a, const Value& x,
               const relay::ResizeAttrs& attrs) {
  const DataType dtype = type_of(image).dtype, real = dtype == kFloat64 ? kFloat64 : kFloat32;
  const Value shrink = emit("minimum", {a.factor, f64(1)}), reach = f64(attrs.method == "linear" ? 1 : 2);
  // Places before the front and behind the end as far as the filter reaches are those of the elements there.
  const Value beyond = ceil_of(over(reach, shrink));
  const Value count = as_integers(plus(a.in, times(beyond, f64(2))));
  const Value places = minus(cast_to(counted_at_run_time(count), kFloat64), beyond);
  const auto extent = [](const Value& vector) { return dims_of(vector)[0]; };
  const Value distance = emit("abs", {minus(reshape_to(x, {extent(x), 1}), places)});
  Value weights = kernel_of(attrs, times(distance, shrink));
  if (attrs.cubic_exclude) {
    const Value inside = emit("logical_and", {emit("less_equal", {f64(0), places}), less(places, a.in)});
    weights = choose(inside, weights, f64(0));
  }
  weights = cast_to(over(weights, sum_over(weights, {1}, true)), real);
  const auto last = static_cast<int64_t>(dims_of(image).size()) - 1;
  std::vector<int64_t> order(static_cast<size_t>(last) + 1);
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(axis)], order.back());
  const Value lines = taken(transposed(cast_to(image, real), order), as_integers(places), last);
  std::vector<Expr> shape = dims_of(lines);
  shape.pop_back();
  const Value product = emit("nn.dense", {reshape_to(lines, {elements_of(shape), extent(places)}), weights});
  shape.push_back(extent(x));
  return cast_to(transposed(reshape_to(product, shape), order), dtype);
}

Value resized_along(const Node& node, const Value& image, int64_t axis, const Axis& a,
                    const relay::ResizeAttrs& attrs, bool rounds_up) {
  const Value x = coordinates(node, attrs, a);
  if (attrs.method != "nearest_neighbor")
    return attrs.antialias ? filtered(image, axis, a, x, attrs)
                           : combined(image, axis, taps_of(attrs, x, a.in));
  Value nearest = rounded(attrs.rounding_method, x);
  if (rounds_up) nearest = choose(less(a.factor, f64(1)), rounded("ceil", x), nearest);
  return taken(image, as_integers(nearest), axis);
}

}  // namespace

Value resize_at_run_time(const Node& node, const Value& scales, const std::vector<int64_t>& axes,
                         const relay::ResizeAttrs& attrs, bool rounds_up) {
  // What is open of their number the run checks.
  const Value all = with_dims(scales, {static_cast<int64_t>(axes.size())});
  Value value = node.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    if (const auto scale = known_element(all, place); scale && scale->tensor.value(scale->place) == 1)
      continue;
    value = resized_along(node, value, axes[i], axis_by_factor(value, axes[i], taken(all, integer(place), 0)),
                          attrs, rounds_up);
  }
  return value;
}

Value resize_to_run_sizes(const Node& node, const std::vector<Expr>& sizes, const relay::ResizeAttrs& attrs) {
  Value value = node.in(0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (prove_equal(sizes[d], dims_of(value)[d])) continue;
    const auto axis = static_cast<int64_t>(d);
    const Axis a = axis_of(value, axis, number_of(sizes[d]), ratio_of(value, axis, sizes[d]));
    value = resized_along(node, value, axis, a, attrs, false);
  }
  return value;
}

Value resize_by_one_factor(const Node& node, const std::vector<Expr>& sizes, const std::vector<int64_t>& axes,
                           const relay::ResizeAttrs& attrs, bool smallest) {
  Value value = node.in(0), factor;
  for (int64_t axis : axes) {
    const Value ratio = ratio_of(value, axis, sizes[static_cast<size_t>(axis)]);
    factor = factor ? emit(smallest ? "minimum" : "maximum", {factor, ratio}) : ratio;
  }
  for (int64_t axis : axes) {
    const Value scaled = times(factor, extent_of(value, axis, kFloat64));
    const Value size = as_integers(floor_of(plus(scaled, f64(0.5))));
    value = resized_along(node, value, axis, axis_of(value, axis, size, factor), attrs, false);
  }
  return value;
}

}  // namespace lathe::onnx
