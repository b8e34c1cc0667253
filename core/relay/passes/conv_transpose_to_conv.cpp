#include "core/relay/passes/conv_transpose_to_conv.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/arith/simplify.h"
#include "core/arith/typical_dims.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/window.h"
#include "core/support/floor_div.h"

namespace lathe::relay {
namespace {

/// Longer kernels, zeros between their elements counted, and strides are no model's.
constexpr int64_t kMostTaps = 1 << 16;

/// Layouts have channels in blocks of this, or of a multiple.
constexpr int64_t kLeastBlock = 8;

/// One spatial axis of a transposed convolution. The result has (extent - 1) * stride + `reach` elements,
/// whatever the extent is.
struct Enlarged {
  ops::Expr extent;
  int64_t kernel, stride, dilation, before, reach;  // `before`: elements cut off at the front
  int64_t typical() const { return as_int(extent) ? int_value(extent) : kTypicalDim; }
};

/// The same as a convolution of all phases. Result o is phase (o + cut) % stride of window (o + cut) /
/// stride; tap t of window q reads element q - before + t * dilation. There are `more` windows than data.
struct Phases {
  int64_t cut = 0, more = 0, taps = 0, dilation = 1, before = 0, after = 0;
  int64_t work(int64_t extent) const { return (extent + more) * taps; }
};

/// Kernel element k adds data element i to result i * stride + k * dilation - before, so it serves phase r of
/// window i + m where k * dilation - before + cut = m * stride + r.
Phases phases_with_cut(const Enlarged& e, int64_t cut) {
  // m of the first and of the last kernel element: window q reads data elements q - last to q - first.
  // Rounding down, also below 0: padding makes these negative.
  int64_t first = floor_div(cut - e.before, e.stride);
  int64_t last = floor_div((e.kernel - 1) * e.dilation + cut - e.before, e.stride);
  // Where the stride divides the dilation, one phase has all elements, evenly spaced.
  int64_t step = e.dilation % e.stride == 0 ? e.dilation / e.stride : 1;
  // Up to the one that has the last result. Results that it has beyond that are cut off in the end.
  int64_t more = floor_div(e.reach + cut - 1, e.stride);
  return {.cut = cut,
          .more = more,
          .taps = (last - first) / step + 1,
          .dilation = step,
          .before = last,
          .after = more - first};
}

/// All results of an axis with one element in one window: each is one element of the kernel times that one,
/// whatever the stride. What padding cuts off is never computed.
Enlarged in_one_window(Enlarged e) {
  if (is_int(e.extent, 1) && e.reach > 0 && e.reach <= kMostTaps) e.stride = e.reach;
  return e;
}
bool is_one_window(const Enlarged& e) { return is_int(e.extent, 1) && e.stride == e.reach; }

/// The cut that leaves least to multiply: it moves kernel elements from one phase to another.
Phases phases_of(const Enlarged& e) {
  if (is_one_window(e)) return {.taps = 1};
  Phases best = phases_with_cut(e, 0);
  for (int64_t cut = 1; cut < e.stride; ++cut)
    if (Phases other = phases_with_cut(e, cut); other.work(e.typical()) < best.work(e.typical()))
      best = other;
  return best;
}

/// The kernel element of each tap and phase, (taps, stride): `kernel`, one too far, where there is none.
Tensor elements_of(const Enlarged& e, const Phases& p) {
  Tensor result = full({p.taps, e.stride}, kInt32, static_cast<double>(e.kernel));
  for (int64_t k = 0; k < e.kernel; ++k) {
    // Window q takes it with data element q - m, which is tap (before - m) / dilation. The rest of `at` is
    // the phase.
    int64_t at = k * e.dilation - e.before + p.cut, m = floor_div(at, e.stride);
    // In one window alone: a result of another one, which padding cuts off.
    if (is_one_window(e) && m != 0) continue;
    result.set_integer((p.before - m) / p.dilation * e.stride + at - m * e.stride, k);
  }
  return result;
}

Ints shape_of(const Expr& e) { return constant_shape(*e->checked_type.as<TensorType>()); }

int64_t product(const Ints& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

/// `e` without so many elements at the front and at the end of each spatial axis.
Expr without_ends(const Expr& e, const Ints& front, const Ints& end) {
  const TensorType& type = *e->checked_type.as<TensorType>();
  const auto is_zero = [](int64_t cut) { return cut == 0; };
  if (std::all_of(front.begin(), front.end(), is_zero) && std::all_of(end.begin(), end.end(), is_zero))
    return e;
  if (!has_constant_shape(type)) {
    // The extent of a slice is not negative, whatever the dimensions are; this one's type says just how
    // much is less.
    std::vector<Ints> widths(type.shape.size(), Ints{0, 0});
    for (size_t s = 0; s < front.size(); ++s) widths[s + 2] = {-front[s], -end[s]};
    return typed_call("nn.pad", {e, typed_constant(full({}, type.dtype, 0))}, make<PadAttrs>(widths));
  }
  auto attrs = std::make_unique<StridedSliceAttrs>();
  attrs->begin = front, attrs->strides = Ints(front.size(), 1), attrs->axes = Ints(front.size());
  std::iota(attrs->axes->begin(), attrs->axes->end(), 2);
  for (size_t s = 0; s < end.size(); ++s) attrs->end.push_back(int_value(type.shape[s + 2]) - end[s]);
  return typed_call("strided_slice", {e}, seal(std::move(attrs)));
}

/// One transposed convolution on its way.
class Rewriting {
 public:
  Rewriting(const Call& call, int rank)
      : call_(call), attrs_(ops::attrs_as<ConvTransposeAttrs>(call.attrs)), groups_(attrs_.groups) {
    ops::Window w = ops::window_of(attrs_.strides, attrs_.dilation, attrs_.padding, rank);
    const std::vector<ops::Expr>& data = call.args[0]->checked_type.as<TensorType>()->shape;
    const Ints kernel = shape_of(call.args[1]);
    const std::vector<ops::Expr>& result = call.checked_type.as<TensorType>()->shape;
    for (size_t s = 0; s < w.strides.size(); ++s) {
      const ops::Expr reach = simplify(result[s + 2] - (data[s + 2] - 1) * w.strides[s]);
      known_ &= as_int(reach) != nullptr;
      axes_.push_back(in_one_window({data[s + 2], kernel[s + 2], w.strides[s], w.dilation[s], w.before[s],
                                     known_ ? int_value(reach) : 0}));
      strides_.push_back(axes_.back().stride);
    }
  }

  /// Null when it must stay.
  Expr run() {
    if (!known_) return nullptr;
    for (const Enlarged& e : axes_) {
      bool positive = e.kernel > 0 && e.stride > 0 && e.dilation > 0;
      // By division: the product may not fit 64 bits.
      if (!positive || e.stride > kMostTaps || e.kernel > kMostTaps / e.dilation) return nullptr;
      phases_.push_back(phases_of(e));
      // Negative padding cuts data off; with none left there is no convolution. How much there is of an open
      // extent is not known.
      const int64_t extent = as_int(e.extent) ? int_value(e.extent) : 1;
      if (phases_.back().before + extent <= 0 || phases_.back().after + extent <= 0) return nullptr;
    }
    if (has_one_window()) return product_of_windows();
    Ints begin, end;
    for (size_t s = 0; s < axes_.size(); ++s) {
      begin.push_back(phases_[s].cut);
      end.push_back((phases_[s].more + 1) * axes_[s].stride - phases_[s].cut - axes_[s].reach);
    }
    return without_ends(interleaved(convolution()), begin, end);
  }

 private:
  /// Whether each channel of the data is one number.
  bool has_one_window() const { return std::all_of(axes_.begin(), axes_.end(), is_one_window); }

  /// (N, C, 1...) x (O * results, C)  ->  (N, O, results...): what is in memory is what is asked for.
  Expr product_of_windows() const {
    Ints shape{0, groups_ * shape_of(call_.args[1])[1]};
    shape.insert(shape.end(), strides_.begin(), strides_.end());
    if (groups_ > 1) return reshape(convolution(), shape);
    const Expr kernel = kernel_of_phases();
    const Ints given = shape_of(kernel);
    auto a = std::make_unique<DenseAttrs>();
    a->out_dtype = attrs_.out_dtype;
    const Expr rows = reshape(call_.args[0], {0, given[1]}), matrix = reshape(kernel, {given[0], given[1]});
    return reshape(typed_call("nn.dense", {rows, matrix}, seal(std::move(a))), shape);
  }

  Expr convolution() const {
    auto a = std::make_unique<ConvAttrs>();
    Ints begin, end, before, after;
    for (size_t s = 0; s < axes_.size(); ++s) {
      const Phases& p = phases_[s];
      // Negative padding is data that nothing reads: cut off first.
      begin.push_back(std::max<int64_t>(-p.before, 0));
      end.push_back(std::max<int64_t>(-p.after, 0));
      before.push_back(std::max<int64_t>(p.before, 0));
      after.push_back(std::max<int64_t>(p.after, 0));
      a->dilation.push_back(p.dilation);
      a->kernel_size.push_back(p.taps);
    }
    Expr kernel = kernel_of_phases();
    a->strides = Ints(axes_.size(), 1);
    a->padding = before;
    a->padding.insert(a->padding.end(), after.begin(), after.end());
    a->groups = groups_;
    a->channels = shape_of(kernel)[0];
    a->out_dtype = attrs_.out_dtype;
    const char* op = axes_.size() == 1 ? "nn.conv1d" : axes_.size() == 2 ? "nn.conv2d" : "nn.conv3d";
    return typed_call(op, {without_ends(call_.args[0], begin, end), kernel}, seal(std::move(a)));
  }

  /// Of an image, as many in each direction.
  bool has_square_phases() const {
    return groups_ == 1 && axes_.size() == 2 && strides_[0] == strides_[1] && !has_one_window();
  }

  /// Whether all channels of a phase come before those of the next: whole blocks of them move then. Else all
  /// phases of a channel do: pixels beside each other in a row of the result lie in runs of the stride.
  bool phases_first() const { return has_square_phases() && shape_of(call_.args[1])[1] % kLeastBlock == 0; }

  /// (I, O/g, k...)  ->  (g * phases * O/g, I/g, taps...), or (g * O/g * phases, ..)
  Expr kernel_of_phases() const {
    Expr kernel = call_.args[1];
    Ints given = shape_of(kernel);
    // A zero behind each spatial axis, the element that elements_of() names where a phase has none for a tap.
    std::vector<Ints> one_more(given.size(), Ints{0, 1});
    one_more[0] = one_more[1] = {0, 0};
    Expr zero = typed_constant(full({}, kernel->checked_type.as<TensorType>()->dtype, 0));
    // Folded when the model is built, as weights are constants mostly.
    const bool has_none = product(strides_) > 1 || std::any_of(axes_.begin(), axes_.end(), is_one_window);
    if (has_none) kernel = typed_call("nn.pad", {kernel, zero}, make<PadAttrs>(one_more));
    // Each take makes two axes of one, (taps, stride); from the last, so that those in front keep their
    // places.
    for (size_t s = axes_.size(); s-- > 0;)
      kernel = typed_call("take", {kernel, typed_constant(elements_of(axes_[s], phases_[s]))},
                          make<TakeAttrs>(int64_t{0}, std::optional(static_cast<int64_t>(s) + 2)));
    // Axes apart: (g, I/g, O/g, taps, stride, taps, stride, ...).
    Ints apart{groups_, given[0] / groups_, given[1]}, phases, taps;
    for (size_t s = 0; s < axes_.size(); ++s) {
      apart.insert(apart.end(), {phases_[s].taps, axes_[s].stride});
      phases.push_back(static_cast<int64_t>(2 * s) + 4);
      taps.push_back(static_cast<int64_t>(2 * s) + 3);
    }
    Ints order{0};
    order.insert(order.end(), phases.begin(), phases.end());
    order.insert(phases_first() ? order.end() : order.begin() + 1, 2);
    order.push_back(1);
    order.insert(order.end(), taps.begin(), taps.end());
    Ints shape{groups_ * product(strides_) * given[1], given[0] / groups_};
    for (const Phases& p : phases_) shape.push_back(p.taps);
    return reshape(transpose(reshape(kernel, apart), order), shape);
  }

  /// (N, g * phases * O/g, windows...), or (N, g * O/g * phases, ..)  ->  (N, O, windows * strides...)
  Expr interleaved(const Expr& phases) const {
    int64_t count = product(strides_);
    if (count == 1) return phases;
    // The same movement under a name that blocked layouts know (alter_layout).
    if (has_square_phases())
      return typed_call(
          "nn.depth_to_space", {phases},
          make<SubPixelAttrs>(strides_[0], std::string("NCHW"), std::string(phases_first() ? "DCR" : "CRD")));
    // (N, g, O/g, strides..., windows...) -> (N, g, O/g, window, stride, window, stride, ...).
    const int64_t given = int_value(phases->checked_type.as<TensorType>()->shape[1]);
    Ints channels{groups_, given / count / groups_}, order{0, 1, 2}, joins{0, -3};
    auto rank = static_cast<int64_t>(axes_.size());
    channels.insert(channels.end(), strides_.begin(), strides_.end());
    for (int64_t s = 0; s < rank; ++s) {
      order.insert(order.end(), {3 + rank + s, 3 + s});
      joins.push_back(-3);
    }
    const Expr moved = transpose(with_channels_apart(phases, channels), order);
    if (!has_constant_shape(*phases->checked_type.as<TensorType>())) return reshape(moved, joins);
    Ints shape = shape_of(phases);
    shape[1] /= count;
    for (int64_t s = 0; s < rank; ++s) shape[s + 2] *= strides_[s];
    return reshape(moved, shape);
  }

  /// Axis 1 as several. The codes of a reshape split an axis in two, and say nothing of the axes behind,
  /// which may be open.
  static Expr with_channels_apart(const Expr& e, const Ints& channels) {
    const TensorType& type = *e->checked_type.as<TensorType>();
    if (has_constant_shape(type)) {
      Ints given = shape_of(e), shape{given[0]};
      shape.insert(shape.end(), channels.begin(), channels.end());
      shape.insert(shape.end(), given.begin() + 2, given.end());
      return reshape(e, shape);
    }
    Expr apart = e;
    int64_t behind = product(channels);
    for (size_t i = 0; i + 1 < channels.size(); ++i) {
      behind /= channels[i];
      Ints codes(i + 1, 0);
      codes.insert(codes.end(), {-4, channels[i], behind, -2});
      apart = reshape(apart, codes);
    }
    return apart;
  }

  const Call& call_;
  const ConvTransposeAttrs& attrs_;
  int64_t groups_;
  bool known_ = true;  // how much the result reaches beyond the data
  Ints strides_;
  std::vector<Enlarged> axes_;
  std::vector<Phases> phases_;
};

/// The spatial dimensions of a transposed convolution that can be rewritten; 0 for others.
int rank_of(const Call& call) {
  const auto* op = call.callee.as<OpNode>();
  if (!op || op->row().attrs != &ConvTransposeAttrs::kType) return 0;
  const TensorType& data = *call.args[0]->checked_type.as<TensorType>();
  if (!has_constant_shape(*call.args[1]->checked_type.as<TensorType>()) || !as_int(data.shape[1])) return 0;
  for (const ops::Expr& extent : data.shape)
    if (extent.as<Any>()) return 0;
  int rank = static_cast<int>(data.shape.size()) - 2;
  const ConvTransposeAttrs& a = ops::attrs_as<ConvTransposeAttrs>(call.attrs);
  for (const std::string& layout : {a.data_layout, a.out_layout})
    if (!layout.empty() && layout != "NC" + ops::spatial_letters(rank)) return 0;
  return rank;
}

class ToConvolutions final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr rebuilt = visit_default(e);
    const Call& call = *rebuilt.as<Call>();
    int rank = rank_of(call);
    Expr convolution = rank ? Rewriting(call, rank).run() : nullptr;
    return convolution ? convolution : rebuilt;
  }
};

}  // namespace

Module conv_transpose_to_conv(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return ToConvolutions().visit_as(function); });
}

}  // namespace lathe::relay
