// Resizing of images. Along each spatial axis an output pixel is a weighted sum of a few source pixels (its
// taps); small tables hold the taps of every row and column, and the result combines them.
#include <cmath>

#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay::ops {
namespace {

enum class Method { kNearest, kLinear, kCubic };

std::optional<Method> method_of(const std::string& name) {
  if (name == "nearest_neighbor" || name == "nearest") return Method::kNearest;
  if (name == "linear" || name == "bilinear") return Method::kLinear;
  if (name == "cubic" || name == "bicubic") return Method::kCubic;
  return std::nullopt;
}

constexpr const char* kModes[] = {"half_pixel",         "align_corners",        "asymmetric",
                                  "pytorch_half_pixel", "tf_half_pixel_for_nn", "half_pixel_symmetric",
                                  "tf_crop_and_resize"};

bool is_mode(const std::string& name) {
  for (const char* mode : kModes)
    if (name == mode) return true;
  return false;
}

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
  Real scaled;  // in times the factor: `out` before it was rounded down
  double roi_start = 0, roi_end = 1;
};

/// What there is for one pixel, and for several.
Expr of_one(const Axis& axis, const Expr& one, const Expr& several) {
  if (const int64_t* out = as_int(axis.out)) return *out == 1 ? one : several;
  return select(equal(axis.out, Expr(1)), one, several);
}

/// Where output pixel i lies in the source.
Expr coordinate(const std::string& mode, const Axis& axis, const Expr& i) {
  Expr x = cast(kFloat64, i);
  const Real in(axis.in), out = axis.scaled, scale = in / out;
  if (mode == "align_corners") return of_one(axis, f64(0), x * ((in - 1) / (out - 1)).expr());
  if (mode == "asymmetric") return x * scale.expr();
  if (mode == "tf_half_pixel_for_nn") return (x + f64(0.5)) * scale.expr();
  if (mode == "half_pixel_symmetric")  // the part that rounding the size down cut off, halved at both ends
    return (x + f64(0.5)) * scale.expr() + (in / 2 * (1 - Real(axis.out) / out) - 0.5).expr();
  if (mode == "tf_crop_and_resize")
    return of_one(axis, (0.5 * (axis.roi_start + axis.roi_end) * (in - 1)).expr(),
                  (axis.roi_start * (in - 1)).expr() +
                      x * ((axis.roi_end - axis.roi_start) * (in - 1) / (out - 1)).expr());
  const Expr half_pixel = (x + f64(0.5)) * scale.expr() - f64(0.5);
  return mode == "pytorch_half_pixel" ? of_one(axis, f64(0), half_pixel) : half_pixel;
}

