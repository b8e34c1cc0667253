// Resize and Upsample: which axes change, to which sizes, by which factors.
#include "core/frontends/onnx_resize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using Ints = std::vector<int64_t>;
using Reals = std::vector<double>;

/// What a node asks for, a number for each axis of its image.
struct Request {
  std::vector<Expr> sizes;  // open ones among them; empty: as the scales say
  Reals scales;             // empty: size / extent
  Reals start, end;         // of the part to be resized; empty: all of it
  size_t rank = 0;
  bool changes(size_t d, const std::vector<Expr>& dims) const {
    return (!scales.empty() && scales[d] != 1) || (!sizes.empty() && !prove_equal(sizes[d], dims[d])) ||
           (!start.empty() && (start[d] != 0 || end[d] != 1));
  }
};

Ints axes_of(const Node& node) {
  Ints axes(static_cast<size_t>(node.rank(0)));
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints("axes", axes);
  for (int64_t& axis : axes) axis = node.axis(axis, node.rank(0));
  return axes;
}

/// `values` belong to the attribute `axes`; the others get `otherwise`.
template <typename T>
std::vector<T> on_axes(const Node& node, const std::vector<T>& values, std::vector<T> otherwise) {
  const Ints axes = axes_of(node);
  if (axes.size() != values.size()) node.reject("{} numbers for {} axes", values.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i) otherwise[static_cast<size_t>(axes[i])] = values[i];
  return otherwise;
}

/// Upsample of opset 7 has an attribute, the later ones an input.
Reals scales_of(const Node& node, size_t input) {
  const size_t rank = static_cast<size_t>(node.rank(0));
  Reals scales = node.has_attr("scales") ? node.reals("scales") : node.reals_in(input);
  scales = on_axes(node, scales, Reals(rank, 1));
  for (double scale : scales)
    if (!(scale > 0 && scale < Node::kLargest)) node.reject("a scale of {}, must be positive", scale);
  return scales;
}

/// Sizes by scales. The standard rounds them down; the factor that coordinates are computed with stays as
/// given.
std::vector<Expr> scaled(const Node& node, const Ints& dims, const Reals& scales) {
  std::vector<Expr> sizes;
  for (size_t d = 0; d < dims.size(); ++d) {
    // In float32, as ONNX Runtime does: 3 times 10 / 3 is 10.
    const double extent = std::floor(static_cast<float>(dims[d]) * static_cast<float>(scales[d]));
    if (!(extent < Node::kLargest)) node.reject("a size of {}", extent);
    sizes.emplace_back(static_cast<int64_t>(extent));
  }
  return sizes;
}

/// Whether all sizes are scaled by one factor, so that none is larger (smaller) than asked for.
bool keeps_aspect_ratio(const Node& node) {
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    node.reject("keep_aspect_ratio_policy `{}` is unknown", policy);
  return policy != "stretch";
}
/// The smallest ratio fits inside all sizes asked for, the largest covers them.
bool takes_smallest_ratio(const Node& node) {
  return node.text("keep_aspect_ratio_policy", "") == "not_larger";
}

/// The factor of sizes that are known, noted as scales, and the sizes that it gives.
void keep_aspect_ratio(const Node& node, Request& request) {
  const Ints axes = axes_of(node);
  std::optional<double> factor;
  for (int64_t axis : axes) {
    const size_t d = static_cast<size_t>(axis);
    const int64_t extent = node.dim(0, axis);
    if (extent < 1) node.reject("data of type {}", relay::print(node.in(0)->checked_type));
    double ratio = static_cast<double>(int_value(request.sizes[d])) / static_cast<double>(extent);
    factor = !factor                      ? ratio
             : takes_smallest_ratio(node) ? std::min(*factor, ratio)
                                          : std::max(*factor, ratio);
  }
  request.scales.assign(request.rank, 1);
  for (int64_t axis : axes) {
    const size_t d = static_cast<size_t>(axis);
    const double extent = std::floor(*factor * static_cast<double>(node.dim(0, axis)) + 0.5);
    if (!(extent < Node::kLargest)) node.reject("a size of {}", extent);
    request.sizes[d] = static_cast<int64_t>(extent);
    request.scales[d] = *factor;
  }
}

/// Whether extents and sizes are known of these axes.
bool knows_extents(const Node& node, const Request& request, const Ints& axes) {
  return std::ranges::all_of(axes, [&](int64_t axis) {
    const auto d = static_cast<size_t>(axis);
    return as_int(request.sizes[d]) && as_int(node.dims(0)[d]);
  });
}

