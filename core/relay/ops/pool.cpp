// Pooling: a window slid over the spatial axes (fixed, global or adaptive), in any layout.
#include "core/arith/simplify.h"
#include "core/relay/ops/families.h"
#include "core/relay/ops/reduced_axes.h"
#include "core/relay/ops/window.h"

namespace lathe::relay::ops {
namespace {

enum class PoolKind { kMax, kAvg };

/// Number of windows with ceil_mode: a last partial window counts when it starts inside the input or its
/// front padding.
Expr pooled_extent(const Window& w, size_t s, const Expr& extent, int64_t kernel, bool ceil_mode) {
  Expr floored = windows_along(w, s, extent, kernel);
  if (!ceil_mode || floored.as<Any>()) return floored;
  Window wider = w;
  wider.after[s] += w.strides[s] - 1;
  const Expr windows = windows_along(wider, s, extent, kernel);
  // Whatever the extent, the last one starts before the end.
  if (wider.after[s] <= (kernel - 1) * w.dilation[s]) return windows;
  const Expr starting = ceildiv(extent + w.before[s], Expr(w.strides[s]));
  return min(windows, max(windows - 1, starting));
}

template <int kRank>
Relation pool_type(RelationContext& c, const Attrs& attrs) {
  const PoolAttrs& a = attrs_as<PoolAttrs>(attrs);
  const TensorType* data = c.tensor(0);
  if (!data) return Relation::kWaits;
  Layout layout = layout_or(a.layout, "NC", kRank);
  require_axes(c, layout, "NC" + spatial_letters(kRank));
  require_rank(c, 0, *data, layout.rank());
  if (a.pool_size.empty()) mismatch(c, "pool_size is missing");
  Ints kernel = per_axis(c, "pool_size", a.pool_size, kRank, 1);
  Window w = window_of(c, a.strides, a.dilation, a.padding, kRank);
  Shape shape = data->shape;
  std::string letters = spatial_letters(kRank);
  for (size_t s = 0; s < letters.size(); ++s) {
    Expr& extent = shape[layout.position(letters[s])];
    extent = pooled_extent(w, s, extent, kernel[s], a.ceil_mode);
    if (as_int(extent) && int_value(extent) < 0)
      mismatch(c, "data of shape {} is smaller than the window along {}", describe(data->shape), letters[s]);
  }
  c.result(tensor_type(shape, data->dtype));
  return Relation::kSolved;
}

/// Elements of the window at output index `o` that lie in [low, high).
Expr elements_inside(const Expr& o, int64_t stride, int64_t dilation, int64_t kernel, int64_t first,
                     const Expr& low, const Expr& high) {
  Expr start = o * stride - first;
  Expr from = max(Expr(0), ceildiv(low - start, Expr(dilation))),
       to = min(Expr(kernel), ceildiv(high - start, Expr(dilation)));
  // A window that sees padding alone sums nothing: 0 / 1.
  return max(to - from, Expr(1));
}

bool is_wide_float(DataType dtype) { return dtype.is_float() && dtype.bits >= 32; }

/// sum / count. Wide floats are multiplied by 1 / count, which is a number for all lanes: dividing vectors
/// takes longer than summing a window.
Expr mean(const Expr& sum, const Expr& count) {
  if (!is_wide_float(sum.dtype())) return div(sum, count);
  return sum * div(lathe::constant(sum.dtype(), 1), count);
}

/// What windows take of an input that is padded already.
struct Windows {
  tir::Combiner combiner;
  DataType dtype;  // in which they are combined
  const Window& window;
  const Ints& kernel;
  std::vector<int> axes;  // of the spatial dimensions, in the layout
};

/// out[i] = the elements of window i along the spatial dimensions [first, last), combined.
Buffer combined(FuncBuilder& f, const Buffer& x, const Shape& shape, const Windows& windows, size_t first,
                size_t last) {
  Shape extents(windows.kernel.begin() + static_cast<int64_t>(first),
                windows.kernel.begin() + static_cast<int64_t>(last));
  return f.reduce("pool", shape, extents, windows.combiner, [&](Vars i, Vars r) {
    std::vector<Expr> indices = as_indices(i);
    for (size_t s = first; s < last; ++s) {
      Expr& index = indices[static_cast<size_t>(windows.axes[s])];
      index = index * windows.window.strides[s] + Expr(r[s - first]) * windows.window.dilation[s];
    }
    return cast(windows.dtype, load(x, indices));
  });
}

/// The same for one dimension with a short window, as an element-wise operator.
Buffer combined_neighbours(FuncBuilder& f, const Buffer& x, const Shape& shape, const Windows& windows,
                           size_t s) {
  return f.compute("pool", shape, [&](Vars i) {
    Expr result;
    for (int64_t k = 0; k < windows.kernel[s]; ++k) {
      std::vector<Expr> indices = as_indices(i);
      Expr& index = indices[static_cast<size_t>(windows.axes[s])];
      index = index * windows.window.strides[s] + k * windows.window.dilation[s];
      const Expr element = cast(windows.dtype, load(x, indices));
      result = result ? combine(windows.combiner, result, element) : element;
    }
    return result;
  });
}

/// Whether it is fewer steps to combine windows along all dimensions but the last first, for each place that
/// the last has, and then those.
bool is_separable(const Windows& windows) {
  constexpr int64_t kMove = 4;  // steps that it takes to store what is between, and to load it
  const int64_t last = windows.kernel.back(), others = shape_size(windows.kernel) / last;
  return others * windows.window.strides.back() + last + kMove < others * last;
}

/// Neighbouring windows of a stride are no neighbours in memory along the last dimension. Their rows are
/// combined in vectors first, which leaves few elements to take one by one. So are those of an open dimension
/// where it takes fewer steps: what is left is no second reduction then, which would be in whole vectors for
/// other sizes than the first.
Buffer pooled_windows(FuncBuilder& f, const Buffer& x, const Shape& shape, const Windows& windows) {
  constexpr int64_t kLongest = 8, kLongestOfOpen = 16;
  size_t last = windows.axes.size() - 1;
  auto axis = static_cast<size_t>(windows.axes[last]);
  // A long window written out would be a long expression.
  const bool strided =
      axis + 1 == shape.size() && windows.window.strides[last] > 1 && windows.kernel[last] <= kLongest;
  if (last == 0 || !(strided || is_separable(windows))) return combined(f, x, shape, windows, 0, last + 1);
  Shape rows = shape;
  rows[axis] = x->shape[axis];
  const Buffer of_rows = combined(f, x, rows, windows, 0, last);
  const bool open =
      axis + 1 == shape.size() && !as_int(shape[axis]) && windows.kernel[last] <= kLongestOfOpen;
  return strided || open ? combined_neighbours(f, of_rows, shape, windows, last)
                         : combined(f, of_rows, shape, windows, last, last + 1);
}

template <int kRank, PoolKind kKind>
Buffers pool(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const PoolAttrs& a = attrs_as<PoolAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Layout layout = layout_or(a.layout, "NC", kRank);
  std::string letters = spatial_letters(kRank);
  Ints kernel = a.pool_size.size() == 1 ? Ints(kRank, a.pool_size[0]) : a.pool_size;
  Window w = window_of(a.strides, a.dilation, a.padding, kRank);
  Ints after = w.after;  // what the windows really reach (ceil_mode reaches further)
  bool partial = false;
  for (size_t s = 0; s < letters.size(); ++s) {
    int axis = layout.position(letters[s]);
    // Elements from the first one that the first window sees to the last one that the last window sees. Of an
    // open extent the windows of ceil_mode may reach as far as one stride beyond what floors would.
    const int64_t *extent = as_int(in[0]->shape[axis]), *count = as_int(type.shape[axis]);
    if (extent && count) {
      int64_t reach = (*count - 1) * w.strides[s] + (kernel[s] - 1) * w.dilation[s] + 1;
      after[s] = std::max<int64_t>(0, reach - *extent - w.before[s]);
    } else {
      after[s] = w.after[s] + (a.ceil_mode ? w.strides[s] - 1 : 0);
    }
    // Where every window holds as many elements, the count is a number and the mean a multiplication.
    partial |= a.count_include_pad ? after[s] > w.after[s] : after[s] > 0 || w.before[s] > 0;
  }
  tir::Combiner combiner = kKind == PoolKind::kMax ? tir::Combiner::kMax : tir::Combiner::kSum;
  const DataType wide = kKind == PoolKind::kMax ? type.dtype : tir::dtype_of_sums(type.dtype);
  // With what changes no result: 0 for sums, the least number for the largest.
  Buffer x = padded_spatial(f, in[0], layout, w.before, after, identity_of(combiner, in[0]->dtype));
  std::vector<int> axes;
  for (char letter : letters) axes.push_back(layout.position(letter));
  Buffer pooled = pooled_windows(f, x, type.shape, {combiner, wide, w, kernel, axes});
  if (kKind == PoolKind::kMax) return {pooled};
  // Of the window at `place`, an index for each spatial axis.
  auto count = [&](const std::vector<Expr>& place) {
    Expr elements = 1;
    for (size_t s = 0; s < letters.size(); ++s) {
      const int axis = layout.position(letters[s]);
      const Expr low = a.count_include_pad ? -w.before[s] : 0,
                 high = in[0]->shape[axis] + (a.count_include_pad ? w.after[s] : 0);
      elements = elements * (partial ? elements_inside(place[s], w.strides[s], w.dilation[s], kernel[s],
                                                       w.before[s], low, high)
                                     : Expr(kernel[s]));
    }
    return cast(wide, elements);
  };
  auto place_of = [&](Vars i) {
    std::vector<Expr> place;
    for (int axis : axes) place.emplace_back(i[axis]);
    return place;
  };
  if (!partial || !has_constant_shape(type) || !is_wide_float(type.dtype))
    return {f.compute("average", type.shape,
                      [&](Vars i) { return cast(type.dtype, mean(at(pooled, i), count(place_of(i)))); })};
  // What windows are divided by, once for all channels: in vectors along a row it would be integers that
  // become real one by one.
  Shape places;
  for (int axis : axes) places.push_back(type.shape[axis]);
  const Buffer share = f.compute("share", places, [&](Vars i) {
    return div(lathe::constant(type.dtype, 1), count({i.begin(), i.end()}));
  });
  return {f.compute("average", type.shape, [&](Vars i) { return at(pooled, i) * load(share, place_of(i)); })};
}

template <int kRank>
Relation adaptive_type(RelationContext& c, const Attrs& attrs) {
  const AdaptivePoolAttrs& a = attrs_as<AdaptivePoolAttrs>(attrs);
  const TensorType* data = c.tensor(0);
  if (!data) return Relation::kWaits;
  Layout layout = layout_or(a.layout, "NC", kRank);
  require_axes(c, layout, "NC" + spatial_letters(kRank));
  require_rank(c, 0, *data, layout.rank());
  Ints size = per_axis(c, "output_size", a.output_size, kRank, 1);
  Shape shape = data->shape;
  std::string letters = spatial_letters(kRank);
  for (size_t s = 0; s < letters.size(); ++s) shape[layout.position(letters[s])] = size[s];
  c.result(tensor_type(shape, data->dtype));
  return Relation::kSolved;
}

/// Window i of o over an extent of H: [floor(i*H/o), ceil((i+1)*H/o)).
template <int kRank, PoolKind kKind>
Buffers adaptive(FuncBuilder& f, const Attrs& attrs, Inputs in, const Type& result) {
  const AdaptivePoolAttrs& a = attrs_as<AdaptivePoolAttrs>(attrs);
  const TensorType& type = tensor_of(result);
  Layout layout = layout_or(a.layout, "NC", kRank);
  std::string letters = spatial_letters(kRank);
  Shape longest;
  bool even = true;
  for (char letter : letters) {
    const Expr &extent = in[0]->shape[layout.position(letter)], &out = type.shape[layout.position(letter)];
    const bool whole = is_int(simplify(floormod(extent, out)), 0);
    even &= whole;
    // A window that begins and ends inside elements takes both in.
    longest.push_back(simplify(whole ? floordiv(extent, out) : ceildiv(extent, out) + 1));
  }
  tir::Combiner combiner = kKind == PoolKind::kMax ? tir::Combiner::kMax : tir::Combiner::kSum;
  auto first = [&](Vars i, int axis) {
    return floordiv(Expr(i[axis]) * in[0]->shape[axis], type.shape[axis]);
  };
  auto end = [&](Vars i, int axis) {
    return ceildiv((Expr(i[axis]) + 1) * in[0]->shape[axis], type.shape[axis]);
  };
  const DataType wide = kKind == PoolKind::kMax ? type.dtype : tir::dtype_of_sums(type.dtype);
  Buffer pooled = f.reduce("pool", type.shape, longest, combiner, [&](Vars i, Vars r) {
    std::vector<Expr> indices = as_indices(i), inside;
    for (size_t s = 0; s < letters.size(); ++s) {
      int axis = layout.position(letters[s]);
      indices[axis] = even ? Expr(i[axis]) * longest[s] + r[s] : first(i, axis) + r[s];
      if (!even) inside.push_back(less(indices[axis], end(i, axis)));
    }
    return select(and_all(inside), cast(wide, load(in[0], indices)), identity_of(combiner, wide));
  });
  if (kKind == PoolKind::kMax) return {pooled};
  return {f.compute("average", type.shape, [&](Vars i) {
    Expr count = 1;
    for (size_t s = 0; s < letters.size(); ++s) {
      int axis = layout.position(letters[s]);
      count = count * (even ? longest[s] : end(i, axis) - first(i, axis));
    }
    return cast(type.dtype, mean(at(pooled, i), cast(wide, count)));
  })};
}

constexpr Op row(const char* name, const char* doc, const NodeType* attrs, InferType infer, Compute compute,
                 NarrowRule narrow) {
  return {.name = name,
          .doc = doc,
          .args = 1,
          .attrs = attrs,
          .infer = infer,
          .compute = compute,
          .fusion = Fusion::kAnchor,
          .layout = LayoutRule::kAttribute,
          .narrow = narrow,
          .mean = narrow == NarrowRule::kMean ? global_reduction : nullptr};
}

constexpr NarrowRule rule_of(PoolKind kind) {
  return kind == PoolKind::kMax ? NarrowRule::kChoice : NarrowRule::kReal;
}
template <int kRank, PoolKind kKind>
constexpr Op pool_row(const char* name, const char* doc) {
  return row(name, doc, &PoolAttrs::kType, pool_type<kRank>, pool<kRank, kKind>, rule_of(kKind));
}
template <int kRank, PoolKind kKind>
constexpr Op adaptive_row(const char* name, const char* doc) {
  return row(name, doc, &AdaptivePoolAttrs::kType, adaptive_type<kRank>, adaptive<kRank, kKind>,
             rule_of(kKind));
}
template <int kRank>
constexpr Op global_average_row(const char* name, const char* doc) {
  return row(name, doc, &AdaptivePoolAttrs::kType, adaptive_type<kRank>, adaptive<kRank, PoolKind::kAvg>,
             NarrowRule::kMean);
}

constexpr const char* kMaxDoc = "The largest element of each window; padding never wins.";
constexpr const char* kAvgDoc = "The mean of each window; padding counts only with count_include_pad.";
constexpr const char* kGlobalDoc = "One window: each channel's spatial axes become 1.";
constexpr const char* kAdaptiveDoc = "Windows chosen so that the spatial axes become output_size.";

constexpr Op kPoolOps[] = {
    pool_row<1, PoolKind::kMax>("nn.max_pool1d", kMaxDoc),
    window(pool_row<2, PoolKind::kMax>("nn.max_pool2d", kMaxDoc)),
    pool_row<3, PoolKind::kMax>("nn.max_pool3d", kMaxDoc),
    pool_row<1, PoolKind::kAvg>("nn.avg_pool1d", kAvgDoc),
    window(pool_row<2, PoolKind::kAvg>("nn.avg_pool2d", kAvgDoc)),
    pool_row<3, PoolKind::kAvg>("nn.avg_pool3d", kAvgDoc),
    adaptive_row<1, PoolKind::kMax>("nn.global_max_pool1d", kGlobalDoc),
    adaptive_row<2, PoolKind::kMax>("nn.global_max_pool2d", kGlobalDoc),
    adaptive_row<3, PoolKind::kMax>("nn.global_max_pool3d", kGlobalDoc),
    global_average_row<1>("nn.global_avg_pool1d", kGlobalDoc),
    global_average_row<2>("nn.global_avg_pool2d", kGlobalDoc),
    global_average_row<3>("nn.global_avg_pool3d", kGlobalDoc),
    adaptive_row<1, PoolKind::kMax>("nn.adaptive_max_pool1d", kAdaptiveDoc),
    adaptive_row<2, PoolKind::kMax>("nn.adaptive_max_pool2d", kAdaptiveDoc),
    adaptive_row<3, PoolKind::kMax>("nn.adaptive_max_pool3d", kAdaptiveDoc),
    adaptive_row<1, PoolKind::kAvg>("nn.adaptive_avg_pool1d", kAdaptiveDoc),
    adaptive_row<2, PoolKind::kAvg>("nn.adaptive_avg_pool2d", kAdaptiveDoc),
    adaptive_row<3, PoolKind::kAvg>("nn.adaptive_avg_pool3d", kAdaptiveDoc),
};
}  // namespace

Attrs global_reduction(const Attrs& attrs, size_t rank) {
  const std::string& layout = attrs_as<AdaptivePoolAttrs>(attrs).layout;
  if (!layout.empty() && layout != "NC" + spatial_letters(static_cast<int>(rank) - 2)) return nullptr;
  Ints axes;
  for (size_t axis = 2; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  return make<ReduceAttrs>(std::optional(axes), true);
}

std::span<const Op> pool_ops() { return kPoolOps; }

}  // namespace lathe::relay::ops
