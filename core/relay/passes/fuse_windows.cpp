#include "core/relay/passes/fuse_windows.h"

#include <algorithm>

#include "core/relay/analysis/calls.h"
#include "core/relay/analysis/uses.h"
#include "core/relay/functor.h"
#include "core/relay/op.h"
#include "core/relay/ops/attrs_nn.h"

namespace lathe::relay {
namespace {

/// A convolution of so few input channels costs little even where it is computed twice.
constexpr int64_t kFewChannels = 16;

/// The primitive function that `e` calls, or null.
const Function* primitive_callee(const Expr& e) {
  const auto* call = e.as<Call>();
  const auto* function = call ? call->callee.as<Function>() : nullptr;
  return function && function->attrs.primitive ? function : nullptr;
}

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

/// Operators of a primitive function that dominate it, operands first.
std::vector<const Call*> anchors_of(const Function& function) {
  std::vector<const Call*> anchors;
  post_order(function.body, [&](const NodeRef& node) {
    // In post-order, so the last is the one whose results leave the function.
    const auto* call = node.as<Call>();
    const Op* op = call ? operator_of(Expr(call)) : nullptr;
    if (op && op->fusion >= Fusion::kReduction) anchors.push_back(call);
  });
  return anchors;
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

/// How often `param` is an operand in `body`.
size_t uses_of(const Expr& body, const Expr& param) {
  size_t uses = 0;
  post_order(body, [&](const NodeRef& node) {
    const auto* call = node.as<Call>();
    if (call) uses += static_cast<size_t>(std::count(call->args.begin(), call->args.end(), param));
    if (const auto* tuple = node.as<Tuple>())
      uses += static_cast<size_t>(std::count(tuple->items.begin(), tuple->items.end(), param));
  });
  return uses;
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
        return joined(visited.cast<Call>(), i);
    }
    return visited;
  }

  /// `function` with parameters of its own: other calls may share it, and keep theirs.
  static Ref<Function> with_fresh_params(const Function& function) {
    auto copy = mutate(function);
    std::unordered_map<const Node*, Expr> fresh;
    for (Var& param : copy->params) {
      Var own = seal(mutate(*param));
      fresh[param.get()] = own;
      param = own;
    }
    copy->body = substitute(function.body, fresh);
    return seal(std::move(copy));
  }

  /// `call` with the function that gives argument `i` inside its own.
  static Expr joined(const Ref<Call>& call, size_t i) {
    const Ref<Function> outer = with_fresh_params(*call->callee.as<Function>());
    const Call& inner = *call->args[i].as<Call>();
    const Ref<Function> given = with_fresh_params(*inner.callee.as<Function>());
    const Function &consumer = *outer, &producer = *given;
    auto function = mutate(consumer);
    function->body = substitute(consumer.body, {{consumer.params[i].get(), producer.body}});
    // Item i gives way to those of the producer: parameters and arguments alike, so they still correspond.
    auto spliced = [i](auto outer, const auto& parts) {
      auto at = outer.erase(outer.begin() + static_cast<int64_t>(i));
      outer.insert(at, parts.begin(), parts.end());
      return outer;
    };
    function->params = spliced(consumer.params, producer.params);
    std::vector<Type> types;
    for (const Var& param : function->params) types.push_back(param->checked_type);
    function->checked_type = func_type(std::move(types), consumer.result_type);
    auto result = mutate(*call);
    result->callee = seal(std::move(function));
    result->args = spliced(call->args, inner.args);
    return seal(std::move(result));
  }

  Uses uses_;
};

}  // namespace

Ref<Function> fuse_windows(const Ref<Function>& function) { return FuseWindows(function).visit_as(function); }

}  // namespace lathe::relay