Request request_of(const Node& node, bool old) {
  Request request;
  request.rank = static_cast<size_t>(node.rank(0));
  const bool by_run = !old && node.has(3) && !is_known(node.in(3));
  const std::vector<Expr> sizes = by_run                ? sizes_at_run_time(node, 3)
                                  : !old && node.has(3) ? node.sizes_in(3)
                                                        : std::vector<Expr>{};
  if (!sizes.empty()) {
    request.sizes = on_axes(node, sizes, dims_of(node.in(0)));
    for (const Expr& size : request.sizes)
      if (as_int(size) && int_value(size) < 1) node.reject("a size of {}, must be positive", int_value(size));
    if (keeps_aspect_ratio(node) && knows_extents(node, request, axes_of(node)))
      keep_aspect_ratio(node, request);
  } else {
    request.scales = scales_of(node, old ? 1 : 2);
    if (!has_open_dims(node.in(0))) request.sizes = scaled(node, node.shape(0), request.scales);
  }
  if (!old && node.text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    // All starts, then all ends, for each axis or those named.
    const Reals roi = node.reals_in(1);
    if (roi.size() % 2)
      node.reject("roi has {} numbers, must have a start and an end for each axis", roi.size());
    const auto half = roi.begin() + static_cast<int64_t>(roi.size() / 2);
    request.start = on_axes(node, {roi.begin(), half}, Reals(request.rank, 0));
    request.end = on_axes(node, {half, roi.end()}, Reals(request.rank, 1));
  }
  return request;
}

