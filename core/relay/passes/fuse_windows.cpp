#include "core/relay/passes/fuse_windows.h"

#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/uses.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_nn.h"
#include "core/relay/passes/join_functions.h"

namespace lathe::relay {
namespace {

/// A convolution of so few input channels costs little even where it is computed twice.
constexpr int64_t kFewChannels = 16;

/// A depthwise convolution or a pooling: reads each channel by itself.
bool slides_window(const Call& call) { return operator_of(Expr(&call))->slides_window; }

/// A convolution of blocked channels that sums over all of them.
bool is_dense_convolution(const Call& call) {
  const auto* attrs = call.attrs.as<ConvAttrs>();
  const bool blocked = attrs && call.args[1]->checked_type.as<TensorType>()->shape.size() >= 6;
  return blocked && attrs->groups == 1 && !slides_window(call);
}

/// Of a weight OIHW{i}{o}, or with groups of input channels innermost: 1x1; then, input channels.
bool is_pointwise(const Call& call) {
  const std::vector<lathe::Expr>& weight = call.args[1]->checked_type.as<TensorType>()->shape;
  return is_int(weight[2], 1) && is_int(weight[3], 1);
}
int64_t input_channels(const Call& call) {
  const std::vector<lathe::Expr>& weight = call.args[1]->checked_type.as<TensorType>()->shape;
  return int_value(weight[1]) * int_value(weight[4]) * (weight.size() > 6 ? int_value(weight[6]) : 1);
}

/// The parameter that `e` is computed from element by element, or null.
Var source_of(Expr e) {
  // Along first arguments: what stands second is a bias or a residual, which the window does not slide over.
  while (const auto* call = e.as<Call>()) {
    const Op* op = operator_of(e);
    if (!op || op->fusion > Fusion::kInjective) return {};
    e = call->args[0];
  }
  return e.as<VarNode>() ? e.cast<VarNode>() : Var();
}

/// Whether `producer` may be computed inside `consumer`, whose parameter `param` it gives.
bool belongs_together(const Function& producer, const Function& consumer, const Var& param) {
  // A producer may be two functions joined before (expansion and depthwise); its last anchor is what the
  // consumer reads.
  std::vector<const Call*> before = anchors_of(producer), after = anchors_of(consumer);
  if (before.empty() || after.size() != 1) return false;
  const Call &last = *before.back(), &reader = *after[0];
  // A second reader (a residual sum, say) would need the whole tensor after all.
  if (source_of(reader.args[0]) != param || uses_of(consumer.body, param) != 1) return false;
  // Behind a window 1x1 kernels alone: others would read each of its rows for several of theirs. Before one,
  // what its parts share is computed twice, which 1x1 kernels and few channels can afford; a 3x3 convolution
  // of many channels is faster by itself, in Winograd form (docs/decisions/013-window-chains.md).
  if (slides_window(last)) return is_dense_convolution(reader) && is_pointwise(reader);
  return before.size() == 1 && slides_window(reader) && is_dense_convolution(last) &&
         (is_pointwise(last) || input_channels(last) <= kFewChannels);
}

class FuseWindows : public ExprMutator {
 public:
  explicit FuseWindows(const Ref<Function>& function) : uses_(function) {}

 private:
  Expr visit_function(const Ref<Function>& e) override {
    return e->attrs.primitive ? Expr(e) : ExprMutator::visit_default(e);
  }

  Expr visit_call(const Ref<Call>& e) override {
    // Operands first: the expansion joins the depthwise convolution, then both the projection.
    Expr visited = ExprMutator::visit_default(e);
    const Function* consumer = primitive_callee(visited);
    if (!consumer) return visited;
    const Call& call = *visited.as<Call>();
    for (size_t i = 0; i < call.args.size(); ++i) {
      // Calls of fused functions alone: fuse_ops ran before.
      const Function* producer = primitive_callee(call.args[i]);
      // Uses are counted before rewriting; joining functions does not change them.
      if (producer && uses_.of(e->args[i]) == 1 &&
          belongs_together(*producer, *consumer, consumer->params[i]))
        return join_argument(visited.cast<Call>(), i);
    }
    return visited;
  }

  Uses uses_;
};

}  // namespace

Ref<Function> fuse_windows(const Ref<Function>& function) { return FuseWindows(function).visit_as(function); }

}  // namespace lathe::relay
