#include "core/relay/passes/recognize_norms.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }

/// A mean that keeps its axes.
struct Mean {
  Expr of;
  Ints axes;
};

std::optional<Mean> mean_of(const Expr& e) {
  const Call* call = call_of(e, "mean");
  const ReduceAttrs* attrs = call ? call->attrs.as<ReduceAttrs>() : nullptr;
  if (!attrs || !attrs->keepdims || attrs->exclude || !attrs->axis) return std::nullopt;
  return Mean{call->args[0], *attrs->axis};
}

/// x when e is its square.
Expr squared(const Expr& e) {
  if (const Call* product = call_of(e, "multiply"))
    // By address: equal expressions have been made one (eliminate_common_subexpr).
    return product->args[0] == product->args[1] ? product->args[0] : Expr();
  const Call* power = call_of(e, "power");
  return power && is_filled_with(power->args[1], 2) ? power->args[0] : Expr();
}

/// The root's argument when e is 1 / sqrt of it.
Expr inverse_root_of(const Expr& e) {
  if (const Call* root = call_of(e, "rsqrt")) return root->args[0];
  const Call* quotient = call_of(e, "divide");
  if (!quotient || !is_filled_with(quotient->args[0], 1)) return {};
  const Call* root = call_of(quotient->args[1], "sqrt");
  return root ? root->args[0] : Expr();
}

/// value / sqrt(radicand), in whichever way it is written.
struct Scaled {
  Expr value, radicand;
};

/// x / sqrt(y), x * rsqrt(y) or x * (1 / sqrt(y)), in either order.
std::optional<Scaled> scaled_by_root(const Expr& e, const Call& call) {
  if (call_of(e, "divide")) {
    const Call* root = call_of(call.args[1], "sqrt");
    return root ? std::optional(Scaled{call.args[0], root->args[0]}) : std::nullopt;
  }
  // Exporters write either.
  for (int side : {0, 1})
    if (Expr radicand = inverse_root_of(call.args[1 - side])) return Scaled{call.args[side], radicand};
  return std::nullopt;
}

/// The x of which `e` is x less its mean over `axes`.
Expr centred(const Expr& e, const Ints& axes) {
  const Call* difference = call_of(e, "subtract");
  std::optional<Mean> mean = difference ? mean_of(difference->args[1]) : std::nullopt;
  return mean && mean->of == difference->args[0] && mean->axes == axes ? mean->of : Expr();
}

/// value / sqrt(mean(value^2) + epsilon)
Expr standardized(const Expr& e, const Call& call) {
  std::optional<Scaled> scaled = scaled_by_root(e, call);
  const Call* sum = scaled ? call_of(scaled->radicand, "add") : nullptr;
  if (!sum || !type_of(e).dtype.is_float()) return nullptr;
  for (int side : {0, 1}) {
    // Equal expressions are one node, so that "the same value" is ==.
    std::optional<double> epsilon = filled_value(sum->args[1 - side]);
    std::optional<Mean> mean = mean_of(sum->args[side]);
    if (!epsilon || !mean || squared(mean->of) != scaled->value) continue;
    Expr x = centred(scaled->value, mean->axes);
    bool center = static_cast<bool>(x);
    if (!center) x = scaled->value;
    // An epsilon of a higher rank would broadcast x.
    if (!structural_equal(e->checked_type, x->checked_type)) return nullptr;
    return typed_call("nn.standardize", {x}, make<StandardizeAttrs>(mean->axes, *epsilon, center));
  }
  return nullptr;
}

/// `vector` with each element as often as there are channels in a group.
Expr of_channels(const Expr& vector, int64_t channels_of_group) {
  return typed_call("repeat", {vector}, make<RepeatAttrs>(channels_of_group, int64_t{0}));
}

/// reshape(instance_norm(reshape(x)))
Expr group_norm(const Expr& e, const Call& call) {
  const Call* norm = call_of(call.args[0], "nn.instance_norm");
  const Call* grouped = norm ? call_of(norm->args[0], "reshape") : nullptr;
  // The reshape behind gives back what the one before took.
  if (!grouped || !structural_equal(e->checked_type, grouped->args[0]->checked_type)) return nullptr;
  const Expr& x = grouped->args[0];
  const auto* given = norm->attrs.as<NormAttrs>();
  NormAttrs attrs = given ? *given : NormAttrs();
  if (!has_constant_shape(type_of(x)) || !has_constant_shape(type_of(norm->args[0])) || attrs.axis != 1)
    return nullptr;
  std::vector<int64_t> shape = constant_shape(type_of(x)), groups = constant_shape(type_of(norm->args[0]));
  if (shape.size() < 3 || groups.size() < 3 || shape[0] != groups[0] || groups[1] < 1 ||
      shape[1] % groups[1] != 0)
    return nullptr;
  // Exporters write ones and zeros here, and the real scale of each channel as a product behind.
  bool scale = attrs.scale && !is_filled_with(norm->args[1], 1),
       center = attrs.center && !is_filled_with(norm->args[2], 0);
  int64_t each = shape[1] / groups[1];
  return typed_call("nn.group_norm", {x, of_channels(norm->args[1], each), of_channels(norm->args[2], each)},
                    make<NormAttrs>(groups[1], int64_t{1}, attrs.epsilon, center, scale));
}

struct Rule {
  std::string_view op;
  Expr (*norm)(const Expr& e, const Call& call);  // null: none
};
constexpr Rule kRules[] = {{"divide", standardized}, {"multiply", standardized}, {"reshape", group_norm}};

class Recognize final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    // Operands are rewritten already; a norm inside a norm is found all the same.
    Expr call = ExprMutator::visit_default(e);
    for (const Rule& rule : kRules)
      if (call_of(call, rule.op))
        if (Expr norm = rule.norm(call, *call.as<Call>())) return norm;
    return call;
  }
};

}  // namespace

Ref<Function> recognize_norms(const Ref<Function>& function) { return Recognize().visit_as(function); }

}  // namespace lathe::relay