/// The attributes but for sizes, scales and axes.
relay::ResizeAttrs attrs_of(const Node& node, bool old) {
  std::string mode = node.text("mode", "nearest");
  if (mode == "bilinear" || mode == "trilinear") mode = "linear";
  relay::ResizeAttrs attrs;
  attrs.method = mode == "nearest" ? "nearest_neighbor" : mode;
  // The standard had no choice of coordinates before, and this one behaviour.
  attrs.coordinate_transformation_mode =
      old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  if (mode == "nearest") {
    attrs.rounding_method = old ? "floor" : node.text("nearest_mode", "round_prefer_floor");
    static constexpr const char* kRoundings[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
    if (std::ranges::find(kRoundings, attrs.rounding_method) == std::end(kRoundings))
      node.reject("nearest_mode `{}` is unknown", attrs.rounding_method);
  }
  attrs.cubic_alpha = node.real("cubic_coeff_a", -0.75);
  attrs.cubic_exclude = node.integer("exclude_outside", 0);
  attrs.extrapolation_value = node.real("extrapolation_value", 0);
  attrs.antialias = node.integer("antialias", 0) != 0;
  return attrs;
}

/// How often `extent` goes into `size`, for any value of the dimensions; 0 where that differs.
int64_t multiple_of(const Expr& size, const Expr& extent) {
  constexpr int64_t kMost = 16;
  for (int64_t factor = 1; factor <= kMost; ++factor)
    if (prove_equal(size, extent * factor)) return factor;
  return 0;
}

/// A layout in which these axes, at most three, are the spatial ones: "" where that is the usual one.
std::string layout_of(const std::vector<size_t>& axes, size_t rank) {
  constexpr std::string_view kSpatial = "DHW", kOthers = "NCABEFGIJKLMOPQRSTUVXYZ";
  if (rank - axes.size() > kOthers.size())
    fail("an image of {} dimensions, must have {} at most", rank, kOthers.size() + axes.size());
  std::string layout;
  for (size_t d = 0, others = 0; d < rank; ++d) {
    const auto k = static_cast<size_t>(std::ranges::find(axes, d) - axes.begin());
    layout += k < axes.size() ? kSpatial[kSpatial.size() - axes.size() + k] : kOthers[others++];
  }
  return axes.size() + 2 == rank && layout.starts_with("NC") ? "" : layout;
}

/// `image` with `axes`, at most three, as asked for.
Value resized_along(const Value& image, const std::vector<size_t>& axes, const Request& request,
                    const relay::ResizeAttrs& common) {
  static constexpr const char* kTo[] = {"image.resize1d", "image.resize2d", "image.resize3d"};
  static constexpr const char* kLike[] = {"image.resize1d_like", "image.resize2d_like",
                                          "image.resize3d_like"};
  const std::vector<Expr> dims = dims_of(image);
  auto attrs = std::make_unique<relay::ResizeAttrs>(common);
  attrs->layout = layout_of(axes, request.rank);
  bool constant = !request.sizes.empty();
  for (size_t d : axes) {
    if (!request.scales.empty()) attrs->scales.push_back(request.scales[d]);
    if (!request.start.empty()) attrs->roi.push_back(request.start[d]);
    constant = constant && as_int(request.sizes[d]);
  }
  if (!request.end.empty())
    for (size_t d : axes) attrs->roi.push_back(request.end[d]);
  const char* op = kTo[axes.size() - 1];
  if (constant)
    for (size_t d : axes) attrs->size.push_back(int_value(request.sizes[d]));
  if (constant || !attrs->scales.empty()) return emit(op, {image}, seal(std::move(attrs)));
  // Attributes hold no open sizes: a whole multiple is a factor, else vectors are as long as the result.
  Reals multiples;
  for (size_t d : axes)
    if (int64_t multiple = multiple_of(request.sizes[d], dims[d]))
      multiples.push_back(static_cast<double>(multiple));
  if (multiples.size() == axes.size()) {
    attrs->scales = multiples;
    return emit(op, {image}, seal(std::move(attrs)));
  }
  OpenDimensions::current()->learn_from(image);
  Values args{image};
  for (size_t d : axes) args.push_back(counted_to(request.sizes[d]));
  return emit(kLike[axes.size() - 1], std::move(args), seal(std::move(attrs)));
}

/// `image` with all `axes` as asked for; in ascending order.
Value resized(const Value& image, std::vector<size_t> axes, const Request& request,
              const relay::ResizeAttrs& attrs) {
  constexpr size_t kMostAtOnce = 3;
  // An image's spatial axes all together, also those that stay: blocks of channels know this form.
  const bool is_image = request.rank > 2 && request.rank <= 2 + kMostAtOnce;
  if (!axes.empty() && axes.front() >= 2 && is_image) {
    axes.resize(request.rank - 2);
    std::iota(axes.begin(), axes.end(), 2);
  }
  // All methods take one axis after the other.
  Value value = image;
  for (size_t begin = 0; begin < axes.size(); begin += kMostAtOnce) {
    const auto first = axes.begin() + static_cast<int64_t>(begin);
    const size_t count = std::min(kMostAtOnce, axes.size() - begin);
    value = resized_along(value, {first, first + static_cast<int64_t>(count)}, request, attrs);
  }
  return value;
}

/// The same of `axes` alone: the others stay as they are in `image`.
Request of_axes(Request request, const std::vector<size_t>& axes, const Value& image) {
  const std::vector<Expr> dims = dims_of(image);
  for (size_t d = 0; d < request.rank; ++d) {
    if (std::ranges::find(axes, d) != axes.end()) continue;
    request.scales[d] = 1;
    if (!request.sizes.empty()) request.sizes[d] = dims[d];
  }
  return request;
}

Values resize(const Node& node) {
  const bool old = node.op() == "Upsample" || node.opset() < 11;
  relay::ResizeAttrs attrs = attrs_of(node, old);
  // Before opset 11 the nearest place of a smaller image is the next one, as ONNX Runtime has it, where the
  // standard says nothing.
  const bool rounds_up = old && attrs.rounding_method == "floor";
  const size_t scales = old ? 1 : 2;
  const bool by_scales = !node.has_attr("scales") && (old || !node.has(3)) && node.has(scales);
  if (by_scales && !is_known(node.in(scales)))
    return {resize_at_run_time(node, node.in(scales), axes_of(node), attrs, rounds_up)};
  const Request request = request_of(node, old);
  const std::vector<Expr> dims = dims_of(node.in(0));
  // Of sizes that are open one factor for all, and how wide a filter is, are numbers that a run computes.
  if (request.scales.empty()) {
    if (keeps_aspect_ratio(node))
      return {resize_by_one_factor(node, request.sizes, axes_of(node), attrs, takes_smallest_ratio(node))};
    Ints changed;
    for (size_t d = 0; d < request.rank; ++d)
      if (request.changes(d, dims)) changed.push_back(static_cast<int64_t>(d));
    if (attrs.antialias && !knows_extents(node, request, changed))
      return {resize_to_run_sizes(node, request.sizes, attrs)};
  }
  std::vector<size_t> smaller, others;
  for (size_t d = 0; d < request.rank; ++d)
    if (request.changes(d, dims)) (rounds_up && request.scales[d] < 1 ? smaller : others).push_back(d);
  if (smaller.empty()) return {resized(node.in(0), others, request, attrs)};
  Value value = node.in(0);
  if (!others.empty()) value = resized(value, others, of_axes(request, others, value), attrs);
  attrs.rounding_method = "ceil";
  return {resized(value, smaller, of_axes(request, smaller, value), attrs)};
}

constexpr Converter kConverters[] = {
    {"Resize", resize},
    {"Upsample", resize},
};
}  // namespace

std::span<const Converter> resize_converters() { return kConverters; }

}  // namespace lathe::onnx
