#include "core/relay/ops/resample.h"

#include <algorithm>
#include <cmath>

#include "core/arith/simplify.h"
#include "core/relay/ops/rule.h"
#include "core/relay/ops/window.h"

namespace lathe::relay::ops {

std::optional<ResizeMethod> resize_method(const std::string& name) {
  if (name == "nearest_neighbor" || name == "nearest") return ResizeMethod::kNearest;
  if (name == "linear" || name == "bilinear") return ResizeMethod::kLinear;
  if (name == "cubic" || name == "bicubic") return ResizeMethod::kCubic;
  return std::nullopt;
}

namespace {

Expr f64(double value) { return fimm(kFloat64, value); }

/// A real number: known, or an expression of dimensions that are open.
struct Real {
  std::optional<double> number;
  Expr open;  // where there is no number
  Real(double value) : number(value) {}
  explicit Real(const Expr& extent) {
    if (const int64_t* value = as_int(extent))
      number = static_cast<double>(*value);
    else
      open = cast(kFloat64, extent);
  }
  Expr expr() const { return number ? f64(*number) : open; }
};

Real apply(BinaryOp op, double (*known)(double, double), const Real& a, const Real& b) {
  if (a.number && b.number) return known(*a.number, *b.number);
  Real result(0);
  result.number.reset();
  result.open = binary(op, a.expr(), b.expr());
  return result;
}
Real operator*(const Real& a, const Real& b) {
  return apply(
      BinaryOp::kMul, [](double x, double y) { return x * y; }, a, b);
}
Real operator-(const Real& a, const Real& b) {
  return apply(
      BinaryOp::kSub, [](double x, double y) { return x - y; }, a, b);
}
Real operator/(const Real& a, const Real& b) {
  return apply(
      BinaryOp::kDiv, [](double x, double y) { return x / y; }, a, b);
}

/// One spatial axis of a resize.
struct Axis {
  Expr in, out;
  Real scaled;                   // in times the factor: `out` before it was rounded down
  std::optional<double> factor;  // where it is known
  double roi_start = 0, roi_end = 1;
};

/// What there is for one pixel, and for several.
Expr of_one(const Axis& axis, const Expr& one, const Expr& several) {
  if (const int64_t* out = as_int(axis.out)) return *out == 1 ? one : several;
  return select(equal(axis.out, Expr(1)), one, several);
}

/// Where output pixel i lies in the source. For the nearest pixel products are rounded to float32, of which
/// factors are: 3 / 0.6 is 5, though the float32 nearest to 0.6 is larger.
Expr coordinate(const std::string& mode, const Axis& axis, ResizeMethod method, const Expr& i) {
  Expr x = cast(kFloat64, i);
  const Real in(axis.in), out = axis.scaled, scale = in / out;
  const auto product = [&](const Expr& place, const Real& step) {
    const Expr exact = place * step.expr();
    return method == ResizeMethod::kNearest ? cast(kFloat64, cast(kFloat32, exact)) : exact;
  };
  if (mode == "align_corners") return of_one(axis, f64(0), product(x, (in - 1) / (out - 1)));
  if (mode == "asymmetric") return product(x, scale);
  if (mode == "tf_half_pixel_for_nn") return product(x + f64(0.5), scale);
  // From the middle, which is that of the source whatever rounding cut off.
  if (mode == "half_pixel_symmetric")
    return product(x + (0.5 - Real(axis.out) / 2).expr(), scale) + ((in - 1) / 2).expr();
  if (mode == "tf_crop_and_resize")
    return of_one(axis, (0.5 * (axis.roi_start + axis.roi_end) * (in - 1)).expr(),
                  (axis.roi_start * (in - 1)).expr() +
                      x * ((axis.roi_end - axis.roi_start) * (in - 1) / (out - 1)).expr());
  const Expr half_pixel = product(x + f64(0.5), scale) - f64(0.5);
  return mode == "pytorch_half_pixel" ? of_one(axis, f64(0), half_pixel) : half_pixel;
}

std::string rounding_of(const std::string& rounding, const std::string& mode) {
  return !rounding.empty() ? rounding : mode == "align_corners" ? "round_prefer_ceil" : "floor";
}

Expr rounded(const std::string& rounding, const std::string& mode, const Expr& x) {
  auto call = [](Intrinsic f, const Expr& e) { return intrinsic(f, e); };
  const std::string how = rounding_of(rounding, mode);
  // Coordinates that are whole but for the last bits of their computation stay there.
  if (how == "floor") return call(Intrinsic::kFloor, x + f64(1e-9));
  if (how == "ceil") return call(Intrinsic::kCeil, x - f64(1e-9));
  if (how == "round_prefer_floor") return call(Intrinsic::kCeil, x - f64(0.5));
  return call(Intrinsic::kFloor, x + f64(0.5));
}

/// The cubic convolution kernel (Keys 1981) at distance t >= 0.
Expr cubic(const Expr& t, double a) {
  Expr t2 = t * t, t3 = t2 * t;
  Expr near = f64(a + 2) * t3 - f64(a + 3) * t2 + f64(1),
       far = f64(a) * t3 - f64(5 * a) * t2 + f64(8 * a) * t - f64(4 * a);
  return select(less_equal(t, f64(1)), near, select(less(t, f64(2)), far, f64(0)));
}

/// What the pixels are weighted and summed in.
DataType sum_dtype(const Buffer& x) { return x->dtype == kFloat64 ? kFloat64 : kFloat32; }

/// The source pixels of an output pixel: `count` from `first` on, counted from the one that its place lies in
/// or behind.
struct Filter {
  int64_t first = 0, count = 1;
  double shrink = 1;  // below 1 the filter is as much wider than its kernel
};

Filter filter_of(const ResizeAttrs& a, ResizeMethod method, const Axis& axis) {
  if (method == ResizeMethod::kNearest) return {};
  const double reach = method == ResizeMethod::kLinear ? 1 : 2;  // of the kernel
  Filter filter;
  if (a.antialias) filter.shrink = std::min(1.0, axis.factor.value());
  filter.first = static_cast<int64_t>(std::floor(-reach / filter.shrink)) + 1;
  filter.count = 2 - 2 * filter.first;
  return filter;
}

/// How often each pixel is repeated, where the nearest one to pixel i of the result is i / factor; else 0.
int64_t repeats_of(const ResizeAttrs& a, ResizeMethod method, const Axis& axis) {
  if (method != ResizeMethod::kNearest || !axis.factor || *axis.factor < 2) return 0;
  if (*axis.factor != std::floor(*axis.factor)) return 0;
  const std::string &mode = a.coordinate_transformation_mode, how = rounding_of(a.rounding_method, mode);
  const bool from_first = mode == "asymmetric" || mode == "tf_half_pixel_for_nn",
             centred = mode == "half_pixel" || mode == "pytorch_half_pixel" || mode == "half_pixel_symmetric",
             same = (from_first && how == "floor") || (centred && how.starts_with("round"));
  return same ? static_cast<int64_t>(*axis.factor) : 0;
}

/// Source pixels and weights where these are the same for all pixels of the result, counted from `stride`
/// times its place. All of them lie in the image.
struct Steps {
  int64_t stride = 0, first = 0;
  std::vector<double> weights;
};

/// Tables (out, taps): source positions, clamped into the image, and weights (none: one tap of weight 1).
struct Taps {
  int64_t count;
  Buffer position, weight;
  // With either of these there are no tables.
  int64_t repeats = 0;
  std::optional<Steps> steps = {};
  // The tables are (taps, out): vectors of the result read them as vectors, and gather pixels. That is faster
  // where few pixels of a line count; where lines are shorter than the result's, to take their pixels one by
  // one is.
  bool by_tap = false;
  /// Where tap `tap` of pixel i lies.
  Expr at(const Expr& i, const Expr& tap) const {
    // As a division, vectors of the result are runs of the source; with a table they are gathered.
    if (repeats) return floordiv(i, repeats);
    return steps ? i * steps->stride + (tap + steps->first) : load(position, place(i, tap));
  }
  Expr weighted(const Expr& i, const Expr& tap, const Expr& pixel) const {
    if (!steps) return pixel * load(weight, place(i, tap));
    const double known = steps->weights.at(static_cast<size_t>(int_value(tap)));
    return known == 1 ? pixel : pixel * fimm(pixel.dtype(), known);
  }
  std::vector<Expr> place(const Expr& i, const Expr& tap) const {
    return by_tap ? std::vector{tap, i} : std::vector{i, tap};
  }
};

/// Place 0 of a result that is smaller by a whole number, in the source: that of any pixel is so many times
/// `stride` further. Nothing where its size decides.
std::optional<double> first_place(const std::string& mode, const Axis& axis, int64_t stride) {
  const double centred = static_cast<double>(stride) / 2 - 0.5;
  if (mode == "asymmetric") return 0;
  if (mode == "tf_half_pixel_for_nn") return static_cast<double>(stride) / 2;
  if (mode == "half_pixel") return centred;
  const int64_t* out = as_int(axis.out);
  if (mode == "pytorch_half_pixel" && out && *out > 1) return centred;
  if (mode == "half_pixel_symmetric" && prove_equal(axis.in, axis.out * stride)) return centred;
  return std::nullopt;
}

double known_rounded(const std::string& how, double x) {
  if (how == "floor") return std::floor(x);
  if (how == "ceil") return std::ceil(x);
  return how == "round_prefer_floor" ? std::ceil(x - 0.5) : std::floor(x + 0.5);
}

/// Of a halved image each pixel is the mean of two: neither tables nor gathers are needed to find them.
std::optional<Steps> steps_of(const ResizeAttrs& a, ResizeMethod method, const Axis& axis) {
  if (method == ResizeMethod::kCubic || a.antialias || !axis.factor || *axis.factor > 0.5 ||
      *axis.factor <= 0)
    return std::nullopt;
  Steps steps{.stride = std::llround(1 / *axis.factor)};
  // Of a factor that is not quite a whole number's places drift.
  if (static_cast<double>(steps.stride) * *axis.factor != 1) return std::nullopt;
  const std::string& mode = a.coordinate_transformation_mode;
  const std::optional<double> place = first_place(mode, axis, steps.stride);
  if (!place) return std::nullopt;
  if (method == ResizeMethod::kNearest) {
    steps.first = static_cast<int64_t>(known_rounded(rounding_of(a.rounding_method, mode), *place));
    steps.weights = {1};
  } else {
    steps.first = static_cast<int64_t>(std::floor(*place));
    const double behind = *place - std::floor(*place);
    steps.weights = {1 - behind};
    if (behind > 0) steps.weights.push_back(behind);
  }
  // Within the source: no more pixels than whole strides fit into it, and those of the last stride do.
  const int64_t last = steps.first + static_cast<int64_t>(steps.weights.size()) - 1;
  const bool fits = prove_equal(axis.out, floordiv(axis.in, Expr(steps.stride)));
  return fits && last < steps.stride ? std::optional(steps) : std::nullopt;
}

Taps taps_of(FuncBuilder& f, const ResizeAttrs& a, ResizeMethod method, const Axis& axis, DataType weights) {
  if (const int64_t repeats = repeats_of(a, method, axis)) return {1, nullptr, nullptr, repeats};
  if (auto steps = steps_of(a, method, axis)) {
    const auto count = static_cast<int64_t>(steps->weights.size());
    return {count, nullptr, nullptr, 0, std::move(steps)};
  }
  const Filter filter = filter_of(a, method, axis);
  const bool by_tap = axis.factor && *axis.factor < 1;
  const Expr& out = axis.out;
  const Shape shape = by_tap ? Shape{Expr(filter.count), out} : Shape{out, Expr(filter.count)};
  const std::string& mode = a.coordinate_transformation_mode;
  auto table = [&](const char* name, const std::function<Expr(const Expr& i, const Expr& tap)>& entry) {
    return f.compute(name, shape, [&](Vars v) { return by_tap ? entry(v[1], v[0]) : entry(v[0], v[1]); });
  };
  auto first = [&](const Expr& x) {
    if (method == ResizeMethod::kNearest) return rounded(a.rounding_method, mode, x);
    // Tables are computed apart, some with products and sums fused: what is whole but for the last bits is so
    // in all of them, or weights would be of other pixels than positions.
    return intrinsic(Intrinsic::kFloor, x + f64(1e-9)) + f64(static_cast<double>(filter.first));
  };
  const Buffer position = table("position", [&](const Expr& i, const Expr& tap) {
    return min(max(cast(kInt64, first(coordinate(mode, axis, method, i))) + tap, Expr(0)), axis.in - 1);
  });
  if (method == ResizeMethod::kNearest) return {1, position, nullptr, 0, {}, by_tap};
  auto weight = [&](const Expr& i, const Expr& tap) {
    Expr x = coordinate(mode, axis, method, i);
    // By the coordinate before clamping: at the border a tap outside has the weight it would have inside.
    Expr distance = intrinsic(Intrinsic::kAbs, x - first(x) - cast(kFloat64, tap));
    if (filter.shrink < 1) distance = distance * f64(filter.shrink);
    Expr kernel =
        method == ResizeMethod::kLinear ? max(f64(0), f64(1) - distance) : cubic(distance, a.cubic_alpha);
    if (!a.cubic_exclude) return kernel;
    Expr at = cast(kInt64, first(x)) + tap;
    return select(logical_and(less_equal(Expr(0), at), less(at, axis.in)), kernel, f64(0));
  };
  // The weights of taps that are left out, or that a wider filter has, do not add up to 1 by themselves.
  Buffer total;
  if (a.cubic_exclude || filter.shrink != 1)
    total = f.reduce("total", {out}, {Expr(filter.count)}, tir::Combiner::kSum,
                     [&](Vars i, Vars tap) { return weight(i[0], tap[0]); });
  const Buffer weight_table = table("weight", [&](const Expr& i, const Expr& tap) {
    const Expr kernel = weight(i, tap);
    return cast(weights, total ? div(kernel, load(total, {i})) : kernel);
  });
  return {filter.count, position, weight_table, 0, {}, by_tap};
}

/// Axes of a resize that are more than copied, with their places in the image's shape.
struct Resized {
  int dim;
  Axis axis;
};

/// How many times as large the result is: known of sizes that are open, too, where one is a multiple of the
/// other.
std::optional<double> factor_of(const Expr& in, const Expr& out) {
  constexpr int64_t kMost = 16;
  if (const auto ratio = (Real(out) / Real(in)).number) return ratio;
  for (int64_t times = 1; times <= kMost; ++times) {
    if (prove_equal(out, in * times)) return static_cast<double>(times);
    if (prove_equal(in, out * times)) return 1 / static_cast<double>(times);
  }
  return std::nullopt;
}

std::vector<Resized> resized_axes(const ResizeAttrs& a, const Layout& layout, const std::string& letters,
                                  const Buffer& x, const TensorType& type, bool crop) {
  const size_t count = letters.size();
  std::vector<Resized> result;
  for (size_t k = 0; k < count; ++k) {
    const int d = layout.position(letters[k]);
    const Expr &in = x->shape[d], &out = type.shape[d];
    // Given factors are what coordinates are computed with; without them the ratio of sizes is.
    const bool given = !a.scales.empty();
    const Real scaled = given ? a.scales[k] * Real(in) : Real(out);
    const bool same = prove_equal(in, out) && (!given || a.scales[k] == 1);
    // Coordinates of this mode are off by a half also where nothing changes.
    if (same && !crop && a.coordinate_transformation_mode != "tf_half_pixel_for_nn") continue;
    const std::optional<double> factor = given ? a.scales[k] : factor_of(in, out);
    result.push_back({d, {in, out, scaled, factor, crop ? a.roi[k] : 0, crop ? a.roi[k + count] : 1}});
  }
  return result;
}

/// Outer axes are combined first: whole vectors, and few enough for the inner ones to find them in the cache.
/// But along the innermost one pixels are gathered, which costs more than the rest: of the source's lines
/// where the outer axes make more of them.
bool lines_first(const std::vector<Resized>& axes, size_t rank) {
  if (axes.size() < 2 || axes.back().dim + 1 != static_cast<int>(rank)) return false;
  double outer = 1;
  for (size_t k = 0; k + 1 < axes.size(); ++k) outer *= axes[k].axis.factor.value_or(1);
  return outer > 1;
}

/// `image` with the taps of one axis combined: more than a few in a loop.
Buffer combined(FuncBuilder& f, const char* name, const Buffer& image, const Resized& along, const Taps& taps,
                const std::function<Expr(Vars, const Expr&)>& pixel) {
  constexpr int64_t kMostUnrolled = 8;
  const DataType real = sum_dtype(image);
  Shape shape = image->shape;
  shape[along.dim] = along.axis.out;
  auto term = [&](Vars i, const Expr& tap) {
    std::vector<Expr> source = as_indices(i);
    source[along.dim] = taps.at(i[along.dim], tap);
    return taps.weighted(i[along.dim], tap, cast(real, load(image, source)));
  };
  if (taps.count > kMostUnrolled) {
    Buffer sum = f.reduce(name, shape, {Expr(taps.count)}, tir::Combiner::kSum,
                          [&](Vars i, Vars tap) { return term(i, tap[0]); });
    return f.compute(name, shape, [&](Vars i) { return pixel(i, at(sum, i)); });
  }
  return f.compute(name, shape, [&](Vars i) {
    Expr sum = fimm(real, 0);
    for (int64_t tap = 0; tap < taps.count; ++tap) sum = sum + term(i, Expr(tap));
    return pixel(i, sum);
  });
}

}  // namespace

Buffer resized(FuncBuilder& f, const ResizeAttrs& a, int rank, const Buffer& x, const TensorType& type) {
  const ResizeMethod method = *resize_method(a.method);
  const std::string letters = spatial_letters(rank);
  const bool crop = a.coordinate_transformation_mode == "tf_crop_and_resize" && !a.roi.empty();
  std::vector<Resized> axes = resized_axes(a, layout_or(a.layout, "NC", rank), letters, x, type, crop);
  if (lines_first(axes, x->shape.size())) std::rotate(axes.begin(), axes.end() - 1, axes.end());
  const DataType real = sum_dtype(x);
  // The weights of a row are those of all its pixels: computed once, in tables, not at each pixel.
  std::vector<Taps> taps;
  for (const Resized& r : axes) taps.push_back(taps_of(f, a, method, r.axis, real));
  /// `value` as the result's type; where the pixel lies outside the image, what it is extrapolated by.
  auto pixel = [&](Vars i, const Expr& value) {
    Expr inside = cast(type.dtype, value), outside;
    if (!crop) return inside;
    for (const Resized& r : axes) {
      Expr place = coordinate(a.coordinate_transformation_mode, r.axis, method, i[r.dim]);
      Expr beyond = logical_or(less(place, f64(0)), less((Real(r.axis.in) - 1).expr(), place));
      outside = outside ? logical_or(outside, beyond) : beyond;
    }
    return select(outside, cast(type.dtype, fimm(real, a.extrapolation_value)), inside);
  };
  if (method == ResizeMethod::kNearest || axes.empty())
    return f.compute("resize", type.shape, [&](Vars i) {
      std::vector<Expr> source = as_indices(i);
      for (size_t k = 0; k < axes.size(); ++k) source[axes[k].dim] = taps[k].at(i[axes[k].dim], Expr(0));
      return pixel(i, load(x, source));
    });
  Buffer image = x;
  for (size_t k = 0; k + 1 < axes.size(); ++k)
    image = combined(f, "lines", image, axes[k], taps[k], [](Vars, const Expr& sum) { return sum; });
  return combined(f, "resize", image, axes.back(), taps.back(), pixel);
}

}  // namespace lathe::relay::ops
