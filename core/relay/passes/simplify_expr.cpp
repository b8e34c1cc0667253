#include "core/relay/passes/simplify_expr.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

bool same_type(const Expr& a, const Expr& b) { return structural_equal(a->checked_type, b->checked_type); }

/// The other argument of `call`, when one of them is filled with `neutral` and leaves type and value as they
/// are.
Expr drop_neutral(const Expr& e, const Call& call, double neutral, bool commutes) {
  if (is_filled_with(call.args[1], neutral) && same_type(e, call.args[0])) return call.args[0];
  if (commutes && is_filled_with(call.args[0], neutral) && same_type(e, call.args[1])) return call.args[1];
  return nullptr;
}
Expr times_one(const Expr& e, const Call& call) { return drop_neutral(e, call, 1, true); }

/// Zeros of this sign alone, or integers: of floats x + 0 makes 0 of -0, as x - -0 does.
bool is_zero(const Expr& e, bool negative) {
  if (!is_filled_with(e, 0)) return false;
  const Tensor& value = e.as<Constant>()->value;
  for (int64_t i = 0; value.dtype().is_float() && i < value.size(); ++i)
    if (std::signbit(value.value(i)) != negative) return false;
  return true;
}

/// Never -0: a sum that begins with 0.
bool is_sum(const Expr& e) {
  const Op* op = operator_of(e);
  return op && op->product;
}

Expr plus_zero(const Expr& e, const Call& call) {
  for (size_t i : {0, 1}) {
    const Expr &x = call.args[1 - i], &zero = call.args[i];
    if (same_type(e, x) && (is_zero(zero, true) || (is_sum(x) && is_filled_with(zero, 0)))) return x;
  }
  return nullptr;
}
Expr minus_zero(const Expr& e, const Call& call) {
  return same_type(e, call.args[0]) && is_zero(call.args[1], false) ? call.args[0] : nullptr;
}
Expr divided_by_one(const Expr& e, const Call& call) { return drop_neutral(e, call, 1, false); }

/// x in the shape of `e`; null where that is not known, or 0 would mean something else.
Expr as_reshape(const Expr& e, const Expr& x) {
  const TensorType& type = *e->checked_type.as<TensorType>();
  if (!has_constant_shape(type)) return nullptr;
  std::vector<int64_t> shape = constant_shape(type);
  // In the attributes of `reshape`, 0 says "as in the argument".
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return nullptr;
  return typed_call("reshape", {x}, make<ReshapeAttrs>(shape));
}

/// reshape(reshape(x)) has the elements of x in the order of x.
Expr reshape(const Expr& e, const Call& call) {
  const Expr& x = call.args[0];
  if (same_type(e, x) && has_constant_shape(*e->checked_type.as<TensorType>())) return x;
  const Call* inner = call_of(x, "reshape");
  return inner ? as_reshape(e, inner->args[0]) : nullptr;
}

std::vector<int64_t> axes_of(const Call& call) {
  return ops::permutation(*call.attrs.as<TransposeAttrs>(),
                          call.args[0]->checked_type.as<TensorType>()->shape.size());
}

