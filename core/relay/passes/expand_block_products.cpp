#include "core/relay/passes/expand_block_products.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/narrow_costs.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

class Expander final : public ExprMutator {
 public:
  explicit Expander(const Target& target) : target_(target) {}

 private:
  Expr visit_call(const Ref<Call>& e) override {
    Expr rebuilt = visit_default(e);
    const Call* call = call_of(rebuilt, "nn.block_dense");
    return call && pays(*call) ? expanded(*call) : rebuilt;
  }

  bool pays(const Call& call) const {
    const auto& weight = *call.args[1]->checked_type.as<TensorType>();
    if (!has_constant_shape(weight)) return true;  // a weight that a run computes
    const Ints shape = constant_shape(weight);
    const int64_t real_bytes = shape[0] * shape[1] * shape[2] * kFloat32.bytes();
    return real_bytes < far_bytes(target_) || has_many_rows(Expr(&call), target_);
  }

  static Expr expanded(const Call& call) {
    const auto& scale = *call.args[2]->checked_type.as<TensorType>();
    const Expr scales =
        typed_call("expand_dims", {call.args[2]}, make<ExpandDimsAttrs>(int64_t{2}, int64_t{1}));
    const Expr weight = typed_call("multiply", {cast(call.args[1], scale.dtype), scales});
    // (columns, blocks, numbers) as (columns, blocks * numbers).
    const Expr matrix = typed_call("reshape", {weight}, make<ReshapeAttrs>(Ints{0, -1}, false));
    return typed_call("nn.dense", {call.args[0], matrix}, make<DenseAttrs>());
  }

  const Target& target_;
};

}  // namespace

Module expand_block_products(const Module& module, const Target& target) {
  return map_functions(module,
                       [&](const Ref<Function>& function) { return Expander(target).visit_as(function); });
}

}  // namespace lathe::relay
