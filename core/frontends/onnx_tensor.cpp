// Data movement: slices, gathers, pads, resizes.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_dims.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {
using Values = std::vector<Value>;
using relay::Ints;

Values concat(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", node.opset() < 4 ? 1 : 0), node.rank(0));
  if (node.inputs() == 1) return {node.in(0)};
  return {emit("concatenate", {tuple_of(node.all())}, make<relay::ConcatenateAttrs>(axis))};
}

Values split(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  int64_t extent = node.dim(0, axis), parts = static_cast<int64_t>(node.outputs());
  Ints sizes = node.has(1) ? node.ints_in(1) : node.ints("split", {});
  if (sizes.empty()) {
    // Equal parts; where they do not divide, the last ones are smaller.
    int64_t each = (extent + parts - 1) / parts;
    for (int64_t left = extent; static_cast<int64_t>(sizes.size()) < parts; left -= sizes.back())
      sizes.push_back(std::min(each, left));
  }
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != extent ||
      static_cast<int64_t>(sizes.size()) != parts)
    node.reject("sizes {} do not split {} into {} parts", shape_text(sizes), extent, parts);
  if (parts == 1) return {node.in(0)};
  Ints indices(sizes.size() - 1);
  // Relay is told where the parts begin, not how long they are.
  std::partial_sum(sizes.begin(), sizes.end() - 1, indices.begin());
  Value pieces = emit("split", {node.in(0)}, make<relay::SplitAttrs>(indices, int64_t{0}, axis));
  Values results;
  for (int64_t i = 0; i < parts; ++i) results.push_back(field_of(pieces, i));
  return results;
}

Values slice(const Node& node) {
  // Attributes before opset 10, inputs since.
  bool inputs = node.opset() >= 10;
  Ints starts = inputs ? node.positions_in(1) : node.positions("starts"),
       ends = inputs ? node.positions_in(2) : node.positions("ends");
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (inputs && node.has(3))
    axes = node.ints_in(3);
  else if (!inputs)
    axes = node.ints("axes", axes);
  if (inputs && node.has(4)) steps = node.positions_in(4);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    node.reject("starts, ends, axes and steps differ in length");
  for (int64_t& axis : axes) axis = node.axis(axis, node.rank(0));
  for (size_t i = axes.size(); i-- > 0;) {
    // From the first to the end: of an open dimension too that is all there is.
    const bool open = !as_int(dims_of(node.in(0))[static_cast<size_t>(axes[i])]);
    if (!open || starts[i] != 0 || ends[i] < Node::kLargest || steps[i] != 1) continue;
    for (Ints* list : {&starts, &ends, &axes, &steps}) list->erase(list->begin() + static_cast<int64_t>(i));
  }
  if (axes.empty()) return {node.in(0)};
  for (size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) node.reject("step 0");
    const int64_t* extent = as_int(dims_of(node.in(0))[static_cast<size_t>(axes[i])]);
    if (!extent) {
      // The operator compares positions with an open dimension itself; what lies outside is far outside.
      for (int64_t* at : {&starts[i], &ends[i]})
        if (std::abs(*at) >= Node::kLargest) *at = *at < 0 ? -INT32_MAX : INT32_MAX;
      continue;
    }
    const int64_t dim = *extent;
    // ONNX clamps; the slice operator wants numbers in range, and -dim-1 for "past the front".
    auto clamp = [&](int64_t v, int64_t low, int64_t high) {
      return std::clamp(v < 0 ? v + dim : v, low, high);
    };
    bool forward = steps[i] > 0;
    starts[i] = forward ? clamp(starts[i], 0, dim) : clamp(starts[i], -1, dim - 1);
    int64_t end = forward ? clamp(ends[i], 0, dim) : clamp(std::max(ends[i], -dim - 1), -1, dim - 1);
    ends[i] = end < 0 ? -dim - 1 : end;
  }
  auto attrs =
      make<relay::StridedSliceAttrs>(starts, ends, steps, std::string("end"), std::optional<Ints>(axes));
  return {emit("strided_slice", {node.in(0)}, attrs)};
}

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
  const Value& given = node.in(1);
  Value indices = counts_from_front(given) ? given : wrapped_indices(given, node.dim(0, axis));
  return {emit("take", {node.in(0), indices},
               make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(axis), std::string("clip")))};
}

