#include "core/relay/passes/conv_transpose_to_conv.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/window.h"
#include "core/support/floor_div.h"

namespace lathe::relay {
namespace {

/// Longer kernels, zeros between their elements counted, and strides are no model's.
constexpr int64_t kMostTaps = 1 << 16;

/// One spatial axis of a transposed convolution.
struct Enlarged {
  int64_t extent, kernel, stride, dilation, before, result;  // `before`: elements cut off at the front
};

/// The same as a convolution of all phases. Result o is phase (o + cut) % stride of window (o + cut) /
/// stride; tap t of window q reads element q - before + t * dilation.
struct Phases {
  int64_t cut = 0, windows = 0, taps = 0, dilation = 1, before = 0, after = 0;
  int64_t work() const { return windows * taps; }
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
  int64_t windows = floor_div(e.result + cut - 1, e.stride) + 1;
  return {.cut = cut,
          .windows = windows,
          .taps = (last - first) / step + 1,
          .dilation = step,
          .before = last,
          .after = windows - first - e.extent};
}

/// The cut that leaves least to multiply: it moves kernel elements from one phase to another.
Phases phases_of(const Enlarged& e) {
  Phases best = phases_with_cut(e, 0);
  for (int64_t cut = 1; cut < e.stride; ++cut)
    if (Phases other = phases_with_cut(e, cut); other.work() < best.work()) best = other;
  return best;
}

/// The kernel element of each tap and phase, (taps, stride): `kernel`, one too far, where there is none.
Tensor elements_of(const Enlarged& e, const Phases& p) {
  Tensor result = full({p.taps, e.stride}, kInt32, static_cast<double>(e.kernel));
  for (int64_t k = 0; k < e.kernel; ++k) {
    // Window q takes it with data element q - m, which is tap (before - m) / dilation. The rest of `at` is
    // the phase.
    int64_t at = k * e.dilation - e.before + p.cut, m = floor_div(at, e.stride);
    result.set_integer((p.before - m) / p.dilation * e.stride + at - m * e.stride, k);
  }
  return result;
}

Ints shape_of(const Expr& e) { return constant_shape(*e->checked_type.as<TensorType>()); }

int64_t product(const Ints& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

Expr reshape(const Expr& e, Ints shape) {
  return typed_call("reshape", {e}, make<ReshapeAttrs>(std::move(shape)));
}

Expr transpose(const Expr& e, Ints axes) {
  return typed_call("transpose", {e}, make<TransposeAttrs>(std::optional(std::move(axes))));
}

/// Elements [begin, end) of each spatial axis; `e` where those are all.
Expr cut_out(const Expr& e, const Ints& begin, const Ints& end) {
  Ints shape = shape_of(e), axes(begin.size());
  std::iota(axes.begin(), axes.end(), 2);
  if (begin == Ints(begin.size(), 0) && std::equal(end.begin(), end.end(), shape.begin() + 2)) return e;
  auto attrs = std::make_unique<StridedSliceAttrs>();
  attrs->begin = begin, attrs->end = end, attrs->strides = Ints(begin.size(), 1), attrs->axes = axes;
  return typed_call("strided_slice", {e}, seal(std::move(attrs)));
}

/// One transposed convolution on its way.
class Rewriting {
 public:
  Rewriting(const Call& call, int rank)
      : call_(call), attrs_(ops::attrs_as<ConvTransposeAttrs>(call.attrs)), groups_(attrs_.groups) {
    ops::Window w = ops::window_of(attrs_.strides, attrs_.dilation, attrs_.padding, rank);
    Ints data = shape_of(call.args[0]), kernel = shape_of(call.args[1]);
    Ints result = constant_shape(*call.checked_type.as<TensorType>());
    for (size_t s = 0; s < w.strides.size(); ++s) {
      axes_.push_back({data[s + 2], kernel[s + 2], w.strides[s], w.dilation[s], w.before[s], result[s + 2]});
      strides_.push_back(w.strides[s]);
    }
  }

  /// Null when it must stay.
  Expr run() {
    for (const Enlarged& e : axes_) {
      bool positive = e.kernel > 0 && e.stride > 0 && e.dilation > 0;
      // By division: the product may not fit 64 bits.
      if (!positive || e.stride > kMostTaps || e.kernel > kMostTaps / e.dilation) return nullptr;
      phases_.push_back(phases_of(e));
      // Negative padding cuts data off; with none left there is no convolution.
      if (phases_.back().before + e.extent <= 0 || phases_.back().after + e.extent <= 0) return nullptr;
    }
    Ints begin, end;
    for (size_t s = 0; s < axes_.size(); ++s) {
      begin.push_back(phases_[s].cut);
      end.push_back(phases_[s].cut + axes_[s].result);
    }
    return cut_out(interleaved(convolution()), begin, end);
  }

 private:
  Expr convolution() const {
    auto a = std::make_unique<ConvAttrs>();
    Ints begin, end, before, after;
    for (size_t s = 0; s < axes_.size(); ++s) {
      const Phases& p = phases_[s];
      // Negative padding is data that nothing reads: cut off first.
      begin.push_back(std::max<int64_t>(-p.before, 0));
      end.push_back(axes_[s].extent + std::min<int64_t>(p.after, 0));
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
    return typed_call(op, {cut_out(call_.args[0], begin, end), kernel}, seal(std::move(a)));
  }

  /// (I, O/g, k...)  ->  (g * phases * O/g, I/g, taps...)
  Expr kernel_of_phases() const {
    Expr kernel = call_.args[1];
    Ints given = shape_of(kernel);
    // A zero behind each spatial axis, the element that elements_of() names where a phase has none for a tap.
    std::vector<Ints> one_more(given.size(), Ints{0, 1});
    one_more[0] = one_more[1] = {0, 0};
    Expr zero = typed_constant(full({}, kernel->checked_type.as<TensorType>()->dtype, 0));
    // Folded when the model is built, as weights are constants mostly.
    if (product(strides_) > 1) kernel = typed_call("nn.pad", {kernel, zero}, make<PadAttrs>(one_more));
    // Each take makes two axes of one, (taps, stride); from the last, so that those in front keep their
    // places.
    for (size_t s = axes_.size(); s-- > 0;)
      kernel = typed_call("take", {kernel, typed_constant(elements_of(axes_[s], phases_[s]))},
                          make<TakeAttrs>(int64_t{0}, std::optional(static_cast<int64_t>(s) + 2)));
    // Axes apart: (g, I/g, O/g, taps, stride, taps, stride, ...).
    Ints apart{groups_, given[0] / groups_, given[1]}, order{0}, taps;
    for (size_t s = 0; s < axes_.size(); ++s) {
      apart.insert(apart.end(), {phases_[s].taps, axes_[s].stride});
      order.push_back(static_cast<int64_t>(2 * s) + 4);
      taps.push_back(static_cast<int64_t>(2 * s) + 3);
    }
    order.insert(order.end(), {2, 1});
    order.insert(order.end(), taps.begin(), taps.end());
    Ints shape{groups_ * product(strides_) * given[1], given[0] / groups_};
    for (const Phases& p : phases_) shape.push_back(p.taps);
    return reshape(transpose(reshape(kernel, apart), order), shape);
  }

  /// (N, g * phases * O/g, windows...)  ->  (N, O, windows * strides...)
  Expr interleaved(const Expr& phases) const {
    int64_t count = product(strides_);
    if (count == 1) return phases;
    auto is_first = [&](int64_t stride) { return stride == strides_[0]; };
    // The same movement under a name that blocked layouts know (alter_layout).
    if (groups_ == 1 && axes_.size() == 2 && std::all_of(strides_.begin(), strides_.end(), is_first))
      return typed_call("nn.depth_to_space", {phases}, make<SubPixelAttrs>(strides_[0]));
    // (N, g, strides..., O/g, windows...) -> (N, g, O/g, window, stride, window, stride, ...).
    Ints given = shape_of(phases), apart{given[0], groups_}, order{0, 1}, shape{given[0], given[1] / count};
    auto rank = static_cast<int64_t>(axes_.size());
    apart.insert(apart.end(), strides_.begin(), strides_.end());
    apart.push_back(given[1] / count / groups_);
    order.push_back(2 + rank);
    for (int64_t s = 0; s < rank; ++s) {
      apart.push_back(given[s + 2]);
      order.insert(order.end(), {3 + rank + s, 2 + s});
      shape.push_back(given[s + 2] * strides_[s]);
    }
    return reshape(transpose(reshape(phases, apart), order), shape);
  }

  const Call& call_;
  const ConvTransposeAttrs& attrs_;
  int64_t groups_;
  Ints strides_;
  std::vector<Enlarged> axes_;
  std::vector<Phases> phases_;
};

/// The spatial dimensions of a transposed convolution that can be rewritten; 0 for others.
int rank_of(const Call& call) {
  const auto* op = call.callee.as<OpNode>();
  if (!op || op->row().attrs != &ConvTransposeAttrs::kType) return 0;
  for (const Expr& e : {call.args[0], call.args[1]})
    if (!has_constant_shape(*e->checked_type.as<TensorType>())) return 0;
  int rank = static_cast<int>(shape_of(call.args[0]).size()) - 2;
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
