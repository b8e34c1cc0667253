#include "core/relay/passes/canonicalize_ops.h"

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
};

}  // namespace

Module canonicalize_ops(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return Canonicalizer().visit_as(function); });
}

}  // namespace lathe::relay
