// Dense layers with packed weights.
#include <optional>

#include "core/relay/analysis/call_type.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"

namespace lathe::relay {
namespace {

/// Whole vectors of `lanes`; else 0: schedules pad the units and pack the weights themselves, which several
/// `products` at once in a lane keep them from.
int64_t dense_block_for(int64_t units, int64_t lanes, int64_t products) {
  for (int64_t block = lanes; block >= (products > 1 ? 4 : lanes); block /= 2)
    if (units % block == 0) return block;
  return 0;
}

/// The operands of a dense layer whose data is a flattened image of blocked channels, in that order, and the
/// columns of its constant weights with it.
std::optional<std::pair<Expr, Expr>> flattened_in_blocks(BlockedGraph& graph, const Call& e) {
  const Expr& data = e.args[0];
  Expr kernel = graph.visit(e.args[1]);
  const Call* flatten = data.as<Call>();
  const Constant* weights = kernel.as<Constant>();
  if (!flatten || !weights || !flatten->callee.as<OpNode>()) return std::nullopt;
  if (op_name(*flatten) != "nn.batch_flatten" && op_name(*flatten) != "reshape") return std::nullopt;
  const TensorType *image = tensor_type_of(flatten->args[0]), *flat = tensor_type_of(data);
  Blocked blocked = graph.found(flatten->args[0]);
  if (!blocked.block || !blocked.is_whole()) return std::nullopt;
  if (!image || !flat || !has_constant_shape(*image) || flat->shape.size() != 2) return std::nullopt;
  Ints shape = constant_shape(*image);
  int64_t columns = shape[1] * shape[2] * shape[3];
  if (!is_shape(data, {shape[0], columns})) return std::nullopt;
  int64_t rows = weights->value.shape()[0];
  Tensor moved = transform_layout(weights->value.reshaped({rows, shape[1], shape[2], shape[3]}),
                                  Layout::parse("NCHW"), Layout::parse(data_layout(blocked.block)));
  return std::pair{reshaped(blocked.expr, {shape[0], columns}),
                   typed_constant(moved.reshaped({rows, columns}))};
}

}  // namespace

Blocked pack_dense(BlockedGraph& graph, const Ref<Call>& e) {
  const TensorType* weight = tensor_type_of(e->args[1]);
  int64_t products = products_at_once(*e), block = 0;
  if (weight && has_constant_shape(*weight))
    block = dense_block_for(int_value(weight->shape[0]), graph.blocks.lanes(), products);
  const DenseAttrs& a = ops::attrs_as<DenseAttrs>(e->attrs);
  if (!a.weight_layout.empty()) return {};
  std::optional<std::pair<Expr, Expr>> flattened = flattened_in_blocks(graph, *e);
  if (!block && flattened) return {typed_call("nn.dense", {flattened->first, flattened->second}, e->attrs)};
  if (!block) return {};
  auto altered = mutate(a);
  altered->weight_layout = fmt::format("NC{}n", block);
  Expr data = flattened ? flattened->first : graph.visit(e->args[0]);
  Expr kernel = flattened ? flattened->second : graph.visit(e->args[1]);
  if (products > 1 && int_value(weight->shape[1]) % products == 0)
    altered->weight_layout += fmt::format("{}c", products);
  Expr packed = transform(kernel, "NC", altered->weight_layout);
  return {typed_call("nn.contrib_dense_pack", {data, packed}, seal(std::move(altered)))};
}

}  // namespace lathe::relay
