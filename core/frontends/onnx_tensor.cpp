// Data movement: gathers, scatters, blocks, resizes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

/// They are known, and none counts from the end.
bool counts_from_front(const Value& indices) {
  const Tensor* tensor = known(indices);
  for (int64_t i = 0; tensor && i < tensor->size(); ++i)
    if (tensor->integer(i) < 0) return false;
  return tensor != nullptr;
}

/// Negative indices count from the end.
Value wrapped_indices(const Value& indices, int64_t extent) {
  DataType dtype = type_of(indices).dtype;
  Value shifted = emit("add", {indices, scalar(dtype, static_cast<double>(extent))});
  return emit("where", {emit("less", {indices, scalar(dtype, 0)}), shifted, indices});
}

Values gather(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  const Expr& extent = node.dims(0)[static_cast<size_t>(axis)];
  const bool forward = counts_from_front(node.in(1));
  // Of an axis whose size is open the remainder is what counts from the end.
  const Value indices =
      forward || !as_int(extent) ? node.in(1) : wrapped_indices(node.in(1), int_value(extent));
  return {emit("take", {node.in(0), indices},
               make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis),
                                      std::string(forward || as_int(extent) ? "clip" : "wrap")))};
}

Values gather_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  return {emit("gather", {node.in(0), node.in(1)}, make<relay::GatherAttrs>(axis))};
}

/// Relay's gather_nd and scatter_nd have the index tuple first, ONNX last.
Value index_tuple_first(const Value& indices) {
  Ints axes(type_of(indices).shape.size());
  std::iota(axes.begin(), axes.end(), -1);
  // (last, 0, 1, 2, ...)
  axes[0] = static_cast<int64_t>(axes.size()) - 1;
  return emit("transpose", {indices}, make<relay::TransposeAttrs>(axes));
}

/// Rejects indices without a dimension of their own.
void require_tuples(const Node& node) {
  if (node.rank(1) == 0) node.reject("indices are a scalar");
}

Values gather_nd(const Node& node) {
  require_tuples(node);
  auto attrs = make<relay::GatherNdAttrs>(node.integer("batch_dims", 0),
                                          std::optional<int64_t>(node.dim(1, node.rank(1) - 1)));
  return {emit("gather_nd", {node.in(0), index_tuple_first(node.in(1))}, attrs)};
}

Values scatter_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  std::string reduction = node.text("reduction", "none");
  auto attrs = make<relay::ScatterElementsAttrs>(axis, reduction == "none" ? "update" : reduction);
  return {emit("scatter_elements", {node.in(0), node.in(1), node.in(2)}, attrs)};
}

Values scatter_nd(const Node& node) {
  require_tuples(node);
  // Which axes they name is no size.
  node.dim(1, node.rank(1) - 1);
  std::string reduction = node.text("reduction", "none");
  auto attrs = make<relay::ScatterNdAttrs>(reduction == "none" ? "update" : reduction);
  return {emit("scatter_nd", {node.in(0), index_tuple_first(node.in(1)), node.in(2)}, attrs)};
}

/// Slices along an axis (of the flattened tensor without one) where known booleans say so.
Values compress(const Node& node) {
  if (!is_known(node.in(1)) || has_open_dims(node.in(0))) return compress_at_run_time(node);
  Value data = node.has_attr("axis") ? node.in(0) : reshape(node.in(0), {shape_size(node.shape(0))});
  int64_t axis = node.axis(node.integer("axis", 0), static_cast<int64_t>(shape_of(data).size()));
  Ints kept, chosen = node.ints_in(1);
  for (size_t i = 0; i < chosen.size(); ++i)
    if (chosen[i]) kept.push_back(static_cast<int64_t>(i));
  if (static_cast<int64_t>(chosen.size()) > shape_of(data)[static_cast<size_t>(axis)])
    node.reject("{} conditions for {} elements", chosen.size(), shape_of(data)[static_cast<size_t>(axis)]);
  return {emit("take", {data, int_constant(kept)},
               make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("clip")))};
}

