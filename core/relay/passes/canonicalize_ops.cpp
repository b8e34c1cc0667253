#include "core/relay/passes/canonicalize_ops.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

class Canonicalizer final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr rebuilt = visit_default(e);
    const auto* call = rebuilt.as<Call>();
    const auto* op = call->callee.as<OpNode>();
    if (!op || op->name != "nn.bias_add") return rebuilt;
    const auto* attrs = call->attrs.as<ChannelAttrs>();
    auto rank = static_cast<int64_t>(call->args[0]->checked_type.as<TensorType>()->shape.size());
    int64_t axis = attrs ? attrs->axis : 1;
    int64_t after = rank - 1 - (axis < 0 ? axis + rank : axis);
    Expr bias = call->args[1];
    if (after > 0) bias = typed_call("expand_dims", {bias}, make<ExpandDimsAttrs>(int64_t{1}, after));
    return typed_call("add", {call->args[0], bias});
  }
};

}  // namespace

Module canonicalize_ops(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return Canonicalizer().visit_as(function); });
}

}  // namespace lathe::relay