Values gather_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  Value indices = wrapped_indices(node.in(1), node.dim(0, axis));
  return {emit("gather", {node.in(0), indices}, make<relay::GatherAttrs>(axis))};
}

/// Relay's gather_nd and scatter_nd have the index tuple first, ONNX last.
Value index_tuple_first(const Value& indices) {
  Ints axes(shape_of(indices).size());
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
  auto attrs =
      make<relay::GatherNdAttrs>(node.integer("batch_dims", 0), std::optional<int64_t>(node.shape(1).back()));
  return {emit("gather_nd", {node.in(0), index_tuple_first(node.in(1))}, attrs)};
}

Values scatter_elements(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  std::string reduction = node.text("reduction", "none");
  Value indices = wrapped_indices(node.in(1), node.dim(0, axis));
  auto attrs = make<relay::ScatterElementsAttrs>(axis, reduction == "none" ? "update" : reduction);
  return {emit("scatter_elements", {node.in(0), indices, node.in(2)}, attrs)};
}

Values scatter_nd(const Node& node) {
  require_tuples(node);
  std::string reduction = node.text("reduction", "none");
  auto attrs = make<relay::ScatterNdAttrs>(reduction == "none" ? "update" : reduction);
  return {emit("scatter_nd", {node.in(0), index_tuple_first(node.in(1)), node.in(2)}, attrs)};
}

/// Slices along an axis (of the flattened tensor without one) where known booleans say so.
Values compress(const Node& node) {
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
  Ints along(static_cast<size_t>(node.rank(0)), 1), items = along;
  along[static_cast<size_t>(time)] = node.dim(0, time);
  items[static_cast<size_t>(batch)] = node.dim(0, batch);
  // Element t of a sequence of n is element n - 1 - t where t < n, else itself.
  Value at = counted(node.dim(0, time), along), lengths = reshape(cast_to(node.in(1), kInt64), items);
  Value mirrored = minus(minus(lengths, scalar(kInt64, 1)), at);
  Value index = broadcast_to(choose(less(at, lengths), mirrored, at), node.shape(0));
  return {emit("gather", {node.in(0), index}, make<relay::GatherAttrs>(time))};
}

/// Cut or padded with zeros to a size, the same on both sides.
Values center_crop_pad(const Node& node) {
  Ints shape = node.shape(0), wanted = node.ints_in(1), axes(shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints("axes", axes);
  if (axes.size() != wanted.size()) node.reject("{} sizes for {} axes", wanted.size(), axes.size());
  // Refused before anything of that size is made.
  node.constant_shape(wanted);
  Value value = node.in(0);
  std::vector<Ints> width(shape.size(), Ints{0, 0});
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = node.axis(axes[i], node.rank(0)), more = wanted[i] - shape[static_cast<size_t>(axis)];
    // Cut off here, padded all at once below.
    if (more < 0) value = sliced(value, axis, -more / 2, -more / 2 + wanted[i]);
    if (more > 0) width[static_cast<size_t>(axis)] = {more / 2, more - more / 2};
  }
  return {emit("nn.pad", {value, scalar(node.dtype(0), 0)},
               make<relay::PadAttrs>(width, std::string("constant")))};
}

/// Repeated as on a torus.
Value wrapped(const Node& node, Value value, const std::vector<Ints>& width) {
  for (size_t d = 0; d < width.size(); ++d) {
    int64_t extent = shape_of(value)[d];
    if (width[d] == Ints{0, 0} || extent == 0) continue;
    // Each position of the result, brought into the tensor by its remainder.
    Ints places(static_cast<size_t>(node.constant_shape({width[d][0] + extent + width[d][1]})[0]));
    for (size_t i = 0; i < places.size(); ++i)
      places[i] = ((static_cast<int64_t>(i) - width[d][0]) % extent + extent) % extent;
    value = emit("take", {value, int_constant(places)},
                 make<relay::TakeAttrs>(int64_t{0}, std::optional<int64_t>(d), std::string("clip")));
  }
  return value;
}

