// Operators that resize images: their types, and the attributes that are wrong (resample.h computes them).
#include <algorithm>
#include <cmath>

#include "core/arith/simplify.h"
#include "core/relay/ops/open_extents.h"
#include "core/relay/ops/resample.h"
#include "core/relay/ops/rule.h"
#include "core/relay/ops/window.h"

namespace lathe::relay::ops {
namespace {

constexpr const char* kModes[] = {"half_pixel",         "align_corners",        "asymmetric",
                                  "pytorch_half_pixel", "tf_half_pixel_for_nn", "half_pixel_symmetric",
                                  "tf_crop_and_resize"};

bool is_mode(const std::string& name) {
  for (const char* mode : kModes)
    if (name == mode) return true;
  return false;
}

/// The image's type with `size(k, extent)` for its spatial axes.
Relation resized_type(RelationContext& c, const std::string& layout_text, int rank,
                      const std::optional<DataType>& out_dtype,
                      const std::function<Expr(int k, const Expr& extent)>& size) {
  const TensorType* x = c.tensor(0);
  if (!x) return Relation::kWaits;
  const Layout layout = layout_or(layout_text, "NC", rank);
  require_rank(c, 0, *x, layout.rank());
  Shape shape = x->shape;
  for (int k = 0; k < rank; ++k) {
    const char letter = spatial_letters(rank)[k];
    const int d = layout.position(letter);
    if (d < 0) mismatch(c, "layout `{}` has no axis {}", layout_text, letter);
    Expr& extent = shape[d];
    const Expr resized = size(k, extent);
    if (as_int(extent) && int_value(extent) == 0 && !(as_int(resized) && int_value(resized) == 0))
      mismatch(c, "axis {} has no elements, and is to have some", d);
    // One that grows from the other has none where that has none.
    if (!extent.as<Any>() && !resized.as<Any>() && !share_variables(extent, resized)) {
      const Expr some = simplify(min(resized, 1));
      require_in_runs(c, simplify(some * min(extent, 1)), some);
    }
    extent = resized;
  }
  c.result(tensor_type(shape, out_dtype.value_or(x->dtype)));
  return Relation::kSolved;
}

/// A factor as numerator and denominator.
struct Fraction {
  int64_t above, below;
};

/// The simplest fraction that is the factor in float32, of which factors are: 20 times 0.7 is 14, though the
/// float32 nearest to 0.7 is smaller. Nothing where none is simple.
std::optional<Fraction> simple_fraction(double factor) {
  constexpr int64_t kMostBelow = 1000;
  for (int64_t below = 1; below <= kMostBelow; ++below) {
    const auto above = std::llround(factor * static_cast<double>(below));
    if (static_cast<float>(static_cast<double>(above) / static_cast<double>(below)) ==
        static_cast<float>(factor))
      return Fraction{above, below};
  }
  return std::nullopt;
}

/// floor(extent * factor + rounding), also of an extent that is open, as integers: what is no simple fraction
/// is one whose denominator is a power of two.
Expr scaled_extent(RelationContext& c, const Expr& extent, double factor, double rounding = 0) {
  if (extent.as<Any>()) return any_dim();
  // `rounding` is 0 or a half.
  if (const auto simple = simple_fraction(factor))
    return simplify(floordiv(extent * (2 * simple->above) +
                                 static_cast<int64_t>(2 * rounding * static_cast<double>(simple->below)),
                             Expr(2 * simple->below)));
  if (const int64_t* number = as_int(extent))
    return static_cast<int64_t>(std::floor(static_cast<double>(*number) * factor + rounding));
  constexpr int kMostBits = 40;
  constexpr double kLargest = 1 << 30;
  int64_t denominator = 2;
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

bool is_factor(double scale) { return scale > 0 && scale < 1e6; }

void require_resize(RelationContext& c, const ResizeAttrs& a, size_t rank) {
  if ((!a.scales.empty() && a.scales.size() != rank) || (!a.roi.empty() && a.roi.size() != 2 * rank))
    mismatch(c, "scales must be {} numbers, roi {}: all starts, then all ends", rank, 2 * rank);
  if (!resize_method(a.method))
    mismatch(c, "method is `{}`, must be nearest_neighbor, linear or cubic", a.method);
  const std::string& mode = a.coordinate_transformation_mode;
  if (!is_mode(mode))
    mismatch(c, "coordinate_transformation_mode `{}` is unknown{}", mode,
             did_you_mean(mode, {std::begin(kModes), std::end(kModes)}));
  for (double scale : a.scales)
    if (!is_factor(scale)) mismatch(c, "a scale is {}, must be positive", scale);
}

/// How wide a filter is must be known.
void require_known_factor(RelationContext& c, const ResizeAttrs& a, const Expr& in, const Expr& out) {
  if (a.antialias && a.scales.empty() && !(as_int(in) && as_int(out)))
    mismatch(c, "with antialias sizes must be known when the model is compiled; give scales");
}

template <int kRank>
Relation resize_type(RelationContext& c, const Attrs& attrs) {
  const ResizeAttrs& a = attrs_as<ResizeAttrs>(attrs);
  const bool by_scales = a.size.empty() && !a.scales.empty();
  if (!by_scales && (a.size.size() != kRank || std::ranges::min(a.size) < 1))
    mismatch(c, "size must be {} positive numbers", kRank);
  require_resize(c, a, kRank);
  return resized_type(c, a.layout, kRank, a.out_dtype, [&](int k, const Expr& extent) {
    const Expr size = by_scales ? scaled_extent(c, extent, a.scales[k]) : Expr(a.size[k]);
    require_known_factor(c, a, extent, size);
    return size;
  });
}

template <int kRank>
Relation resize_like_type(RelationContext& c, const Attrs& attrs) {
  const ResizeAttrs& a = attrs_as<ResizeAttrs>(attrs);
  if (!a.size.empty()) mismatch(c, "size is what the vectors' lengths say, must be empty");
  require_resize(c, a, kRank);
  Shape lengths;
  for (size_t k = 0; k < kRank; ++k) {
    const TensorType* vector = c.tensor(k + 1);
    if (!vector) return Relation::kWaits;
    require_rank(c, k + 1, *vector, 1);
    lengths.push_back(vector->shape[0]);
  }
  return resized_type(c, a.layout, kRank, a.out_dtype, [&](int k, const Expr& extent) {
    require_known_factor(c, a, extent, lengths[k]);
    return lengths[k];
  });
}

template <int kRank>
Buffers resize(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  return {resized(f, attrs_as<ResizeAttrs>(attrs), kRank, in[0], tensor_of(result))};
}

Relation upsampling_type(RelationContext& c, const Attrs& attrs) {
  const UpsamplingAttrs& a = attrs_as<UpsamplingAttrs>(attrs);
  if (!resize_method(a.method))
    mismatch(c, "method is `{}`, must be nearest_neighbor, bilinear or bicubic", a.method);
  if (!is_factor(a.scale_h) || !is_factor(a.scale_w))
    mismatch(c, "scales are {} and {}, must be positive", a.scale_h, a.scale_w);
  return resized_type(c, a.layout, 2, std::nullopt, [&](int axis, const Expr& extent) {
    return scaled_extent(c, extent, axis == 0 ? a.scale_h : a.scale_w, 0.5);
  });
}

Buffers upsampling(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const UpsamplingAttrs& a = attrs_as<UpsamplingAttrs>(attrs);
  ResizeAttrs resize;
  resize.layout = a.layout;
  resize.method = a.method;
  resize.coordinate_transformation_mode = a.align_corners ? "align_corners"
                                          : *resize_method(a.method) == ResizeMethod::kNearest ? "asymmetric"
                                                                                               : "half_pixel";
  return {resized(f, resize, 2, in[0], tensor_of(result))};
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

template <int kRank>
constexpr Op resize_row(const char* name) {
  return row(
      name,
      "The image at another size, or `scales` times as large; coordinate modes and rounding as in ONNX "
      "Resize.",
      &ResizeAttrs::kType, resize_type<kRank>, resize<kRank>);
}
template <int kRank>
constexpr Op resize_like_row(const char* name) {
  return row(name, "The same with spatial axes as long as vectors, one for each.", &ResizeAttrs::kType,
             resize_like_type<kRank>, resize<kRank>, 1 + kRank);
}

constexpr Op kImageOps[] = {
    resize_row<1>("image.resize1d"),
    resize_row<2>("image.resize2d"),
    resize_row<3>("image.resize3d"),
    resize_like_row<1>("image.resize1d_like"),
    resize_like_row<2>("image.resize2d_like"),
    resize_like_row<3>("image.resize3d_like"),
    row("nn.upsampling", "The image enlarged by factors.", &UpsamplingAttrs::kType, upsampling_type,
        upsampling),
};
}  // namespace

std::span<const Op> image_ops() { return kImageOps; }

}  // namespace lathe::relay::ops
