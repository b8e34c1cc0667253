#include "core/relay/analysis/calls.h"

#include "core/relay/analysis/call_type.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

const Op* operator_of(const Expr& e) {
  const Call* call = e.as<Call>();
  const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
  return op ? &op->row() : nullptr;
}

const Call* call_of(const Expr& e, std::string_view name) {
  const Call* call = e.as<Call>();
  const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
  return op && op->name == name ? call : nullptr;
}

bool is_matrix_product(const Call& call) {
  return call.attrs.as<DenseAttrs>() || call.attrs.as<MatmulAttrs>();
}

bool same_shape(const Expr& a, const Expr& b) {
  const auto *x = a->checked_type.as<TensorType>(), *y = b->checked_type.as<TensorType>();
  if (!x || !y || x->shape.size() != y->shape.size()) return false;
  for (size_t i = 0; i < x->shape.size(); ++i)
    if (!structural_equal(x->shape[i], y->shape[i])) return false;
  return true;
}

std::optional<double> filled_value(const Expr& e) {
  const Constant* constant = e.as<Constant>();
  if (!constant || constant->value.size() == 0) return std::nullopt;
  double value = constant->value.value(0);
  for (int64_t i = 1; i < constant->value.size(); ++i)
    if (constant->value.value(i) != value) return std::nullopt;
  return value;
}

bool is_filled_with(const Expr& e, double value) { return filled_value(e) == value; }

Expr cast(const Expr& e, DataType dtype) {
  return e->checked_type.as<TensorType>()->dtype == dtype ? e
                                                          : typed_call("cast", {e}, make<CastAttrs>(dtype));
}

Expr reshape(const Expr& e, std::vector<int64_t> shape) {
  return typed_call("reshape", {e}, make<ReshapeAttrs>(std::move(shape)));
}

Expr transpose(const Expr& e, std::vector<int64_t> axes) {
  return typed_call("transpose", {e}, make<TransposeAttrs>(std::optional(std::move(axes))));
}

}  // namespace lathe::relay
