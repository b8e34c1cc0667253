// Dense layers with packed weights.
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

/// The operands of a dense layer. A flattened image of blocked channels stays in that order, and the columns
/// of constant weights follow it.
std::pair<Expr, Expr> flattened_in_blocks(BlockedGraph& graph, const Call& e) {
  Expr data = e.args[0], kernel = graph.visit(e.args[1]);
  std::pair<Expr, Expr> usual{graph.visit(data), kernel};
  const Call* flatten = data.as<Call>();
  const Constant* weights = kernel.as<Constant>();
  if (!flatten || !weights || !flatten->callee.as<OpNode>()) return usual;
  if (op_name(*flatten) != "nn.batch_flatten" && op_name(*flatten) != "reshape") return usual;
  const TensorType *image = tensor_type_of(flatten->args[0]), *flat = tensor_type_of(data);
  Blocked blocked = graph.found(flatten->args[0]);
  if (!blocked.block || !blocked.is_whole()) return usual;
  if (!image || !flat || !has_constant_shape(*image) || flat->shape.size() != 2) return usual;
  Ints shape = constant_shape(*image);
  int64_t columns = shape[1] * shape[2] * shape[3];
  if (!is_shape(data, {shape[0], columns})) return usual;
  int64_t rows = weights->value.shape()[0];
  Tensor moved = transform_layout(weights->value.reshaped({rows, shape[1], shape[2], shape[3]}),
                                  Layout::parse("NCHW"), Layout::parse(data_layout(blocked.block)));
  return {reshaped(blocked.expr, {shape[0], columns}), typed_constant(moved.reshaped({rows, columns}))};
}

}  // namespace

Blocked pack_dense(BlockedGraph& graph, const Ref<Call>& e) {
  const TensorType* weight = tensor_type_of(e->args[1]);
  int64_t products = products_at_once(*e), block = 0;
  if (weight && has_constant_shape(*weight))
    block = dense_block_for(int_value(weight->shape[0]), graph.blocks.lanes(), products);
  const DenseAttrs& a = ops::attrs_as<DenseAttrs>(e->attrs);
  if (!block || !a.weight_layout.empty()) return {};
  auto altered = mutate(a);
  altered->weight_layout = fmt::format("NC{}n", block);
  auto [data, kernel] = flattened_in_blocks(graph, *e);
  if (products > 1 && int_value(weight->shape[1]) % products == 0)
    altered->weight_layout += fmt::format("{}c", products);
  Expr packed = transform(kernel, "NC", altered->weight_layout);
  return {typed_call("nn.contrib_dense_pack", {data, packed}, seal(std::move(altered)))};
}

}  // namespace lathe::relay