/// Axes of one element alone change their places: the elements keep their order.
bool moves_only_ones(const Call& call, const std::vector<int64_t>& axes) {
  const TensorType& type = *call.args[0]->checked_type.as<TensorType>();
  int64_t last = -1;
  for (int64_t axis : axes) {
    if (is_int(type.shape[static_cast<size_t>(axis)], 1)) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

/// Without effect, of a transpose, or of axes of 1 alone. Ends: each step has one transpose less.
Expr transpose(const Expr& e, const Call& call) {
  std::vector<int64_t> axes = axes_of(call);
  bool identity = true;
  for (size_t i = 0; i < axes.size(); ++i) identity &= axes[i] == static_cast<int64_t>(i);
  if (identity) return call.args[0];
  const Call* inner = call_of(call.args[0], "transpose");
  if (!inner) return moves_only_ones(call, axes) ? as_reshape(e, call.args[0]) : nullptr;
  std::vector<int64_t> first = axes_of(*inner);
  // Axis i of the result is axis axes[i] of what lies between, which is axis first[axes[i]] of x.
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
  // Integers of up to so many bits are exact.
  // With the leading bit that is not stored.
  int mantissa = to.bits == 64 ? 53 : to.bits == 32 ? 24 : 11;
  return from.bits <= mantissa;
}

/// A cast back and forth vanishes where the type between holds every value; where it does not, the first cast
/// rounds or wraps, and is part of the meaning.
Expr cast(const Expr& e, const Call& call) {
  if (same_type(e, call.args[0])) return call.args[0];
  const Call* inner = call_of(call.args[0], "cast");
  if (!inner) return nullptr;
  DataType from = inner->args[0]->checked_type.as<TensorType>()->dtype;
  if (!holds_all(from, call.args[0]->checked_type.as<TensorType>()->dtype)) return nullptr;
  if (same_type(e, inner->args[0])) return inner->args[0];
  return typed_call("cast", {inner->args[0]}, call.attrs);
}

/// The matrices before their last two axes were swapped; null when they were not, or are constants, which are
/// swapped when the model is built.
Expr unswapped(const Expr& e) {
  const Call* call = call_of(e, "transpose");
  if (!call || call->args[0].as<Constant>()) return nullptr;
  std::vector<int64_t> axes = axes_of(*call), usual(axes.size());
  std::iota(usual.begin(), usual.end(), 0);
  if (axes.size() < 2) return nullptr;
  std::swap(usual[usual.size() - 1], usual[usual.size() - 2]);
  return axes == usual ? call->args[0] : Expr();
}

/// A product of transposes reads the matrices as they lie.
template <typename A>
Expr product_of_transposes(const Call& call, const char* op, A&& attrs) {
  Expr a = unswapped(call.args[0]), b = unswapped(call.args[1]);
  if (!a && !b) return nullptr;
  // A product that transposes already, of a transpose: neither.
  attrs->transpose_a ^= static_cast<bool>(a);
  attrs->transpose_b ^= static_cast<bool>(b);
  return typed_call(op, {a ? a : call.args[0], b ? b : call.args[1]}, seal(std::move(attrs)));
}
Expr matmul(const Expr&, const Call& call) {
  return product_of_transposes(call, "nn.matmul", mutate(ops::attrs_as<MatmulAttrs>(call.attrs)));
}
Expr batch_matmul(const Expr&, const Call& call) {
  return product_of_transposes(call, "nn.batch_matmul", mutate(ops::attrs_as<BatchMatmulAttrs>(call.attrs)));
}
/// nn.dense is x w^T by definition: it has no attributes to say otherwise and becomes nn.matmul.
Expr dense(const Expr&, const Call& call) {
  const DenseAttrs& given = ops::attrs_as<DenseAttrs>(call.attrs);
  if (call.args[0]->checked_type.as<TensorType>()->shape.size() != 2 || !given.weight_layout.empty())
    return nullptr;
  auto attrs = std::make_unique<MatmulAttrs>();
  attrs->units = given.units, attrs->out_dtype = given.out_dtype, attrs->transpose_b = true;
  return product_of_transposes(call, "nn.matmul", std::move(attrs));
}

struct Rule {
  std::string_view op;
  Expr (*simpler)(const Expr& e, const Call& call);  // null: no
};
// Several may stand under one operator; the first that finds something counts, and the
// result is not tried again.
constexpr Rule kRules[] = {
    {"multiply", times_one},  {"add", plus_zero},
    {"subtract", minus_zero}, {"divide", divided_by_one},
    {"reshape", reshape},     {"transpose", transpose},
    {"cast", cast},           {"nn.dense", dense},
    {"nn.matmul", matmul},    {"nn.batch_matmul", batch_matmul},
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
