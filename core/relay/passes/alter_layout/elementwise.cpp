// Operators that treat each element alike, or each channel.
#include <cmath>

#include "core/relay/analysis/call_type.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"

namespace lathe::relay {
namespace {

/// An operand that broadcasts against data in blocks. `fill`: what it holds for the channels beyond; not a
/// number when that is not one known number.
struct Operand {
  Expr expr;
  double fill = NAN;
};

/// The operand as `arg` broadcasts against (N, C, H, W), of `data`; null when there is none.
Operand broadcastable(BlockedGraph& graph, const Expr& arg, const Blocked& data) {
  const TensorType* type = tensor_type_of(arg);
  if (!type) return {};
  size_t rank = type->shape.size();
  // A scalar is its own fill.
  if (rank == 0) {
    const Constant* c = arg.as<Constant>();
    return {graph.visit(arg), c ? c->value.value(0) : NAN};
  }
  if (rank == 4 && channels_of(arg) == data.channels) {
    Blocked blocked = graph.as_blocked(arg, data.block);
    return {blocked.expr, blocked.fill};
  }
  if (is_shape(arg, {data.channels, 1, 1})) return {blocked_vector(graph.visit(arg), data), 0};
  if (rank == 3 && is_int(type->shape[0], data.channels))
    return {transform(extended(graph.visit(arg), 0, data.padded()), "CHW", fmt::format("CHW{}c", data.block)),
            0};
  if (rank >= 3 && !is_int(type->shape[rank - 3], 1)) return {};
  // (1, H, W), (H, W) or (W) get an axis of 1 for the channels of a block.
  return {typed_call("expand_dims", {graph.visit(arg)},
                     make<ExpandDimsAttrs>(static_cast<int64_t>(rank)))};  // the same for all channels
}

/// What the operator gives for the channels beyond; not a number when that is not one known number.
double fill_of(const Call& e, const std::vector<Operand>& operands) {
  std::vector<Expr> scalars;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (std::isnan(operands[i].fill)) return NAN;
    // Found by running the operator on these scalars: exp gives 1 beyond the channels, 0 / 0 no number.
    scalars.push_back(typed_constant(full({}, tensor_type_of(e.args[i])->dtype, operands[i].fill)));
  }
  return interpret_closed({typed_call(op_name(e), scalars, e.attrs)})[0].value(0);
}

bool has_channels_second(const Call& e) {
  int64_t axis = ops::attrs_as<ChannelAttrs>(e.attrs).axis;
  return axis == 1 || axis == -3;
}

}  // namespace

Blocked block_elementwise(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked result{{}, 0, channels_of(e)};
  for (const Expr& arg : e->args)
    // Of operands in different blocks the larger one stays; with none in blocks there is nothing to gain.
    if (channels_of(arg) == result.channels) result.block = std::max(result.block, graph.found(arg).block);
  if (!result.block) return {};
  std::vector<Operand> operands;
  std::vector<Expr> args;
  for (const Expr& arg : e->args) {
    operands.push_back(broadcastable(graph, arg, result));
    args.push_back(operands.back().expr);
    if (!args.back()) return {};
  }
  if (!result.is_whole()) result.fill = fill_of(*e, operands);
  // A convolution multiplies what is beyond by 0: infinity and NaN would come out of that.
  if (!std::isfinite(result.fill)) return {};
  result.expr = typed_call(op_name(*e), args, e->attrs);
  return result;
}

/// data + bias (C) becomes add of a bias (C/x, 1, 1, x).
Blocked block_bias(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked result = graph.found(e->args[0]);
  if (!result.block || !has_channels_second(*e)) return {};
  result.expr = typed_call("add", {result.expr, blocked_vector(graph.visit(e->args[1]), result)});
  return result;
}

/// max(x, 0) + alpha * min(x, 0), with alpha as (C/x, 1, 1, x).
Blocked block_slope(BlockedGraph& graph, const Ref<Call>& e) {
  Blocked result = graph.found(e->args[0]);
  if (!result.block || !has_channels_second(*e)) return {};
  Expr x = result.expr, zero = typed_constant(full({}, tensor_type_of(x)->dtype, 0));
  Expr alpha = blocked_vector(graph.visit(e->args[1]), result);
  Expr below = typed_call("multiply", {typed_call("minimum", {x, zero}), alpha});
  result.fill = std::max(result.fill, 0.0);
  result.expr = typed_call("add", {typed_call("nn.relu", {x}), below});
  return result;
}

}  // namespace lathe::relay
