#include "core/relay/passes/keep_images.h"

#include <map>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/calls.h"
#include "core/relay/functor.h"
#include "core/relay/ops/rule.h"

namespace lathe::relay {
namespace {

using ops::attrs_as;

/// The axis of an image that one of (n, c, w) becomes.
int64_t axis_of_image(int64_t axis) {
  axis = axis < 0 ? axis + 3 : axis;
  return axis < 2 ? axis : axis + 1;
}

size_t rank_of(const Expr& e) {
  const TensorType* type = e->checked_type ? e->checked_type.as<TensorType>() : nullptr;
  return type ? type->shape.size() : SIZE_MAX;
}

Expr expanded(const Expr& e, int64_t axis) {
  return typed_call("expand_dims", {e}, make<ExpandDimsAttrs>(axis, int64_t{1}));
}

/// visit() gives each expression with the shape it had; `images_` remembers those that are known as images.
/// What visit() gives of those is left unused, and vanishes, where all users take the image.
class KeepImages final : public ExprMutator {
  Expr visit_call(const Ref<Call>& e) override {
    const auto* op = e->callee.as<OpNode>();
    if (!op) return visit_default(e);
    if (op->name == "squeeze" && rank_of(e->args[0]) == 4 &&
        attrs_as<SqueezeAttrs>(e->attrs).axis == std::optional(Ints{2}))
      return row_of(e, visit(e->args[0]));
    if (op->name == "expand_dims" && is_image(e->args[0])) {
      const auto& a = attrs_as<ExpandDimsAttrs>(e->attrs);
      if (a.axis == 2 && a.num_newaxis == 1) return image_of(e->args[0]);
    }
    if (rank_of(e) == 3)
      if (Expr image = of_images(*e, op->row())) return row_of(e, image);
    return visit_default(e);
  }

  /// A part of what is split.
  Expr visit_projection(const Ref<Projection>& e) override {
    const Call* call = call_of(e->tuple, "split");
    if (!call || !is_image(call->args[0])) return visit_default(e);
    Expr& parts = split_[call];
    if (!parts) {
      auto a = mutate(attrs_as<SplitAttrs>(call->attrs));
      a->axis = axis_of_image(a->axis);
      parts = typed_call("split", {image_of(call->args[0])}, seal(std::move(a)));
    }
    return row_of(e, typed_projection(parts, e->index));
  }

  bool is_image(const Expr& original) const { return images_.count(original.get()) > 0; }

  Expr row_of(const Expr& original, const Expr& image) {
    images_[original.get()] = image;
    return typed_call("squeeze", {image}, make<SqueezeAttrs>(std::optional(Ints{2})));
  }

  Expr image_of(const Expr& original) {
    const auto found = images_.find(original.get());
    if (found != images_.end()) return found->second;
    // Once for all users.
    Expr& image = converted_[original.get()];
    if (!image) image = expanded(visit(original), 2);
    return image;
  }

  /// What broadcasts against images as `arg` does against (n, c, w).
  Expr operand(const Expr& arg) {
    const size_t rank = rank_of(arg);
    return rank == 3 ? image_of(arg) : rank == 2 ? expanded(visit(arg), 1) : visit(arg);
  }

  /// The call on images; null when none of its operands is one, or it cannot be.
  Expr of_images(const Call& e, const Op& op) {
    switch (op.layout) {
      case LayoutRule::kElementwise:
        return element_by_element(e, op, e.attrs);
      case LayoutRule::kSlope:
        return slope(e, op);
      case LayoutRule::kConcatenation:
        return concatenation(e);
      case LayoutRule::kPadding:
        return padding(e);
      case LayoutRule::kSlice:
        return slice(e);
      case LayoutRule::kReduction:
        return reduction(e);
      default:
        return {};
    }
  }

  Expr element_by_element(const Call& e, const Op& op, const Attrs& attrs) {
    bool any = false;
    for (const Expr& arg : e.args) {
      any |= is_image(arg);
      if (rank_of(arg) > 3) return {};
    }
    if (!any) return {};
    std::vector<Expr> args;
    for (const Expr& arg : e.args) args.push_back(operand(arg));
    return typed_call(op.name, args, attrs);
  }

  /// Of one number for each place along an axis.
  Expr slope(const Call& e, const Op& op) {
    const int64_t axis = attrs_as<ChannelAttrs>(e.attrs).axis;
    return element_by_element(e, op, make<ChannelAttrs>(axis_of_image(axis)));
  }

  Expr concatenation(const Call& e) {
    const Tuple* parts = e.args[0].as<Tuple>();
    bool any = false;
    if (!parts) return {};
    for (const Expr& part : parts->items) any |= is_image(part);
    if (!any) return {};
    std::vector<Expr> items;
    for (const Expr& part : parts->items) items.push_back(image_of(part));
    return typed_call("concatenate", {typed_tuple(items)},
                      make<ConcatenateAttrs>(axis_of_image(attrs_as<ConcatenateAttrs>(e.attrs).axis)));
  }

  Expr padding(const Call& e) {
    if (!is_image(e.args[0])) return {};
    auto a = mutate(attrs_as<PadAttrs>(e.attrs));
    a->pad_width.insert(a->pad_width.begin() + 2, Ints{0, 0});
    return typed_call("nn.pad", {image_of(e.args[0]), visit(e.args[1])}, seal(std::move(a)));
  }

  Expr slice(const Call& e) {
    auto a = mutate(attrs_as<StridedSliceAttrs>(e.attrs));
    if (!is_image(e.args[0]) || !a->axes) return {};
    for (int64_t& axis : *a->axes) axis = axis_of_image(axis);
    return typed_call("strided_slice", {image_of(e.args[0])}, seal(std::move(a)));
  }

  Expr reduction(const Call& e) {
    auto a = mutate(attrs_as<ReduceAttrs>(e.attrs));
    if (!is_image(e.args[0]) || !a->axis || a->exclude || !a->keepdims) return {};
    for (int64_t& axis : *a->axis) axis = axis_of_image(axis);
    return typed_call(e.callee.as<OpNode>()->name, {image_of(e.args[0])}, seal(std::move(a)));
  }

  std::map<const Node*, Expr> images_, converted_, split_;
};

}  // namespace

Ref<Function> keep_images(const Ref<Function>& function) { return KeepImages().visit_as(function); }

}  // namespace lathe::relay
