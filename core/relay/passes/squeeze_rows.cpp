#include "core/relay/passes/squeeze_rows.h"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/reduced_axes.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

class SqueezeRows final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    const Expr rebuilt = visit_default(e);
    const auto* call = rebuilt.as<Call>();
    const auto* op = call->callee.as<OpNode>();
    if (!op || call->args.size() != 1) return rebuilt;
    const TensorType* type = call->args[0]->checked_type.as<TensorType>();
    const int64_t ones = type ? ones_behind(*type) : 0;
    if (ones == 0) return rebuilt;
    const auto rank = static_cast<int64_t>(type->shape.size());
    Expr squeezed;
    if (call->attrs.as<SoftmaxAttrs>())
      squeezed = softmax(*call, op->name, rank, ones);
    else if (call->attrs.as<ReduceAttrs>())
      squeezed = reduction(call->args[0], op->name, call->attrs, rank, ones);
    else if (const char* name = reduction_of(op->name, type->dtype))
      squeezed =
          reduction(call->args[0], name, ops::global_reduction(call->attrs, type->shape.size()), rank, ones);
    return squeezed ? squeezed : rebuilt;
  }

  /// How many axes of one are the last, behind others.
  static int64_t ones_behind(const TensorType& type) {
    const auto longer = std::find_if(type.shape.rbegin(), type.shape.rend(),
                                     [](const lathe::Expr& extent) { return !is_int(extent, 1); });
    return longer == type.shape.rend() ? 0 : longer - type.shape.rbegin();
  }

  /// What a global pool is; null: no such. Of integers pools round otherwise than means.
  static const char* reduction_of(std::string_view op, DataType dtype) {
    if (op.starts_with("nn.global_max_pool")) return "max";
    return op.starts_with("nn.global_avg_pool") && dtype.is_float() ? "mean" : nullptr;
  }

  static Expr without_last(const Expr& x, int64_t rank, int64_t ones) {
    Ints last(static_cast<size_t>(ones));
    std::iota(last.begin(), last.end(), rank - ones);
    return typed_call("squeeze", {x}, make<SqueezeAttrs>(last));
  }

  static Expr with_ones(const Expr& x, int64_t rank, int64_t ones) {
    return ones == 0 ? x : typed_call("expand_dims", {x}, make<ExpandDimsAttrs>(rank, ones));
  }

  /// Null where it is along one of the axes of one.
  static Expr softmax(const Call& call, const std::string& name, int64_t rank, int64_t ones) {
    const int64_t given = ops::attrs_as<SoftmaxAttrs>(call.attrs).axis,
                  axis = given < 0 ? given + rank : given;
    if (axis >= rank - ones) return nullptr;
    const Expr rows = without_last(call.args[0], rank, ones);
    return with_ones(typed_call(name, {rows}, make<SoftmaxAttrs>(axis)), rank - ones, ones);
  }

  /// Null where it is none of rows, which is that of no axes (null attributes) or of those of one alone.
  static Expr reduction(const Expr& x, const std::string& name, const Attrs& attrs, int64_t rank,
                        int64_t ones) {
    if (!attrs) return nullptr;
    auto squeezed = mutate(ops::attrs_as<ReduceAttrs>(attrs));
    Ints axes = ops::reduced_axes(squeezed->axis, squeezed->exclude, static_cast<size_t>(rank));
    const auto behind = std::lower_bound(axes.begin(), axes.end(), rank - ones);
    const int64_t kept = squeezed->keepdims ? ones : ones - (axes.end() - behind);
    axes.erase(behind, axes.end());
    if (axes.empty()) return nullptr;
    const int64_t left = squeezed->keepdims ? rank - ones : rank - ones - static_cast<int64_t>(axes.size());
    squeezed->axis = axes;
    squeezed->exclude = false;
    return with_ones(typed_call(name, {without_last(x, rank, ones)}, seal(std::move(squeezed))), left, kept);
  }
};

}  // namespace

Module squeeze_rows(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return SqueezeRows().visit_as(function); });
}

}  // namespace lathe::relay