/// The first elements of each sequence, as many as input 1 says, in reverse.
Values reverse_sequence(const Node& node) {
  int64_t time = node.integer("time_axis", 0), batch = node.integer("batch_axis", 1);
  if (node.rank(0) < 2 || time + batch != 1) node.reject("axes {} and {}, must be 0 and 1", time, batch);
  std::vector<Expr> items(static_cast<size_t>(node.rank(0)), Expr(1));
  items[static_cast<size_t>(batch)] = node.dims(0)[static_cast<size_t>(batch)];
  // Element t of a sequence of n is element n - 1 - t where t < n, else itself.
  Value at = counted_along(node.dims(0)[static_cast<size_t>(time)], time, node.rank(0)),
        lengths = reshape_to(cast_to(node.in(1), kInt64), items);
  Value mirrored = minus(minus(lengths, scalar(kInt64, 1)), at);
  Value index = repeated_to(choose(less(at, lengths), mirrored, at), node.dims(0));
  return {emit("gather", {node.in(0), index}, make<relay::GatherAttrs>(time))};
}

Values depth_to_space(const Node& node) {
  bool depth = node.op() == "DepthToSpace";
  auto attrs =
      make<relay::SubPixelAttrs>(node.integer("blocksize", 1), std::string("NCHW"), node.text("mode", "DCR"));
  return {emit(depth ? "nn.depth_to_space" : "nn.space_to_depth", {node.in(0)}, attrs)};
}

/// Values, or a depth, that only a run tells: each place of the new axis is compared with the index.
Value chosen_by_index(const Node& node, int64_t axis, const Expr& depth) {
  const int64_t rank = node.rank(0) + 1;
  const Value size = number_of(depth);
  Value index = cast_to(node.in(0), kInt64);
  index = choose(less(index, scalar(kInt64, 0)), plus(index, size), index);
  index = emit("expand_dims", {index}, make<relay::ExpandDimsAttrs>(axis, int64_t{1}));
  const Value here = emit("equal", {index, counted_along(depth, axis, rank)});
  return choose(here, reshape(sliced(node.in(2), 0, 1, 2), {}), reshape(sliced(node.in(2), 0, 0, 1), {}));
}

Values one_hot(const Node& node) {
  const std::vector<Expr> depth = node.sizes_in(1);
  if (depth.size() != 1) node.reject("a depth of {} numbers, must be one", depth.size());
  const int64_t axis = node.axis(node.integer("axis", -1), node.rank(0) + 1);
  const Tensor* values = known(node.in(2));
  if (values && values->size() != 2) node.reject("values has {} numbers, must have two", values->size());
  if (!values || !as_int(depth[0])) return {chosen_by_index(node, axis, depth[0])};
  DataType dtype = values->dtype();
  Value indices = wrapped_indices(cast_to(node.in(0), kInt64), int_value(depth[0]));
  auto attrs = make<relay::OneHotAttrs>(int_value(depth[0]), axis, std::optional<DataType>(dtype));
  return {
      emit("one_hot", {indices, scalar(dtype, values->value(1)), scalar(dtype, values->value(0))}, attrs)};
}

/// Keeps the elements on and above (below) diagonal k of the last two dimensions.
Values trilu(const Node& node) {
  const std::vector<Expr>& dims = node.dims(0);
  if (dims.size() < 2) node.reject("an input of rank {}, must be 2 or more", dims.size());
  // One matrix, which broadcasts over the batch.
  const Value shift = node.has(1) ? cast_to(reshape(node.in(1), {}), kInt64) : scalar(kInt64, 0);
  const Value diagonal = plus(counted_along(dims[dims.size() - 2], 0, 2), shift),
              column = counted_along(dims.back(), 1, 2);
  const bool upper = node.integer("upper", 1) != 0;
  const Value kept = emit("less_equal", {upper ? diagonal : column, upper ? column : diagonal});
  return {emit("where", {kept, node.in(0), scalar(node.dtype(0), 0)})};
}

