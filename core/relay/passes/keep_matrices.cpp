#include "core/relay/passes/keep_matrices.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

/// The sizes of `e`; empty where they are not all known, for 0 means something else in a reshape, or `e` is a
/// number.
Ints sizes_of(const Expr& e) {
  const auto* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  if (!type || !has_constant_shape(*type)) return {};
  Ints sizes = constant_shape(*type);
  return std::find(sizes.begin(), sizes.end(), 0) == sizes.end() ? sizes : Ints{};
}

Expr reshaped(const Expr& e, Ints shape) {
  return sizes_of(e) == shape ? e : typed_call("reshape", {e}, make<ReshapeAttrs>(std::move(shape)));
}

/// visit() gives each expression with the shape it had; `matrices_` remembers those that are known as
/// matrices. What visit() gives of those is left unused, and vanishes, where all users take the matrix.
class KeepMatrices final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    // Operands first: which of them are matrices is known then.
    const Expr rebuilt = visit_default(e);
    const auto* op = e->callee.as<OpNode>();
    if (!op) return rebuilt;
    if (op->name == "reshape") return reshape(e, rebuilt);
    const bool by_element = op->row().layout == LayoutRule::kElementwise;
    if (sizes_of(e).size() == 2 && (op->row().product || (by_element && reads_result(*e))))
      results_.insert(e.get());
    if (by_element)
      if (Expr matrix = element_by_element(*e, op->row())) return kept(e, matrix);
    return rebuilt;
  }

  bool reads_result(const Call& e) const {
    return std::any_of(e.args.begin(), e.args.end(),
                       [&](const Expr& arg) { return results_.count(arg.get()) > 0; });
  }

  Expr reshape(const Ref<Call>& e, const Expr& rebuilt) {
    const Expr& given = e->args[0];
    const Expr matrix = results_.count(given.get()) ? visit(given) : matrix_of(given);
    const Ints shape = sizes_of(e);
    if (!matrix || shape.empty()) return rebuilt;
    if (shape.size() > 2 && shape.back() == sizes_of(matrix).back()) return kept(e, matrix);
    return reshaped(matrix, shape);
  }

  Expr kept(const Expr& original, const Expr& matrix) {
    matrices_[original.get()] = matrix;
    return reshaped(matrix, sizes_of(original));
  }

  Expr matrix_of(const Expr& original) const {
    const auto found = matrices_.find(original.get());
    return found == matrices_.end() ? Expr() : found->second;
  }

  /// The call on matrices; null when none of its operands is one, or it cannot be.
  Expr element_by_element(const Call& e, const Op& op) {
    const Ints shape = sizes_of(Expr(&e));
    Ints rows_and_columns;
    // Operands of full rank may be larger than others, not than the result.
    for (const Expr& arg : e.args)
      if (const Expr matrix = matrix_of(arg); matrix && sizes_of(arg) == shape)
        rows_and_columns = sizes_of(matrix);
    if (rows_and_columns.empty()) return {};
    std::vector<Expr> args;
    for (const Expr& arg : e.args) {
      Expr as_matrix = operand(arg, shape, rows_and_columns);
      if (!as_matrix) return {};
      args.push_back(as_matrix);
    }
    return typed_call(op.name, args, e.attrs);
  }

  /// What broadcasts against a matrix as `arg` does against `shape`; null where nothing does.
  Expr operand(const Expr& arg, const Ints& shape, const Ints& rows_and_columns) {
    if (const auto* type = arg->checked_type.as<TensorType>(); type && type->shape.empty()) return visit(arg);
    const Ints sizes = sizes_of(arg);
    if (sizes.empty()) return {};
    if (sizes == shape) {
      const Expr matrix = matrix_of(arg);
      return matrix ? matrix : reshaped(visit(arg), rows_and_columns);
    }
    const bool is_row = std::all_of(sizes.begin(), sizes.end() - 1, [](int64_t size) { return size == 1; });
    return is_row ? reshaped(visit(arg), {sizes.back()}) : Expr();
  }

  std::unordered_map<const Node*, Expr> matrices_;
  std::unordered_set<const Node*> results_;  // of products, and what is computed of these element by element
};

}  // namespace

Ref<Function> keep_matrices(const Ref<Function>& function) { return KeepMatrices().visit_as(function); }

}  // namespace lathe::relay
