#include "core/relay/lower.h"

#include <algorithm>
#include <map>

#include "core/arith/simplify.h"
#include "core/relay/functor.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/ops/rule.h"
#include "core/support/stack.h"
#include "core/tir/dims.h"

namespace lathe::relay {
namespace {

using Buffers = std::vector<tir::Buffer>;

/// The value of a one-element tensor as a constant of its type.
lathe::Expr scalar_of(const Tensor& t) {
  return t.dtype().is_float() ? fimm(t.dtype(), t.value(0)) : imm(t.dtype(), t.integer(0));
}

/// In a tensor type, or a tuple of such.
size_t tensors_in(const Type& type) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return 1;
  size_t tensors = 0;
  for (const Type& item : tuple->items) tensors += tensors_in(item);
  return tensors;
}

/// Each expression becomes the buffers of its tensors, in order. A scalar constant is a buffer outside the
/// function until inline_scalars puts its value in place of the loads.
class Lowering final : public ExprFunctor<Buffers> {
 public:
  tir::Func run(const Function& function, const std::string& name) {
    for (const Var& param : function.params) {
      Type type = param->checked_type ? param->checked_type : param->annotation;
      CHECK(type, "parameter {} of {} has no type", param->name, name);
      append_inputs(param->name, type, done_[param.get()]);
    }
    Buffers results = visit(function.body), outputs;
    // Each output needs memory of its own, which the caller gives.
    for (const tir::Buffer& result : results) outputs.push_back(own(result, outputs));
    return inline_scalars(builder_.finish(name, outputs));
  }

  /// Once for each node: sharing in the graph is a buffer with several readers. Fused functions are small,
  /// constants that are folded need not be.
  Buffers visit(const Expr& e) override {
    auto found = done_.find(e.get());
    if (found != done_.end()) return found->second;
    Buffers buffers;
    with_enough_stack([&] { buffers = dispatch(e); });
    done_[e.get()] = buffers;
    return buffers;
  }

 protected:
  /// A buffer stands for the number, since an operator's meaning is written over buffers.
  Buffers visit_constant(const Ref<Constant>& e) override {
    const Tensor& value = e->value;
    if (value.size() != 1)
      fail(
          "lower: a constant of shape {} inside a fused function; only scalars may be, pass it as a "
          "parameter",
          shape_text(value.shape()));
    tir::Buffer buffer = tir::buffer("scalar", {value.shape().begin(), value.shape().end()}, value.dtype());
    scalars_[buffer.get()] = scalar_of(value);
    return {buffer};
  }

  Buffers visit_tuple(const Ref<Tuple>& e) override {
    Buffers buffers;
    for (const Expr& item : e->items) {
      Buffers part = visit(item);
      buffers.insert(buffers.end(), part.begin(), part.end());
    }
    return buffers;
  }

  /// Tuples are flattened: an item's tensors stand behind those of the items before it.
  Buffers visit_projection(const Ref<Projection>& e) override {
    Buffers all = visit(e->tuple);
    const VarNode* variable = e->tuple.as<VarNode>();
    Type type = e->tuple->checked_type || !variable ? e->tuple->checked_type : variable->annotation;
    const TupleType* tuple = type.as<TupleType>();
    CHECK(tuple && e->index >= 0 && e->index < static_cast<int64_t>(tuple->items.size()),
          "projection {} of what is no such tuple", e->index);
    size_t begin = 0;
    for (int64_t i = 0; i < e->index; ++i) begin += tensors_in(tuple->items[static_cast<size_t>(i)]);
    size_t end = begin + tensors_in(tuple->items[static_cast<size_t>(e->index)]);
    return {all.begin() + static_cast<long>(begin), all.begin() + static_cast<long>(end)};
  }

  Buffers visit_call(const Ref<Call>& e) override {
    const OpNode* op = e->callee.as<OpNode>();
    if (!op) return visit_default(e);
    if (!op->row().compute) fail("lower: operator {} has no meaning as a tensor program yet", op->name);
    CHECK(e->checked_type, "call of {} has no type: types must be inferred before lowering", op->name);
    Buffers inputs;
    for (const Expr& arg : e->args) {
      Buffers part = visit(arg);
      inputs.insert(inputs.end(), part.begin(), part.end());
    }
    return op->row().compute(builder_, e->attrs, inputs, e->checked_type);
  }

  Buffers visit_default(const Expr& e) override {
    fail("lower: a fused function holds {}, must consist of calls of operators, tuples and projections",
         e->type().name);
  }

 private:
  /// Tuples flattened, in order, as lower_function's contract says.
  void append_inputs(const std::string& name, const Type& type, Buffers& inputs) {
    if (const TupleType* tuple = type.as<TupleType>()) {
      for (const Type& item : tuple->items) append_inputs(name, item, inputs);
      return;
    }
    const TensorType* tensor = type.as<TensorType>();
    CHECK(tensor, "parameter {} of a fused function is no tensor", name);
    for (const lathe::Expr& dim : tensor->shape)
      post_order(dim, [&](const NodeRef& node) {
        if (node.as<Any>()) fail("lower: a dimension of {} is not known", name);
      });
    inputs.push_back(builder_.input(name, tensor->shape, tensor->dtype));
    params_.push_back(inputs.back());
  }

