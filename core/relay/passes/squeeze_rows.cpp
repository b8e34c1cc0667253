#include "core/relay/passes/squeeze_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string_view>

#include "core/relay/analysis/call_type.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/reduced_axes.h"
#include "core/relay/ops/rule.h"
#include "core/relay/ops/window.h"

namespace lathe::relay {
namespace {

/// A call's data, of `rank` axes of which the last `ones` have one element.
struct Rows {
  const Call& call;
  std::string name;
  int64_t rank, ones;

  int64_t left() const { return rank - ones; }

  /// The axis from the front, where it is one of those that are left.
  std::optional<int64_t> kept(int64_t axis) const {
    if (axis < 0) axis += rank;
    return axis < left() ? std::optional(axis) : std::nullopt;
  }
  /// Of axes in any order, those that are left; nothing where there are none.
  std::optional<Ints> kept(const Ints& axes) const {
    Ints result;
    for (int64_t axis : axes)
      if (auto from_front = kept(axis)) result.push_back(*from_front);
    return result.empty() ? std::nullopt : std::optional(result);
  }
};

Expr without_axes(const Expr& x, int64_t first, int64_t count) {
  Ints axes(static_cast<size_t>(count));
  std::iota(axes.begin(), axes.end(), first);
  return typed_call("squeeze", {x}, make<SqueezeAttrs>(axes));
}
Expr with_ones(const Expr& x, int64_t axis, int64_t count) {
  return count == 0 ? x : typed_call("expand_dims", {x}, make<ExpandDimsAttrs>(axis, count));
}

/// The call of the squeezed data, whose result has its shape.
Expr along_rows(const Rows& rows, const Attrs& attrs) {
  std::vector<Expr> args = rows.call.args;
  args[0] = without_axes(args[0], rows.left(), rows.ones);
  return with_ones(typed_call(rows.name, args, attrs), rows.left(), rows.ones);
}

/// An operator along `axis` of its attributes, a number or numbers.
template <typename A>
Expr along(const Rows& rows, const A& attrs, auto A::*axis) {
  const auto kept = rows.kept(attrs.*axis);
  if (!kept) return nullptr;
  auto squeezed = mutate(attrs);
  (*squeezed).*axis = *kept;
  return along_rows(rows, seal(std::move(squeezed)));
}

/// A norm of channels, over what lies behind them.
Expr channel_norm(const Rows& rows, const NormAttrs& attrs) {
  constexpr int64_t kFewestAxes = 3;  // with something behind the channels
  if (rows.call.args.size() != 3 || rows.left() < kFewestAxes) return nullptr;
  return along(rows, attrs, &NormAttrs::axis);
}

/// Null where it is none of rows: of no axes, or of those of one alone.
template <typename A>
Expr reduction(const Rows& rows, const A& attrs) {
  const Ints axes = ops::reduced_axes(attrs.axis, attrs.exclude, static_cast<size_t>(rows.rank));
  const std::optional<Ints> kept = rows.kept(axes);
  if (!kept) return nullptr;
  auto squeezed = mutate(attrs);
  squeezed->axis = *kept;
  squeezed->exclude = false;
  const auto gone = static_cast<int64_t>(kept->size()), gone_ones = static_cast<int64_t>(axes.size()) - gone;
  const int64_t left = attrs.keepdims ? rows.left() : rows.left() - gone,
                ones = attrs.keepdims ? rows.ones : rows.ones - gone_ones;
  const Expr x = without_axes(rows.call.args[0], rows.left(), rows.ones);
  return with_ones(typed_call(rows.name, {x}, seal(std::move(squeezed))), left, ones);
}

/// The reduction that a global pool is. Of integers pools round otherwise than means.
Expr global_pool(Rows rows, const Attrs& attrs, DataType dtype) {
  if (!rows.name.starts_with("nn.global_")) return nullptr;
  const bool is_max = rows.name.starts_with("nn.global_max");
  const Attrs reduced = ops::global_reduction(attrs, static_cast<size_t>(rows.rank));
  if (!reduced || !(is_max || dtype.is_float())) return nullptr;
  rows.name = is_max ? "max" : "mean";
  return reduction(rows, ops::attrs_as<ReduceAttrs>(reduced));
}

/// Windows along the rows of images one pixel wide: of images one pixel high.
Expr pool(const Rows& rows, const PoolAttrs& attrs) {
  const bool is_plain = rows.rank == 4 && rows.ones == 1 &&
                        (attrs.layout.empty() || attrs.layout == "NCHW") &&
                        (attrs.out_layout.empty() || attrs.out_layout == "NCHW");
  if (!is_plain || attrs.pool_size.size() != 2 || attrs.pool_size[1] != 1) return nullptr;
  const ops::Window w = ops::window_of(attrs.strides, attrs.dilation, attrs.padding, 2);
  if (w.before[1] != 0 || w.after[1] != 0) return nullptr;
  auto turned = mutate(attrs);
  turned->pool_size = {1, attrs.pool_size[0]};
  turned->strides = {1, w.strides[0]};
  turned->dilation = {1, w.dilation[0]};
  turned->padding = {0, w.before[0], 0, w.after[0]};
  const Expr high = with_ones(without_axes(rows.call.args[0], 3, 1), 2, 1);
  return with_ones(without_axes(typed_call(rows.name, {high}, seal(std::move(turned))), 2, 1), 3, 1);
}

/// Null where the call is none of these.
Expr squeezed(const Rows& rows, DataType dtype) {
  const Attrs& attrs = rows.call.attrs;
  if (const auto* a = attrs.as<SoftmaxAttrs>()) return along(rows, *a, &SoftmaxAttrs::axis);
  if (const auto* a = attrs.as<LayerNormAttrs>()) return along(rows, *a, &LayerNormAttrs::axis);
  if (const auto* a = attrs.as<LrnAttrs>()) return along(rows, *a, &LrnAttrs::axis);
  if (const auto* a = attrs.as<StandardizeAttrs>()) return along(rows, *a, &StandardizeAttrs::axes);
  if (const auto* a = attrs.as<NormAttrs>()) return channel_norm(rows, *a);
  if (const auto* a = attrs.as<PoolAttrs>()) return pool(rows, *a);
  if (attrs.as<AdaptivePoolAttrs>()) return global_pool(rows, attrs, dtype);
  // A variance has the mean for another operand.
  if (rows.call.args.size() != 1) return nullptr;
  if (const auto* a = attrs.as<ReduceAttrs>()) return reduction(rows, *a);
  if (const auto* a = attrs.as<ArgReduceAttrs>()) return reduction(rows, *a);
  return nullptr;
}

class SqueezeRows final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    const Expr rebuilt = visit_default(e);
    const auto* call = rebuilt.as<Call>();
    const auto* op = call->callee.as<OpNode>();
    const TensorType* type =
        op && !call->args.empty() ? call->args[0]->checked_type.as<TensorType>() : nullptr;
    const int64_t ones = type ? ones_behind(*type) : 0;
    if (ones == 0) return rebuilt;
    const Expr result =
        squeezed({*call, op->name, static_cast<int64_t>(type->shape.size()), ones}, type->dtype);
    return result ? result : rebuilt;
  }

  /// How many axes of one are the last, behind others.
  static int64_t ones_behind(const TensorType& type) {
    const auto longer = std::find_if(type.shape.rbegin(), type.shape.rend(),
                                     [](const lathe::Expr& extent) { return !is_int(extent, 1); });
    return longer == type.shape.rend() ? 0 : longer - type.shape.rbegin();
  }
};

}  // namespace

Module squeeze_rows(const Module& module) {
  return map_functions(module,
                       [](const Ref<Function>& function) { return SqueezeRows().visit_as(function); });
}

}  // namespace lathe::relay