/// The pads of `axes` among zeros for the others.
Ints pads_of_all_axes(const Node& node, const Ints& pads, const Ints& axes) {
  if (pads.size() != 2 * axes.size())
    node.reject("pads has {} numbers for {} axes", pads.size(), axes.size());
  auto rank = static_cast<size_t>(node.rank(0));
  Ints all(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(node.axis(axes[i], node.rank(0)));
    all[d] = pads[i];
    all[rank + d] = pads[axes.size() + i];
  }
  return all;
}

Values pad(const Node& node) {
  Ints pads = node.opset() >= 11 ? node.ints_in(1) : node.ints("pads", {});
  auto rank = static_cast<size_t>(node.rank(0));
  if (node.has(3)) pads = pads_of_all_axes(node, pads, node.ints_in(3));
  if (pads.size() != 2 * rank) node.reject("pads has {} numbers for rank {}", pads.size(), rank);
  double fill = node.opset() >= 11 ? (node.has(2) ? node.real_in(2) : 0) : node.real("value", 0);
  Value value = node.in(0);
  Ints begin(rank, 0), end(rank, INT32_MAX);
  bool crops = false;
  std::vector<Ints> width(rank);
  for (size_t d = 0; d < rank; ++d) {
    // Negative pads cut off; these first, since modes look at the edge that is left.
    width[d] = {std::max<int64_t>(pads[d], 0), std::max<int64_t>(pads[rank + d], 0)};
    begin[d] = std::max<int64_t>(-pads[d], 0);
    if (pads[rank + d] < 0) end[d] = pads[rank + d];
    crops |= pads[d] < 0 || pads[rank + d] < 0;
  }
  if (crops)
    value = emit("strided_slice", {value}, make<relay::StridedSliceAttrs>(begin, end, Ints(rank, 1)));
  std::string mode = node.text("mode", "constant");
  if (mode == "wrap") return {wrapped(node, value, width)};
  auto attrs = make<relay::PadAttrs>(width, mode);
  return {emit("nn.pad", {value, scalar(node.dtype(0), fill)}, attrs)};
}

Values tile(const Node& node) {
  return {emit("tile", {node.in(0)}, make<relay::TileAttrs>(node.ints_in(1)))};
}

Values depth_to_space(const Node& node) {
  bool depth = node.op() == "DepthToSpace";
  auto attrs =
      make<relay::SubPixelAttrs>(node.integer("blocksize", 1), std::string("NCHW"), node.text("mode", "DCR"));
  return {emit(depth ? "nn.depth_to_space" : "nn.space_to_depth", {node.in(0)}, attrs)};
}

Values one_hot(const Node& node) {
  int64_t depth = node.int_in(1), rank = node.rank(0) + 1, axis = node.axis(node.integer("axis", -1), rank);
  const Tensor* values = known(node.in(2));
  if (!values || values->size() != 2) node.reject("values must be two known numbers");
  DataType dtype = values->dtype();
  Value indices = wrapped_indices(cast_to(node.in(0), kInt64), depth);
  auto attrs = make<relay::OneHotAttrs>(depth, axis, std::optional<DataType>(dtype));
  return {
      emit("one_hot", {indices, scalar(dtype, values->value(1)), scalar(dtype, values->value(0))}, attrs)};
}

/// Keeps the elements on and above (below) diagonal k of the last two dimensions.
Values trilu(const Node& node) {
  Ints dims = node.shape(0);
  if (dims.size() < 2) node.reject("an input of rank {}, must be 2 or more", dims.size());
  int64_t k = node.has(1) ? node.int_in(1) : 0, rows = dims[dims.size() - 2], columns = dims.back();
  bool upper = node.integer("upper", 1) != 0;
  // The mask is a constant of one matrix, which broadcasts over the batch.
  Tensor mask(node.constant_shape({rows, columns}), kBool);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) mask.set_integer(i * columns + j, upper ? j - i >= k : j - i <= k);
  return {emit("where", {constant(mask), node.in(0), scalar(node.dtype(0), 0)})};
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
    {"Concat", concat},
    {"Split", split},
    {"Slice", slice},
    {"Gather", gather},
    {"GatherElements", gather_elements},
    {"GatherND", gather_nd},
    {"ScatterElements", scatter_elements},
    {"Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Compress", compress},
    {"ReverseSequence", reverse_sequence},
    {"CenterCropPad", center_crop_pad},
    {"Pad", pad},
    {"Tile", tile},
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
