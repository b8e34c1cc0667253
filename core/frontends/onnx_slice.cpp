// Tensors cut apart, put together and padded along axes whose sizes may be open.
#include <algorithm>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/frontends/onnx_arithmetic.h"
#include "core/frontends/onnx_run_axes.h"
#include "core/frontends/onnx_run_sizes.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

namespace lathe::onnx {
namespace {
using relay::Ints;

Expr sum_of(const std::vector<Expr>& sizes) {
  Expr sum = 0;
  for (const Expr& size : sizes) sum = sum + size;
  return sum;
}

Values concat(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", node.opset() < 4 ? 1 : 0), node.rank(0));
  if (node.inputs() == 1) return {node.in(0)};
  return {concatenated(node.all(), axis)};
}

}  // namespace

Value as_long_as_parts(const Value& value, int64_t axis, const std::vector<Expr>& sizes) {
  std::vector<Expr> dims = dims_of(value);
  dims[static_cast<size_t>(axis)] = relay::simplify_size(sum_of(sizes));
  return with_dims(value, dims);
}

namespace {

/// Parts of an axis of which the extent, or a size, is open.
Values open_split(const Node& node, int64_t axis, const std::vector<Expr>& sizes) {
  const Expr& extent = node.dims(0)[static_cast<size_t>(axis)];
  const auto parts = static_cast<int64_t>(node.outputs());
  if (sizes.empty() && node.opset() < 18) {
    if (parts == 1) return {node.in(0)};
    // Equal parts, which the axis must divide into.
    const Value equal = emit("split", {node.in(0)}, make<relay::SplitAttrs>(Ints{}, parts, axis));
    Values results;
    for (int64_t i = 0; i < parts; ++i) results.push_back(field_of(equal, i));
    return results;
  }
  Value value = node.in(0);
  if (!sizes.empty()) {
    if (static_cast<int64_t>(sizes.size()) != parts)
      node.reject("{} sizes for {} parts", sizes.size(), parts);
    value = as_long_as_parts(value, axis, sizes);
  }
  const Expr each = floordiv(extent + (parts - 1), Expr(parts));
  Values results;
  Expr begin = 0;
  for (int64_t i = 0; i < parts; ++i) {
    const Expr size = sizes.empty() ? max(min(each, extent - begin), 0) : sizes[static_cast<size_t>(i)];
    results.push_back(sliced_by(value, axis, {relay::simplify_size(begin), relay::simplify_size(size)}));
    begin = begin + size;
  }
  return results;
}

Values split(const Node& node) {
  int64_t axis = node.axis(node.integer("axis", 0), node.rank(0));
  if (!as_int(node.dims(0)[static_cast<size_t>(axis)]) ||
      (node.has(1) && (!is_known(node.in(1)) || holds_handles(node.in(1))))) {
    const Ints given = node.ints("split", {});
    return open_split(node, axis,
                      node.has(1) ? sizes_of(node, 1) : std::vector<Expr>{given.begin(), given.end()});
  }
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

/// What Slice takes along each of some axes.
struct Ranges {
  std::vector<Expr> starts, ends;
  Ints axes, steps;
};

Ranges ranges_of(const Node& node) {
  // Attributes before opset 10, inputs since.
  const bool inputs = node.opset() >= 10;
  auto attribute = [&](const char* name) {
    const Ints positions = node.positions(name);
    return std::vector<Expr>{positions.begin(), positions.end()};
  };
  Ranges ranges{inputs ? node.open_positions_in(1) : attribute("starts"),
                inputs ? node.open_positions_in(2) : attribute("ends")};
  const size_t count = ranges.starts.size();
  ranges.axes.resize(count);
  std::iota(ranges.axes.begin(), ranges.axes.end(), 0);
  if (inputs && node.has(3))
    ranges.axes = node.ints_in(3);
  else if (!inputs)
    ranges.axes = node.ints("axes", ranges.axes);
  ranges.steps = inputs && node.has(4) ? node.positions_in(4) : Ints(count, 1);
  if (ranges.ends.size() != count || ranges.axes.size() != count || ranges.steps.size() != count)
    node.reject("starts, ends, axes and steps differ in length");
  for (int64_t& axis : ranges.axes) axis = node.axis(axis, node.rank(0));
  for (int64_t step : ranges.steps)
    if (step == 0) node.reject("step 0");
  return ranges;
}

/// Backwards a slice from before the front begins at the first element, where NumPy's is empty.
Expr begin_of(const Expr& start, int64_t step, const Expr& extent) {
  // The last element is there, or none is.
  if (step > 0 || is_int(start, -1) || !relay::is_at_most(start, -1)) return start;
  if (as_int(start) && int_value(start) <= -Node::kLargest) return 0;
  return relay::simplify_size(max(extent + start, 0));
}

Values slice(const Node& node) {
  if (node.opset() >= 10 &&
      (!is_known(node.in(1)) || !is_known(node.in(2)) || is_told_by_run(node, 3) || is_told_by_run(node, 4)))
    return slice_at_run_time(node);
  const Ranges ranges = ranges_of(node);
  // Those of numbers are one slice, whose operator knows them; open ones take elements by their positions.
  Ints starts, ends, steps, axes;
  Value value = node.in(0);
  for (size_t i = 0; i < ranges.axes.size(); ++i) {
    const Expr &end = ranges.ends[i], &extent = node.dims(0)[static_cast<size_t>(ranges.axes[i])];
    const Expr start = begin_of(ranges.starts[i], ranges.steps[i], extent);
    // Beyond what an axis may be: its end.
    auto far = [](const Expr& at) {
      const int64_t position = int_value(at);
      if (position <= -Node::kLargest) return INT64_MIN;
      return position < Node::kLargest ? position : INT64_MAX;
    };
    if (as_int(start) && as_int(end)) {
      starts.push_back(far(start));
      ends.push_back(far(end));
      steps.push_back(ranges.steps[i]);
      axes.push_back(ranges.axes[i]);
      continue;
    }
    auto known = relay::numpy_slice(as_int(start) ? Expr(far(start)) : start,
                                    as_int(end) ? Expr(far(end)) : end, ranges.steps[i], extent);
    // Whether it counts from the end is for the run to tell.
    if (!known) return slice_at_run_time(node);
    value = sliced_by(value, ranges.axes[i], *known);
  }
  if (!axes.empty())
    value = emit(
        "strided_slice", {value},
        make<relay::StridedSliceAttrs>(starts, ends, steps, std::string("end"), std::optional<Ints>(axes)));
  return {settled(value)};
}

/// Cut or padded with zeros to a size, the same on both sides.
Values center_crop_pad(const Node& node) {
  Ints axes(static_cast<size_t>(node.rank(0)));
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.ints("axes", axes);
  const std::vector<Expr> wanted = sizes_of(node, 1);
  if (axes.size() != wanted.size()) node.reject("{} sizes for {} axes", wanted.size(), axes.size());
  Ints sizes;
  for (const Expr& size : wanted) sizes.push_back(as_int(size) ? int_value(size) : 1);
  // Refused before anything of that size is made.
  node.constant_shape(sizes);
  Value value = node.in(0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = node.axis(axes[i], node.rank(0));
    const Expr &extent = node.dims(0)[static_cast<size_t>(axis)], &size = wanted[i];
    // Half of what is too much, or missing, stands in front; the smaller half of both.
    const Expr cut = floordiv(max(extent - size, 0), Expr(2)), more = max(size - extent, 0),
               before = floordiv(more, Expr(2));
    value = sliced_by(value, axis, {relay::simplify_size(cut), relay::simplify_size(min(extent, size))});
    value = padded_along(value, axis, relay::simplify_size(before), relay::simplify_size(more - before),
                         scalar(node.dtype(0), 0));
  }
  return {value};
}

/// The pads of `axes` among zeros for the others.
std::vector<Expr> pads_of_all_axes(const Node& node, const std::vector<Expr>& pads, const Ints& axes) {
  if (pads.size() != 2 * axes.size())
    node.reject("pads has {} numbers for {} axes", pads.size(), axes.size());
  auto rank = static_cast<size_t>(node.rank(0));
  std::vector<Expr> all(2 * rank, Expr(0));
  for (size_t i = 0; i < axes.size(); ++i) {
    auto d = static_cast<size_t>(node.axis(axes[i], node.rank(0)));
    all[d] = pads[i];
    all[rank + d] = pads[axes.size() + i];
  }
  return all;
}

/// Pads of which some are open, or of a mode that no operator has, an axis at a time.
Value padded_axes(const Node& node, Value value, const std::vector<Expr>& pads, const std::string& mode,
                  const Value& fill) {
  const auto rank = static_cast<int64_t>(pads.size() / 2);
  for (int64_t d = 0; d < rank; ++d) {
    const Expr &before = pads[static_cast<size_t>(d)], &after = pads[static_cast<size_t>(rank + d)],
               &extent = type_of(value).shape[static_cast<size_t>(d)];
    if (is_int(before, 0) && is_int(after, 0)) continue;
    const bool grows = relay::is_at_most(0, before) && relay::is_at_most(0, after);
    if (mode == "constant" && grows) {
      value = padded_along(value, d, before, after, fill);
      continue;
    }
    // A pad that turns out to be negative leaves positions out.
    const Value places =
        minus(counted_to(relay::simplify_size(max(before + extent + after, 0))), number_of(before));
    value = padded_at(node, value, places, d, mode, fill);
  }
  return value;
}

/// Whether one of the two pads cuts off, and perhaps more than there is: of what the other adds, too.
bool cuts_what_it_adds(const Expr& before, const Expr& after, const Expr& extent) {
  if (!as_int(before) || !as_int(after)) return false;
  const auto [cut, added] = std::minmax({int_value(before), int_value(after)});
  return cut < 0 && added > 0 && !OpenDimensions::current()->is_at_most(-cut, extent);
}

Values pad(const Node& node) {
  if (node.opset() >= 11 && (!is_known(node.in(1)) || is_told_by_run(node, 3))) return pad_at_run_time(node);
  const Ints attribute = node.ints("pads", {});
  std::vector<Expr> pads =
      node.opset() >= 11 ? node.sizes_in(1) : std::vector<Expr>{attribute.begin(), attribute.end()};
  auto rank = static_cast<size_t>(node.rank(0));
  if (node.has(3)) pads = pads_of_all_axes(node, pads, node.ints_in(3));
  if (pads.size() != 2 * rank) node.reject("pads has {} numbers for rank {}", pads.size(), rank);
  Value fill = scalar(node.dtype(0), node.opset() < 11 ? node.real("value", 0) : 0);
  if (node.opset() >= 11 && node.has(2)) fill = cast_to(reshape(node.in(2), {}), node.dtype(0));
  const std::string mode = node.text("mode", "constant");
  const bool open = !std::ranges::all_of(pads, [](const Expr& pad) { return as_int(pad) != nullptr; });
  // Negative pads cut off; these first, since modes look at the edge that is left.
  Ints begin, end, cut;
  std::vector<Ints> width(rank, Ints{0, 0});
  bool cuts_last = false;
  for (size_t d = 0; d < rank; ++d) {
    Expr &before = pads[d], &after = pads[rank + d];
    if (mode == "constant" && cuts_what_it_adds(before, after, node.dims(0)[d])) {
      if (open) continue;
      cuts_last = true;
    }
    if ((as_int(before) && int_value(before) < 0) || (as_int(after) && int_value(after) < 0)) {
      auto less = [](const Expr& pad) { return as_int(pad) ? std::max<int64_t>(-int_value(pad), 0) : 0; };
      begin.push_back(less(before));
      end.push_back(less(after) > 0 ? -less(after) : INT64_MAX);
      cut.push_back(static_cast<int64_t>(d));
      if (less(before) > 0) before = 0;
      if (less(after) > 0) after = 0;
    }
    if (!open) width[d] = {int_value(before), int_value(after)};
  }
  const auto without_ends = [&](const Value& value) {
    if (cut.empty()) return value;
    return emit("strided_slice", {value},
                make<relay::StridedSliceAttrs>(begin, end, Ints(cut.size(), 1), std::string("end"),
                                               std::optional<Ints>(cut)));
  };
  const auto padded = [&](const Value& value) {
    return emit("nn.pad", {value, fill}, make<relay::PadAttrs>(width, mode));
  };
  if (cuts_last) return {without_ends(padded(node.in(0)))};
  const Value value = without_ends(node.in(0));
  return {open || mode == "wrap" ? padded_axes(node, value, pads, mode, fill) : padded(value)};
}

Values tile(const Node& node) {
  if (!is_known(node.in(1))) return tile_at_run_time(node);
  const std::vector<Expr> counts = node.sizes_in(1);
  if (static_cast<int64_t>(counts.size()) != node.rank(0))
    node.reject("{} counts for rank {}", counts.size(), node.rank(0));
  const std::vector<Expr>& extents = node.dims(0);
  const auto is_number = [](const Expr& e) { return as_int(e) != nullptr; };
  if (!holds_handles(node.in(1)) && std::all_of(extents.begin(), extents.end(), is_number))
    return {emit("tile", {node.in(0)}, make<relay::TileAttrs>(node.ints_in(1)))};
  // An axis of its own for each repetition, which becomes one with its extent: no place is divided by a size
  // that a run alone knows.
  std::vector<Expr> apart, repeated, together;
  for (size_t d = 0; d < counts.size(); ++d) {
    if (!is_int(counts[d], 1)) {
      apart.emplace_back(1);
      repeated.push_back(counts[d]);
    }
    apart.push_back(extents[d]);
    repeated.push_back(extents[d]);
    together.push_back(relay::simplify_size(extents[d] * counts[d]));
  }
  return {reshape_to(repeated_to(reshape_to(node.in(0), apart), repeated), together)};
}

constexpr Converter kConverters[] = {
    {"Concat", concat}, {"Split", split}, {"Slice", slice}, {"CenterCropPad", center_crop_pad},
    {"Pad", pad},       {"Tile", tile},
};
}  // namespace

std::span<const Converter> slice_converters() { return kConverters; }

}  // namespace lathe::onnx
