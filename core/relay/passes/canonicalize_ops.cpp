#include "core/relay/passes/canonicalize_ops.h"

#include <algorithm>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

class Canonicalizer final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr rebuilt = visit_default(e);
    const auto* call = rebuilt.as<Call>();
    const auto* op = call->callee.as<OpNode>();
    if (op && op->name == "nn.bias_add") return bias_add(*call);
    if (op && op->name == "nn.conv1d" && ops::is_plain(ops::attrs_as<ConvAttrs>(call->attrs), 1))
      return convolution_of_rows(*call);
    if (op && op->name == "concatenate") return concatenation(rebuilt, *call);
    if (op && op->name == "tile") return repetition(rebuilt, *call);
    return rebuilt;
  }

  /// As a broadcasting add, which constant folding, fusion and layouts know how to treat.
  static Expr bias_add(const Call& call) {
    const auto* attrs = call.attrs.as<ChannelAttrs>();
    auto rank = static_cast<int64_t>(call.args[0]->checked_type.as<TensorType>()->shape.size());
    int64_t axis = attrs ? attrs->axis : 1;
    int64_t after = rank - 1 - (axis < 0 ? axis + rank : axis);
    Expr bias = call.args[1];
    if (after > 0) bias = typed_call("expand_dims", {bias}, make<ExpandDimsAttrs>(int64_t{1}, after));
    return typed_call("add", {call.args[0], bias});
  }

  /// Channels, groups and what the sum is stored as stay.
  static Expr convolution_of_rows(const Call& call) {
    auto a = mutate(ops::attrs_as<ConvAttrs>(call.attrs));
    ops::Window w = ops::window_of(a->strides, a->dilation, a->padding, 1);
    a->strides = {1, w.strides[0]};
    a->dilation = {1, w.dilation[0]};
    a->padding = {0, w.before[0], 0, w.after[0]};
    if (!a->kernel_size.empty()) a->kernel_size.insert(a->kernel_size.begin(), 1);
    a->data_layout = a->kernel_layout = a->out_layout = "";
    auto row = [](const Expr& e) {
      return typed_call("expand_dims", {e}, make<ExpandDimsAttrs>(int64_t{2}, int64_t{1}));
    };
    Expr image = typed_call("nn.conv2d", {row(call.args[0]), row(call.args[1])}, seal(std::move(a)));
    return typed_call("squeeze", {image}, make<SqueezeAttrs>(Ints{2}));
  }

  /// Of open extents with an axis of its own for each repetition, which becomes one with its extent: no place
  /// is divided by a size that a run alone knows.
  static Expr repetition(const Expr& e, const Call& call) {
    const auto& x = *call.args[0]->checked_type.as<TensorType>();
    Ints reps = ops::attrs_as<TileAttrs>(call.attrs).reps;
    const bool is_empty = std::find(reps.begin(), reps.end(), 0) != reps.end();
    if (has_constant_shape(x) || is_empty || reps.size() > x.shape.size()) return e;
    reps.insert(reps.begin(), x.shape.size() - reps.size(), 1);
    constexpr int64_t kAsItIs = 0, kWithNext = -3;
    Expr value = call.args[0];
    Ints together;
    for (size_t d = 0, axis = 0; d < reps.size(); ++d, ++axis) {
      together.push_back(reps[d] == 1 ? kAsItIs : kWithNext);
      if (reps[d] == 1) continue;
      const auto place = static_cast<int64_t>(axis++);
      value = typed_call("expand_dims", {value}, make<ExpandDimsAttrs>(place, int64_t{1}));
      value = typed_call("repeat", {value}, make<RepeatAttrs>(reps[d], place));
    }
    return typed_call("reshape", {value}, make<ReshapeAttrs>(together, false));
  }

  /// A kernel of thousands of arguments is compiled for minutes: each has registers of its own. And where it
  /// computes its parts, too, it is scheduled for as long as the square of their number says.
  static Expr concatenation(const Expr& e, const Call& call) {
    constexpr size_t kMostParts = 128, kTogether = 16;
    const auto* tuple = call.args[0].as<Tuple>();
    if (!tuple || tuple->items.size() <= kMostParts) return e;
    std::vector<Expr> parts = tuple->items;
    const auto joined = [&](size_t begin, size_t end) {
      const std::span<const Expr> some(parts.data() + begin, end - begin);
      return typed_call("concatenate", {typed_tuple({some.begin(), some.end()})}, call.attrs);
    };
    while (parts.size() > kMostParts) {
      std::vector<Expr> fewer;
      for (size_t i = 0; i < parts.size(); i += kTogether)
        fewer.push_back(joined(i, std::min(i + kTogether, parts.size())));
      parts = std::move(fewer);
    }
    return joined(0, parts.size());
  }
};

}  // namespace

Module canonicalize_ops(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return Canonicalizer().visit_as(function); });
}

}  // namespace lathe::relay