Expr rounded(const std::string& rounding, const std::string& mode, const Expr& x) {
  auto call = [](Intrinsic f, const Expr& e) { return intrinsic(f, e); };
  std::string how = !rounding.empty() ? rounding : mode == "align_corners" ? "round_prefer_ceil" : "floor";
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

/// Tables (out, taps): source positions, clamped into the image, and weights (none: one tap of weight 1).
struct Taps {
  int64_t count;
  Buffer position, weight;
};

Taps taps_of(FuncBuilder& f, const Resize2dAttrs& a, Method method, const Axis& axis, DataType weights) {
  int64_t count = method == Method::kNearest ? 1 : method == Method::kLinear ? 2 : 4;
  Shape shape{axis.out, Expr(count)};
  const std::string& mode = a.coordinate_transformation_mode;
  auto first = [&](const Expr& x) {
    if (method == Method::kNearest) return rounded(a.rounding_method, mode, x);
    Expr floor = intrinsic(Intrinsic::kFloor, x);
    return method == Method::kLinear ? floor : floor - f64(1);
  };
  auto source = [&](Vars i) { return cast(kInt64, first(coordinate(mode, axis, i[0]))) + i[1]; };
  Buffer position =
      f.compute("position", shape, [&](Vars i) { return min(max(source(i), Expr(0)), axis.in - 1); });
  if (method == Method::kNearest) return {count, position, nullptr};
  auto weight = [&](Vars i, const Expr& tap) {
    Expr x = coordinate(mode, axis, i[0]);
    // By the coordinate before clamping: at the border a tap outside has the weight it would have inside.
    Expr distance = intrinsic(Intrinsic::kAbs, x - first(x) - cast(kFloat64, tap));
    if (method == Method::kLinear) return max(f64(0), f64(1) - distance);
    Expr at = cast(kInt64, first(x)) + tap;
    Expr inside = logical_and(less_equal(Expr(0), at), less(at, axis.in));
    return a.cubic_exclude ? select(inside, cubic(distance, a.cubic_alpha), f64(0))
                           : cubic(distance, a.cubic_alpha);
  };
  return {count, position, f.compute("weight", shape, [&](Vars i) {
            // Taps outside are left out, and the weights of the others add up to 1 again.
            Expr total = f64(0);
            for (int64_t tap = 0; tap < count; ++tap) total = total + weight(i, tap);
            return cast(weights, a.cubic_exclude ? div(weight(i, i[1]), total) : weight(i, i[1]));
          })};
}

Buffer resized(FuncBuilder& f, const Resize2dAttrs& a, const Buffer& x, const TensorType& type) {
  Layout layout = Layout::parse(a.layout);
  Method method = *method_of(a.method);
  int row = layout.position('H'), column = layout.position('W');
  bool crop = a.coordinate_transformation_mode == "tf_crop_and_resize" && a.roi.size() == 4;
  auto axis_of = [&](size_t k, int d) {
    const Expr &in = x->shape[d], &out = type.shape[d];
    // Given factors are what coordinates are computed with; without them the ratio of sizes is.
    Real scaled = a.scales.size() == 2 ? a.scales[k] * Real(in) : Real(out);
    return Axis{in, out, scaled, crop ? a.roi[k] : 0, crop ? a.roi[k + 2] : 1};
  };
  Axis rows = axis_of(0, row), columns = axis_of(1, column);
  const DataType real = sum_dtype(x);
  // The weights of a row are those of all its pixels: computed once, in tables, not at each pixel.
  Taps down = taps_of(f, a, method, rows, real), across = taps_of(f, a, method, columns, real);
  auto outside = [&](const Axis& axis, const Expr& i) {
    Expr at = coordinate(a.coordinate_transformation_mode, axis, i);
    return logical_or(less(at, f64(0)), less((Real(axis.in) - 1).expr(), at));
  };
  /// `value` as the result's type; where the pixel lies outside the image, what it is extrapolated by.
  auto pixel = [&](Vars i, const Expr& value) {
    Expr inside = cast(type.dtype, value);
    if (!crop) return inside;
    return select(logical_or(outside(rows, i[row]), outside(columns, i[column])),
                  cast(type.dtype, fimm(real, a.extrapolation_value)), inside);
  };
  // `i` with the position of a tap for its index along `axis`.
  auto source = [&](Vars i, int axis, const Taps& taps, int64_t tap) {
    std::vector<Expr> indices = as_indices(i);
    indices[axis] = load(taps.position, {i[axis], Expr(tap)});
    return indices;
  };
  if (method == Method::kNearest)
    return f.compute("resize", type.shape, [&](Vars i) {
      std::vector<Expr> indices = source(i, row, down, 0);
      indices[column] = load(across.position, {i[column], Expr(0)});
      return pixel(i, load(x, indices));
    });
  auto combined = [&](const Buffer& image, Vars i, int axis, const Taps& taps) {
    Expr sum = fimm(real, 0);
    for (int64_t tap = 0; tap < taps.count; ++tap)
      sum =
          sum + cast(real, load(image, source(i, axis, taps, tap))) * load(taps.weight, {i[axis], Expr(tap)});
    return sum;
  };
  // Rows first: whole vectors of them, and few enough for the columns to find them in the cache.
  Shape tall = x->shape;
  tall[row] = type.shape[row];
  Buffer lines = f.compute("lines", tall, [&](Vars i) { return combined(x, i, row, down); });
  return f.compute("resize", type.shape,
                   [&](Vars i) { return pixel(i, combined(lines, i, column, across)); });
}

/// The image's type with `size(axis, extent)` for its height (0) and width (1).
Relation resized_type(RelationContext& c, const std::string& layout_text,
                      const std::optional<DataType>& out_dtype,
                      const std::function<Expr(int axis, const Expr& extent)>& size) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  Layout layout = Layout::parse(layout_text);
  require_axes(c, layout, "NCHW");
  require_rank(c, 0, *x, layout.rank());
  Shape shape = x->shape;
  for (int axis : {0, 1}) {
    Expr& extent = shape[layout.position("HW"[axis])];
    extent = size(axis, extent);
  }
  c.result(tensor_type(shape, out_dtype.value_or(x->dtype)));
  return Relation::kSolved;
}

/// floor(extent * factor + rounding), also of an extent that is open, as integers: a factor is a fraction
/// whose denominator is a power of two.
Expr scaled_extent(RelationContext& c, const Expr& extent, double factor, double rounding = 0) {
  if (extent.as<Any>()) return any_dim();
  if (const int64_t* number = as_int(extent))
    return static_cast<int64_t>(std::floor(static_cast<double>(*number) * factor + rounding));
  constexpr int kMostBits = 40;
  constexpr double kLargest = 1 << 30;
  int64_t denominator = 2;  // `rounding` is 0 or a half
  while (factor * static_cast<double>(denominator) != std::floor(factor * static_cast<double>(denominator))) {
    denominator *= 2;
    if (denominator >> kMostBits || factor * static_cast<double>(denominator) > kLargest * 2)
      mismatch(c, "an open extent times {} is not computed exactly; give the result's size", factor);
  }
  const double part = static_cast<double>(denominator);
  return simplify(
      floordiv(extent * static_cast<int64_t>(factor * part) + static_cast<int64_t>(rounding * part),
               Expr(denominator)));
}

