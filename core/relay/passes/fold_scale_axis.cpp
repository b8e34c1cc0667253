#include "core/relay/passes/fold_scale_axis.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/uses.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

/// A constant with one number for each channel, and 1 elsewhere: (1, c, 1, 1), (c, 1, 1) or one number.
bool scales_channels(const Expr& scale, int64_t channels, size_t axes_after) {
  const auto* c = scale.as<Constant>();
  if (!c) return false;
  const std::vector<int64_t>& shape = c->value.shape();
  if (c->value.size() == 1) return true;
  if (c->value.size() != channels || shape.size() <= axes_after) return false;
  return shape[shape.size() - 1 - axes_after] == channels;
}

class Folder final : public ExprMutator {
 public:
  explicit Folder(const Uses& uses) : uses_(uses) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    if (call_of(e, "multiply"))
      for (size_t side : {0, 1})
        if (Expr folded = scaled(e->args[side], e->args[1 - side], e->checked_type)) return folded;
    return visit_default(e);
  }

  /// `value` * scale with the scale inside, or null when it can't move.
  Expr scaled(const Expr& value, const Expr& scale, const Type& result) {
    // Another user wants the value as it was. A scale that broadcasts the value to a larger shape is more
    // than a scale.
    if (!scale.as<Constant>() || uses_.of(value) != 1 || !structural_equal(value->checked_type, result))
      return {};
    if (const auto* add = call_of(value, "add")) {
      for (size_t side : {0, 1}) {
        if (!add->args[1 - side].as<Constant>()) continue;
        // (x + c) * s = x * s + c * s.
        if (Expr inner = scaled(add->args[side], scale, result))
          // The side that is no constant takes the scale inside, and the constant is multiplied.
          return typed_call("add", {inner, typed_call("multiply", {add->args[1 - side], scale})});
      }
      return {};
    }
    if (const auto* conv = call_of(value, "nn.conv2d")) return scaled_conv(*conv, scale);
    if (const auto* dense = call_of(value, "nn.dense")) return scaled_weight(*dense, scale, 0, 1);
    return {};
  }

  /// Only where the output channel is the weight's first axis and the result's second.
  Expr scaled_conv(const Call& conv, const Expr& scale) {
    return ops::is_plain(ops::attrs_as<ConvAttrs>(conv.attrs)) ? scaled_weight(conv, scale, 2, 3) : Expr();
  }

  /// The weight's first axis is the output channel, `weight_axes_after` axes follow it; in the result
  /// `axes_after` do.
  Expr scaled_weight(const Call& call, const Expr& scale, size_t axes_after, size_t weight_axes_after) {
    const Expr& weight = call.args[1];
    const auto& shape = weight->checked_type.as<TensorType>()->shape;
    const int64_t* channels = as_int(shape[0]);
    if (!weight.as<Constant>() || !channels || !scales_channels(scale, *channels, axes_after)) return {};
    // Narrow weights are rounded already, and scales of their sums are not.
    if (weight.as<Constant>()->value.dtype() != scale.as<Constant>()->value.dtype()) return {};
    Tensor factors = scale.as<Constant>()->value;
    // (c) along the first axis of the weight; one number stays one.
    std::vector<int64_t> aligned(weight_axes_after + 1, 1);
    aligned[0] = factors.size();
    // Two constants: folded by the next pass of that name.
    Expr product = typed_call("multiply", {weight, typed_constant(factors.reshaped(aligned))});
    auto copy = mutate(call);
    copy->args[0] = visit(call.args[0]);
    copy->args[1] = product;
    return seal(std::move(copy));
  }

  const Uses& uses_;
};

}  // namespace

Module fold_scale_axis(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) {
    // Counted once, before rewriting: the folder asks about nodes of the function as it was.
    const Uses uses(function);
    return Folder(uses).visit_as(function);
  });
}

}  // namespace lathe::relay