  /// `result`, or a copy when it is a parameter, a scalar or already an output.
  tir::Buffer own(const tir::Buffer& result, const Buffers& outputs) {
    auto in = [&](const Buffers& list) { return std::find(list.begin(), list.end(), result) != list.end(); };
    if (!in(outputs) && !in(params_) && !scalars_.count(result.get())) return result;
    return builder_.compute("copy", result->shape, [&](tir::Vars i) { return ops::at(result, i); });
  }

  /// Loads of scalars become their values; blocks no longer say that they read them.
  tir::Func inline_scalars(const tir::Func& func) const {
    if (scalars_.empty()) return func;
    NodeRef result = rewrite(func, [&](const NodeRef& node) -> NodeRef {
      if (const tir::Load* load = node.as<tir::Load>()) {
        auto found = scalars_.find(load->buffer.get());
        return found == scalars_.end() ? node : NodeRef(found->second);
      }
      const tir::Block* block = node.as<tir::Block>();
      auto is_scalar = [&](const tir::Region& region) { return scalars_.count(region.buffer.get()) != 0; };
      if (!block || std::none_of(block->reads.begin(), block->reads.end(), is_scalar)) return node;
      auto copy = mutate(*block);
      std::erase_if(copy->reads, is_scalar);
      return seal(std::move(copy));
    });
    return result.cast<tir::FuncNode>();
  }

  tir::FuncBuilder builder_;
  std::map<const Node*, Buffers> done_;
  std::map<const tir::BufferNode*, lathe::Expr> scalars_;
  Buffers params_;
};

/// Whether the call's result is its first argument's elements as they lie in memory.
bool keeps_order(const Call& call) {
  const OpNode* op = call.callee.as<OpNode>();
  return op && op->row().keeps_order &&
         op->row().keeps_order(call.attrs, call.args[0]->checked_type.as<TensorType>(),
                               call.checked_type.as<TensorType>());
}
/// The view that `call` is when it takes one element along the first dimension, of which the elements lie
/// together.
std::optional<View> position_taken(const Call& call, const Function& function) {
  const OpNode* op = call.callee.as<OpNode>();
  const TakeAttrs* attrs = call.attrs.as<TakeAttrs>();
  if (!op || op->name != "take" || attrs->axis != 0 || attrs->batch_dims != 0) return std::nullopt;
  const TensorType &x = *call.args[0]->checked_type.as<TensorType>(),
                   &index = *call.args[1]->checked_type.as<TensorType>();
  if (!has_constant_shape(x) || !has_constant_shape(index) || shape_size(constant_shape(index)) != 1)
    return std::nullopt;
  View view{.extent = int_value(x.shape[0])};
  auto param = std::find(function.params.begin(), function.params.end(), call.args[1]);
  if (param != function.params.end())
    view.position_param = static_cast<size_t>(param - function.params.begin());
  else if (const Constant* constant = call.args[1].as<Constant>())
    view.position = constant->value.integer(0);
  else
    return std::nullopt;
  return view;
}
}  // namespace

tir::Func lower_function(const Ref<Function>& function, const std::string& name) {
  return tir::with_simple_shapes(Lowering().run(*function, name));
}

LiftedConstants lift_constants(const Ref<Function>& function) {
  LiftedConstants result;
  auto lifted = mutate(*function);
  NodeRef body = rewrite(function->body, [&](const NodeRef& node) -> NodeRef {
    const Constant* constant = node.as<Constant>();
    if (!constant || constant->value.size() == 1) return node;
    // rewrite() visits a shared constant once, so it becomes one parameter.
    auto param = mutate(*make_var("constant", tensor_type(constant->value.shape(), constant->value.dtype())));
    param->checked_type = param->annotation;
    lifted->params.push_back(seal(std::move(param)));
    result.values.push_back(constant->value);
    return lifted->params.back();
  });
  lifted->body = body.cast<RelayNode>();
  result.function = seal(std::move(lifted));
  return result;
}

std::optional<View> find_view(const Ref<Function>& function) {
  std::optional<View> taken;
  // Arguments beyond the first (a shape, say) don't matter to the order.
  Expr e = function->body;
  while (const Call* call = e.as<Call>()) {
    if (!keeps_order(*call)) {
      // Of two positions neither would be a part that lies together.
      if (taken || !(taken = position_taken(*call, *function))) return std::nullopt;
    }
    e = call->args[0];
  }
  // Nor does what else there is, of which none but the shape is read (reshape_like).
  if (function->params.empty() || !(e == function->params[0])) return std::nullopt;
  return taken ? taken : View();
}

}  // namespace lathe::relay
