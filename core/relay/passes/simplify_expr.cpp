#include "core/relay/passes/simplify_expr.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {
namespace {

/// The arguments when `e` calls the operator named, else null.
const Call* call_of(const Expr& e, std::string_view name) {
  const Call* call = e.as<Call>();
  const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
  return op && op->name == name ? call : nullptr;
}

bool same_type(const Expr& a, const Expr& b) { return structural_equal(a->checked_type, b->checked_type); }

/// Every element of the constant `e` is `value`.
bool is_filled_with(const Expr& e, double value) {
  const Constant* constant = e.as<Constant>();
  if (!constant) return false;
  for (int64_t i = 0; i < constant->value.size(); ++i)
    if (constant->value.value(i) != value) return false;
  return true;
}

/// The other argument of `call`, when one of them is filled with `neutral` and leaves type and value as they
/// are.
Expr drop_neutral(const Expr& e, const Call& call, double neutral, bool commutes) {
  if (is_filled_with(call.args[1], neutral) && same_type(e, call.args[0])) return call.args[0];
  if (commutes && is_filled_with(call.args[0], neutral) && same_type(e, call.args[1])) return call.args[1];
  return nullptr;
}
Expr times_one(const Expr& e, const Call& call) { return drop_neutral(e, call, 1, true); }
Expr plus_zero(const Expr& e, const Call& call) { return drop_neutral(e, call, 0, true); }
Expr minus_zero(const Expr& e, const Call& call) { return drop_neutral(e, call, 0, false); }
Expr divided_by_one(const Expr& e, const Call& call) { return drop_neutral(e, call, 1, false); }

/// reshape(reshape(x)) has the elements of x in the order of x.
Expr reshape(const Expr& e, const Call& call) {
  const Expr& x = call.args[0];
  if (same_type(e, x) && has_constant_shape(*e->checked_type.as<TensorType>())) return x;
  const Call* inner = call_of(x, "reshape");
  const TensorType& type = *e->checked_type.as<TensorType>();
  if (!inner || !has_constant_shape(type)) return nullptr;
  std::vector<int64_t> shape = constant_shape(type);
  for (int64_t dim : shape)
    if (dim == 0) return nullptr;  // 0 has another meaning there
  return typed_call("reshape", {inner->args[0]}, make<ReshapeAttrs>(shape));
}

std::vector<int64_t> axes_of(const Call& call) {
  auto rank = static_cast<int64_t>(call.args[0]->checked_type.as<TensorType>()->shape.size());
  const auto& given = call.attrs.as<TransposeAttrs>()->axes;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < rank; ++i) axes.push_back(given ? ((*given)[i] + rank) % rank : rank - 1 - i);
  return axes;
}

Expr transpose(const Expr&, const Call& call) {
  std::vector<int64_t> axes = axes_of(call);
  bool identity = true;
  for (size_t i = 0; i < axes.size(); ++i) identity &= axes[i] == static_cast<int64_t>(i);
  if (identity) return call.args[0];
  const Call* inner = call_of(call.args[0], "transpose");
  if (!inner) return nullptr;
  std::vector<int64_t> first = axes_of(*inner);
  for (int64_t& axis : axes) axis = first[axis];
  Expr composed = typed_call("transpose", {inner->args[0]}, make<TransposeAttrs>(std::optional(axes)));
  Expr shorter = transpose(composed, *composed.as<Call>());
  return shorter ? shorter : composed;
}

/// Every value of `from` is a value of `to`.
bool holds_all(DataType from, DataType to) {
  if (from == to || from.is_bool()) return true;
  if (from.code == to.code) return from.bits <= to.bits;
  if (from.code == TypeCode::kUInt && to.code == TypeCode::kInt) return from.bits < to.bits;
  if (from == kBFloat16) return to == kFloat32 || to == kFloat64;
  if (!from.is_int() || to.code != TypeCode::kFloat) return false;
  int mantissa = to.bits == 64 ? 53 : to.bits == 32 ? 24 : 11;
  return from.bits <= mantissa;
}

Expr cast(const Expr& e, const Call& call) {
  if (same_type(e, call.args[0])) return call.args[0];
  const Call* inner = call_of(call.args[0], "cast");
  if (!inner) return nullptr;
  DataType from = inner->args[0]->checked_type.as<TensorType>()->dtype;
  if (!holds_all(from, call.args[0]->checked_type.as<TensorType>()->dtype)) return nullptr;
  if (same_type(e, inner->args[0])) return inner->args[0];
  return typed_call("cast", {inner->args[0]}, call.attrs);
}

struct Rule {
  std::string_view op;
  Expr (*simpler)(const Expr& e, const Call& call);  // null: no
};
constexpr Rule kRules[] = {
    {"multiply", times_one}, {"add", plus_zero},       {"subtract", minus_zero}, {"divide", divided_by_one},
    {"reshape", reshape},    {"transpose", transpose}, {"cast", cast},
};

class Simplify : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    Expr call = ExprMutator::visit_default(e);
    for (const Rule& rule : kRules)
      if (call_of(call, rule.op))
        if (Expr simpler = rule.simpler(call, *call.as<Call>())) return simpler;
    return call;
  }
};

}  // namespace

Ref<Function> simplify_expr(const Ref<Function>& function) { return Simplify().visit_as(function); }

}  // namespace lathe::relay