Ints resized(const Node& node, const Ints& dims, const std::vector<double>& scales) {
  if (scales.size() != dims.size()) node.reject("{} scales for rank {}", scales.size(), dims.size());
  Ints size;
  for (size_t d = 0; d < dims.size(); ++d) {
    // The standard rounds sizes down; the factor that coordinates are computed with stays as given.
    double extent = std::floor(static_cast<double>(dims[d]) * scales[d]);
    if (!(extent >= 0 && extent < Node::kLargest)) node.reject("a scale of {}", scales[d]);
    size.push_back(static_cast<int64_t>(extent));
  }
  return size;
}

/// `values` belong to the attribute `axes`; the others get `otherwise`.
template <typename T>
std::vector<T> on_axes(const Node& node, const std::vector<T>& values, std::vector<T> otherwise) {
  if (!node.has_attr("axes")) return values;
  Ints axes = node.ints("axes", {});
  if (axes.size() != values.size()) node.reject("{} numbers for {} axes", values.size(), axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    otherwise[static_cast<size_t>(node.axis(axes[i], node.rank(0)))] = values[i];
  return otherwise;
}

/// The sizes asked for; where the ratio of sides is to be kept, all are scaled by one factor, noted in
/// `scales`, so that none is larger (smaller) than asked for.
Ints with_aspect_ratio(const Node& node, const Ints& dims, const Ints& wanted, std::vector<double>& scales) {
  std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  Ints size = on_axes(node, wanted, dims);
  if (policy == "stretch") return size;
  if (policy != "not_larger" && policy != "not_smaller")
    node.reject("keep_aspect_ratio_policy `{}` is unknown", policy);
  Ints axes(dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints("axes", axes);
  for (int64_t& axis : axes) axis = node.axis(axis, node.rank(0));
  // The smallest ratio fits inside all sizes asked for, the largest covers them.
  std::optional<double> factor;
  for (int64_t axis : axes) {
    if (dims[axis] < 1) node.reject("data of shape {}", shape_text(dims));
    double ratio = static_cast<double>(size[axis]) / static_cast<double>(dims[axis]);
    factor = !factor ? ratio : policy == "not_larger" ? std::min(*factor, ratio) : std::max(*factor, ratio);
  }
  scales.assign(dims.size(), 1);
  for (int64_t axis : axes) {
    double extent = std::floor(*factor * static_cast<double>(dims[axis]) + 0.5);
    if (!(extent < Node::kLargest)) node.reject("a size of {}", extent);
    size[axis] = static_cast<int64_t>(extent);
    scales[axis] = *factor;
  }
  return size;
}

/// The attributes but for sizes and scales.
std::unique_ptr<relay::Resize2dAttrs> resize_attrs(const Node& node, bool old) {
  std::string mode = node.text("mode", "nearest");
  // The standard had no choice of coordinates before, and this one behaviour.
  std::string coordinates = old ? "asymmetric" : node.text("coordinate_transformation_mode", "half_pixel");
  std::string nearest = old ? "floor" : node.text("nearest_mode", "round_prefer_floor");
  auto attrs = std::make_unique<relay::Resize2dAttrs>();
  attrs->method = mode == "nearest" ? "nearest_neighbor" : mode;
  attrs->coordinate_transformation_mode = coordinates;
  if (mode == "nearest") attrs->rounding_method = nearest;
  attrs->cubic_alpha = node.real("cubic_coeff_a", -0.75);
  attrs->cubic_exclude = node.integer("exclude_outside", 0);
  attrs->extrapolation_value = node.real("extrapolation_value", 0);
  if (coordinates == "tf_crop_and_resize") {
    // All starts, then all ends, for each axis or those named.
    std::vector<double> roi = node.reals_in(1);
    auto half = roi.begin() + static_cast<int64_t>(roi.size() / 2);
    std::vector<double> start = on_axes(node, {roi.begin(), half}, std::vector<double>(4, 0)),
                        end = on_axes(node, {half, roi.end()}, std::vector<double>(4, 1));
    if (start.size() != 4 || end.size() != 4) node.reject("roi has {} numbers, must have 8", roi.size());
    attrs->roi = {start[2], start[3], end[2], end[3]};
  }
  return attrs;
}

/// How often `extent` goes into `size`, for any value of the dimensions; 0 where that differs.
int64_t multiple_of(const Expr& size, const Expr& extent) {
  constexpr int64_t kMost = 16;
  for (int64_t factor = 1; factor <= kMost; ++factor)
    if (prove_equal(size, extent * factor)) return factor;
  return 0;
}

/// Where dimensions of the image or of its new size are open.
Values open_resize(const Node& node, const std::vector<Expr>& sizes, const std::vector<double>& scales,
                   std::unique_ptr<relay::Resize2dAttrs> attrs) {
  const std::vector<Expr> dims = dims_of(node.in(0));
  if (!scales.empty()) {
    if (scales[0] != 1 || scales[1] != 1) node.reject("only the last two of four dimensions can be resized");
    attrs->scales = {scales[2], scales[3]};
    return {emit("image.resize2d", {node.in(0)}, seal(std::move(attrs)))};
  }
  if (node.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    node.reject("keep_aspect_ratio_policy of an image whose size is open");
  for (size_t d : {0, 1})
    if (!prove_equal(sizes[d], dims[d])) node.reject("only the last two of four dimensions can be resized");
  const int64_t down = multiple_of(sizes[2], dims[2]), across = multiple_of(sizes[3], dims[3]);
  if (down && across) {
    attrs->scales = {static_cast<double>(down), static_cast<double>(across)};
    return {emit("image.resize2d", {node.in(0)}, seal(std::move(attrs)))};
  }
  OpenDimensions::current()->learn_from(node.in(0));
  return {emit("image.resize2d_like", {node.in(0), counted_to(sizes[2]), counted_to(sizes[3])},
               seal(std::move(attrs)))};
}

Values resize(const Node& node) {
  if (node.integer("antialias", 0)) node.reject("antialias is not supported");
  if (node.rank(0) != 4) node.reject("an image of rank {}, must be 4", node.rank(0));
  const bool upsample = node.op() == "Upsample", old = upsample || node.opset() < 11;
  const bool by_size = !old && node.has(3) && !node.sizes_in(3).empty();
  std::vector<double> scales;
  if (!by_size) scales = on_axes(node, node.reals_in(old ? 1 : 2), std::vector<double>(4, 1));
  auto attrs = resize_attrs(node, old);
  if (has_open_dims(node.in(0)) || (by_size && holds_handles(node.in(3)))) {
    std::vector<Expr> sizes;
    if (by_size) sizes = on_axes(node, node.sizes_in(3), dims_of(node.in(0)));
    if (scales.size() + sizes.size() != 4) node.reject("{} numbers for rank 4", scales.size() + sizes.size());
    return open_resize(node, sizes, scales, std::move(attrs));
  }
  const Ints dims = node.shape(0);
  const Ints size =
      by_size ? with_aspect_ratio(node, dims, node.ints_in(3), scales) : resized(node, dims, scales);
  if (size.size() != 4 || size[0] != dims[0] || size[1] != dims[1])
    node.reject("only the last two of four dimensions can be resized, {} to {}", shape_text(dims),
                shape_text(size));
  attrs->size = {size[2], size[3]};
  if (!scales.empty()) attrs->scales = {scales[2], scales[3]};
  return {emit("image.resize2d", {node.in(0)}, seal(std::move(attrs)))};
}

constexpr Converter kConverters[] = {
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"ScatterElements", scatter_elements},
    {"Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Compress", compress},
    {"ReverseSequence", reverse_sequence},
    {"DepthToSpace", depth_to_space},
    {"SpaceToDepth", depth_to_space},
    {"OneHot", one_hot},
    {"Trilu", trilu},
    {"Resize", resize},
    {"Upsample", resize},
};
}  // namespace

std::span<const Converter> tensor_converters() { return kConverters; }

}  // namespace lathe::onnx