void require_resize(RelationContext& c, const Resize2dAttrs& a) {
  if ((!a.scales.empty() && a.scales.size() != 2) || (!a.roi.empty() && a.roi.size() != 4))
    mismatch(c, "scales must be two numbers, roi four: both starts, both ends");
  if (!method_of(a.method))
    mismatch(c, "method is `{}`, must be nearest_neighbor, linear or cubic", a.method);
  const std::string& mode = a.coordinate_transformation_mode;
  if (!is_mode(mode))
    mismatch(c, "coordinate_transformation_mode `{}` is unknown{}", mode,
             did_you_mean(mode, {std::begin(kModes), std::end(kModes)}));
}

bool is_factor(double scale) { return scale > 0 && scale < 1e6; }

Relation resize2d_type(RelationContext& c, const Attrs& attrs) {
  const Resize2dAttrs& a = attrs_as<Resize2dAttrs>(attrs);
  const bool by_scales = a.size.empty() && a.scales.size() == 2;
  if (!by_scales && (a.size.size() != 2 || a.size[0] < 1 || a.size[1] < 1))
    mismatch(c, "size must be two positive numbers");
  require_resize(c, a);
  if (by_scales && !(is_factor(a.scales[0]) && is_factor(a.scales[1])))
    mismatch(c, "scales are {} and {}, must be positive", a.scales[0], a.scales[1]);
  return resized_type(c, a.layout, a.out_dtype, [&](int axis, const Expr& extent) {
    return by_scales ? scaled_extent(c, extent, a.scales[axis]) : Expr(a.size[axis]);
  });
}

Relation resize2d_like_type(RelationContext& c, const Attrs& attrs) {
  const Resize2dAttrs& a = attrs_as<Resize2dAttrs>(attrs);
  if (!a.size.empty()) mismatch(c, "size is what the vectors' lengths say, must be empty");
  require_resize(c, a);
  const TensorType *rows = c.tensor(1), *columns = c.tensor(2);
  if (!rows || !columns) return Relation::kWaits;
  require_rank(c, 1, *rows, 1);
  require_rank(c, 2, *columns, 1);
  return resized_type(c, a.layout, a.out_dtype,
                      [&](int axis, const Expr&) { return (axis == 0 ? rows : columns)->shape[0]; });
}

Buffers resize2d(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  return {resized(f, attrs_as<Resize2dAttrs>(attrs), in[0], tensor_of(result))};
}

Relation upsampling_type(RelationContext& c, const Attrs& attrs) {
  const UpsamplingAttrs& a = attrs_as<UpsamplingAttrs>(attrs);
  if (!method_of(a.method))
    mismatch(c, "method is `{}`, must be nearest_neighbor, bilinear or bicubic", a.method);
  if (!is_factor(a.scale_h) || !is_factor(a.scale_w))
    mismatch(c, "scales are {} and {}, must be positive", a.scale_h, a.scale_w);
  return resized_type(c, a.layout, std::nullopt, [&](int axis, const Expr& extent) {
    return scaled_extent(c, extent, axis == 0 ? a.scale_h : a.scale_w, 0.5);
  });
}

Buffers upsampling(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const UpsamplingAttrs& a = attrs_as<UpsamplingAttrs>(attrs);
  Resize2dAttrs resize;
  resize.layout = a.layout;
  resize.method = a.method;
  resize.coordinate_transformation_mode = a.align_corners                            ? "align_corners"
                                          : *method_of(a.method) == Method::kNearest ? "asymmetric"
                                                                                     : "half_pixel";
  return {resized(f, resize, in[0], tensor_of(result))};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 int args = 1) {
  return {.name = name,
          .doc = doc,
          .args = args,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kInjective,
          .layout = LayoutRule::kAttribute};
}

constexpr Op kImageOps[] = {
    row("image.resize2d",
        "The image at another size, or `scales` times as large; coordinate modes and rounding as in ONNX "
        "Resize.",
        &Resize2dAttrs::kType, resize2d_type, resize2d),
    row("image.resize2d_like", "The same with as many rows and columns as two vectors have elements.",
        &Resize2dAttrs::kType, resize2d_like_type, resize2d, 3),
    row("nn.upsampling", "The image enlarged by factors.", &UpsamplingAttrs::kType, upsampling_type,
        upsampling),
};
}  // namespace

std::span<const Op> image_ops() { return kImageOps; }

}  // namespace lathe::relay::ops
