#include "core/relay/passes/fuse_attention.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/uses.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/passes/join_functions.h"
#include "core/tir/machine.h"

namespace lathe::relay {
namespace {

const TensorType& type_of(const Expr& e) { return *e->checked_type.as<TensorType>(); }
/// The last axis of a tensor, of one dimension or more.
int64_t last_axis(const TensorType& type) { return static_cast<int64_t>(type.shape.size()) - 1; }

/// A product of matrices, of float32 or fewer bits, whose first operand lies in rows along what it sums.
bool is_product_of_rows(const Call& call) {
  const Op* op = operator_of(Expr(&call));
  if (!op->product || call.args.size() != 2) return false;
  const TensorType &data = type_of(call.args[0]), &other = type_of(call.args[1]);
  if (data.dtype.bits > kFloat32.bits) return false;
  const auto axes = op->product->axes(call.attrs, data.shape.size(), other.shape.size());
  return axes && last_axis(data) > 0 && axes->of_data == last_axis(data);
}

/// Of each row along the last axis.
bool is_softmax_of_rows(const Call& call) {
  const auto* attrs = call.attrs.as<SoftmaxAttrs>();
  return attrs && (attrs->axis == -1 || attrs->axis == last_axis(type_of(Expr(&call))));
}

/// Whether `e` is computed from `source` element by element, both of one shape.
bool is_elementwise(const Expr& e, const Expr& source) {
  if (e == source) return true;
  const Op* op = operator_of(e);
  if (!op || op->fusion > Fusion::kBroadcast) return false;
  const std::vector<Expr>& args = e.as<Call>()->args;
  return std::any_of(args.begin(), args.end(),
                     [&](const Expr& arg) { return same_shape(arg, e) && is_elementwise(arg, source); });
}

/// The only anchor of a primitive function, or null.
const Call* anchor_of(const Function& function) {
  const std::vector<const Call*> anchors = anchors_of(function);
  return anchors.size() == 1 ? anchors[0] : nullptr;
}

class FuseAttention final : public ExprMutator {
 public:
  FuseAttention(const Ref<Function>& function, const Target& target) : uses_(function), target_(target) {}

 private:
  Expr visit_function(const Ref<Function>& e) override {
    return e->attrs.primitive ? Expr(e) : ExprMutator::visit_default(e);
  }

  Expr visit_call(const Ref<Call>& e) override {
    const Expr visited = ExprMutator::visit_default(e);
    const Function* values = primitive_callee(visited);
    const Call* product = values ? anchor_of(*values) : nullptr;
    if (!product || !is_product_of_rows(*product)) return visited;
    // Uses are counted before rewriting; joining functions does not change them.
    const std::optional<size_t> weights = argument_for(*e, *values, product->args[0]);
    if (!weights) return visited;
    const Call& softmax_call = *e->args[*weights].as<Call>();
    const Function& softmax = *primitive_callee(e->args[*weights]);
    const Call* normalize = anchor_of(softmax);
    if (!normalize || !is_softmax_of_rows(*normalize) ||
        !pays(type_of(Expr(normalize)), type_of(Expr(product))))
      return visited;
    if (!has_whole_groups(type_of(product->args[0]))) return visited;
    const std::optional<size_t> scores = argument_for(softmax_call, softmax, normalize->args[0]);
    if (!scores) return visited;
    const Call* first = anchor_of(*primitive_callee(softmax_call.args[*scores]));
    if (!first || !is_product_of_rows(*first)) return visited;
    const Expr joined = join_argument(visited.cast<Call>(), *weights);
    return join_argument(joined.cast<Call>(), *weights + *scores);
  }

  /// The argument of `call`, to a primitive function, that is the result of another and read by nothing else
  /// than `operand`, element by element.
  std::optional<size_t> argument_for(const Call& call, const Function& function, const Expr& operand) const {
    for (size_t i = 0; i < call.args.size(); ++i) {
      const Expr param = function.params[i];
      if (primitive_callee(call.args[i]) && uses_.of(call.args[i]) == 1 && is_elementwise(operand, param) &&
          uses_of(function.body, param) == 1)
        return i;
    }
    return std::nullopt;
  }

  /// Narrow rows are multiplied two or four elements at a time: of other lengths they would be copied.
  static bool has_whole_groups(const TensorType& weights) {
    const int64_t length = dot_length(weights.dtype, weights.dtype.is_int() ? kInt32 : kFloat32);
    return length == 0 || int_value(weights.shape.back()) % length == 0;
  }

  /// Rows and columns enough for both products to be of matrices, and so many scores that all of them are far
  /// more than the second-level cache holds; and several rows of them with what softmax makes of them fit on
  /// a task's stack.
  bool pays(const TensorType& scores, const TensorType& result) const {
    constexpr int64_t kFewest = 8, kFarMore = 2;
    if (!has_constant_shape(scores) || !has_constant_shape(result)) return false;
    const Ints shape = constant_shape(scores);
    const int64_t rows = shape[shape.size() - 2], columns = shape.back(),
                  values = constant_shape(result).back(),
                  row_bytes = (columns + target_.lanes()) * scores.dtype.bytes();
    return std::min({rows, columns, values}) >= kFewest && 2 * kFewest * row_bytes <= kStackBytes &&
           shape_size(shape) * scores.dtype.bytes() >= kFarMore * target_.l2_bytes;
  }

  Uses uses_;
  const Target& target_;
};

}  // namespace

Module fuse_attention(const Module& module, const Target& target) {
  if (target.kind != "cpu") return module;
  return map_functions(module, [&](const Ref<Function>& function) {
    return FuseAttention(function, target).visit_as(function);
  });
}

}  // namespace lathe::relay
