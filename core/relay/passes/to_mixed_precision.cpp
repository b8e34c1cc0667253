#include "core/relay/passes/to_mixed_precision.h"

#include <algorithm>
#include <unordered_map>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

bool is_real(const Expr& e) {
  const auto* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type && type->dtype == kFloat32;
}

Expr cast(const Expr& e, DataType dtype) { return typed_call("cast", {e}, make<CastAttrs>(dtype)); }

class ToMixedPrecision final : public ExprMutator {
  /// Null: the call stays as it is, over rewritten operands.
  using Handler = Expr (ToMixedPrecision::*)(const Call& call);

  Expr visit_call(const Ref<Call>& e) override {
    static const std::pair<const char*, Handler> kHandlers[] = {
        {"nn.conv2d", &ToMixedPrecision::product<ConvAttrs>},
        {"nn.dense", &ToMixedPrecision::product<DenseAttrs>},
        {"nn.max_pool2d", &ToMixedPrecision::max_pool},
        {"nn.global_avg_pool2d", &ToMixedPrecision::global_average},
        {"add", &ToMixedPrecision::sum},
    };
    const auto* op = e->callee.as<OpNode>();
    bool real = op && is_real(e) && std::all_of(e->args.begin(), e->args.end(), is_real);
    for (const auto& [name, handler] : kHandlers)
      if (real && op->name == name)
        if (Expr mixed = (this->*handler)(*e)) return mixed;
    return visit_default(e);
  }

  /// `original` rewritten, as it is stored.
  Expr stored(const Expr& original) {
    Expr& memo = stored_[original.get()];
    if (!memo) memo = cast(visit(original), kBFloat16);
    return memo;
  }
  Expr loaded(const Expr& original) {
    Expr& memo = loaded_[original.get()];
    if (!memo) memo = cast(stored(original), kFloat32);
    return memo;
  }

  template <typename A>
  Expr product(const Call& call) {
    auto attrs = mutate(ops::attrs_as<A>(call.attrs));
    attrs->out_dtype = kFloat32;
    return typed_call(call.callee.as<OpNode>()->name, {stored(call.args[0]), stored(call.args[1])},
                      seal(std::move(attrs)));
  }

  Expr max_pool(const Call& call) {
    return cast(typed_call("nn.max_pool2d", {stored(call.args[0])}, call.attrs), kFloat32);
  }

  /// The mean, which widens while it sums.
  Expr global_average(const Call& call) {
    const std::string& layout = ops::attrs_as<AdaptivePoolAttrs>(call.attrs).layout;
    if (!layout.empty() && layout != "NCHW") return {};
    return typed_call("mean", {loaded(call.args[0])}, make<ReduceAttrs>(std::optional(Ints{2, 3}), true));
  }

  /// Of two tensors of one shape: a residual.
  Expr sum(const Call& call) {
    if (!structural_equal(call.args[0]->checked_type, call.args[1]->checked_type) ||
        call.args[0].as<Constant>() || call.args[1].as<Constant>())
      return {};
    return typed_call("add", {loaded(call.args[0]), loaded(call.args[1])});
  }

  std::unordered_map<const Node*, Expr> stored_, loaded_;  // by expression before rewriting
};

}  // namespace

Ref<Function> to_mixed_precision(const Ref<Function>& function) {
  return ToMixedPrecision().visit_as(function);
}

}  // namespace lathe::relay
