#include "core/relay/passes/simplify_inference.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

/// A vector along `axis` of a tensor of rank `rank`, as broadcasting aligns it: (c) -> (c, 1, 1).
Expr along(const Expr& vector, int64_t axis, size_t rank) {
  int64_t after = static_cast<int64_t>(rank) - 1 - (axis < 0 ? axis + static_cast<int64_t>(rank) : axis);
  return after == 0 ? vector : typed_call("expand_dims", {vector}, make<ExpandDimsAttrs>(int64_t{1}, after));
}

/// x * scale + shift. The statistics are vectors, so all but one product and one sum is computed on them.
Expr normalized(const Call& call) {
  const auto* given = call.attrs.as<NormAttrs>();
  NormAttrs attrs = given ? *given : NormAttrs();
  const Expr &x = call.args[0], &gamma = call.args[1], &beta = call.args[2], &mean = call.args[3],
             &variance = call.args[4];
  const auto& type = *x->checked_type.as<TensorType>();
  Expr epsilon = typed_constant(full({}, type.dtype, attrs.epsilon));
  // Of vectors of constants, so all of this is folded when the model is built.
  Expr scale = typed_call("rsqrt", {typed_call("add", {variance, epsilon})});
  if (attrs.scale) scale = typed_call("multiply", {scale, gamma});
  Expr shift = typed_call("negative", {typed_call("multiply", {mean, scale})});
  if (attrs.center) shift = typed_call("add", {shift, beta});
  size_t rank = type.shape.size();
  Expr scaled = typed_call("multiply", {x, along(scale, attrs.axis, rank)});
  return typed_call("add", {scaled, along(shift, attrs.axis, rank)});
}

class Simplifier final : public ExprMutator {
  /// Item 0 is the result; the others (running statistics, the mask of a dropout) belong to training.
  Expr visit_projection(const Ref<Projection>& e) override {
    Expr tuple = visit(e->tuple);
    if (e->index != 0) return visit_default(e);
    if (const Call* call = call_of(tuple, "nn.batch_norm")) return normalized(*call);
    if (const Call* call = call_of(tuple, "nn.dropout")) return call->args[0];
    return visit_default(e);
  }
  Expr visit_call(const Ref<Call>& e) override {
    // One that gives a tensor, not a pair with its mask.
    if (call_of(e, "nn.dropout") && e->checked_type.as<TensorType>()) return visit(e->args[0]);
    return visit_default(e);
  }
};

}  // namespace

Module simplify_inference(const Module& module) {
  return map_functions(module, [](const Ref<Function>& function) { return Simplifier().visit_as(function); });
}

}  // namespace lathe::relay
