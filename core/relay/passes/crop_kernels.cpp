#include "core/relay/passes/crop_kernels.h"

#include <algorithm>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

/// The taps of one axis that see the image, and the padding that is left for them.
struct Taps {
  int64_t begin, end, before, after;
};

struct Line {
  int64_t image, kernel, result, stride, dilation, before;

  bool is_seen(int64_t tap) const {
    for (int64_t i = 0; i < result; ++i)
      if (int64_t at = tap * dilation - before + i * stride; at >= 0 && at < image) return true;
    return false;
  }

  /// All taps where none sees the image, or what is left would begin inside it.
  std::optional<Taps> seen() const {
    Taps taps{0, kernel, 0, 0};
    while (taps.begin < taps.end && !is_seen(taps.begin)) ++taps.begin;
    while (taps.end > taps.begin && !is_seen(taps.end - 1)) --taps.end;
    const int64_t last = dilation * (taps.end - taps.begin - 1);
    taps.before = before - taps.begin * dilation;
    taps.after = std::max<int64_t>((result - 1) * stride + last + 1 - image - taps.before, 0);
    bool as_many = (image + taps.before + taps.after - last - 1) / stride + 1 == result;
    if (taps.begin == taps.end || taps.before < 0 || !as_many) return std::nullopt;
    return taps;
  }
};

Ints shape_of(const Expr& e) {
  const TensorType* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type && has_constant_shape(*type) ? constant_shape(*type) : Ints{};
}

Expr cropped(const Call& e, const Expr& data, const Expr& weight) {
  const ConvAttrs& given = ops::attrs_as<ConvAttrs>(e.attrs);
  Ints image = shape_of(e.args[0]), kernel = shape_of(e.args[1]), result = shape_of(Expr(&e));
  const size_t rank = image.size() - 2;
  const ops::Window window =
      ops::window_of(given.strides, given.dilation, given.padding, static_cast<int>(rank));
  auto a = mutate(given);
  auto cut = std::make_unique<StridedSliceAttrs>();
  a->padding.assign(2 * rank, 0), a->dilation = window.dilation, a->kernel_size.clear();
  for (size_t s = 0; s < rank; ++s) {
    Line line{image[s + 2],      kernel[s + 2],      result[s + 2],
              window.strides[s], window.dilation[s], window.before[s]};
    Taps taps = line.seen().value_or(Taps{0, kernel[s + 2], window.before[s], window.after[s]});
    a->padding[s] = taps.before, a->padding[rank + s] = taps.after;
    a->kernel_size.push_back(taps.end - taps.begin);
    if (a->kernel_size[s] == 1) a->dilation[s] = 1;
    if (a->kernel_size[s] == kernel[s + 2]) continue;
    cut->begin.push_back(taps.begin), cut->end.push_back(taps.end), cut->strides.push_back(1);
    if (!cut->axes) cut->axes.emplace();
    cut->axes->push_back(static_cast<int64_t>(s) + 2);
  }
  if (cut->begin.empty()) return nullptr;
  Expr part = typed_call("strided_slice", {weight}, seal(std::move(cut)));
  return typed_call(e.callee.as<OpNode>()->name, {data, part}, seal(std::move(a)));
}

bool is_convolution(const Call& e) {
  const auto* op = e.callee.as<OpNode>();
  if (!op || (op->name != "nn.conv1d" && op->name != "nn.conv2d" && op->name != "nn.conv3d")) return false;
  const ConvAttrs& a = ops::attrs_as<ConvAttrs>(e.attrs);
  Ints image = shape_of(e.args[0]), kernel = shape_of(e.args[1]);
  if (image.size() < 3 || image.size() != kernel.size() || a.pad_value != 0) return false;
  const std::string letters = ops::spatial_letters(static_cast<int>(image.size()) - 2);
  auto is = [&](const std::string& layout, const char* channels) {
    return layout.empty() || layout == channels + letters;
  };
  return is(a.data_layout, "NC") && is(a.kernel_layout, "OI") && is(a.out_layout, "NC");
}

class Cropper final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr same = visit_default(e);
    if (!is_convolution(*e)) return same;
    const auto* call = same.as<Call>();
    Expr result = cropped(*e, call->args[0], call->args[1]);
    return result ? result : same;
  }
};

}  // namespace

Ref<Function> crop_kernels(const Ref<Function>& function) { return Cropper().visit_as(function); }

}  // namespace lathe::relay
