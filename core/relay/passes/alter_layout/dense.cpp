// Dense layers with packed weights.
#include <optional>

#include "core/relay/analysis/call_type.h"
#include "core/relay/analysis/narrow_costs.h"
#include "core/relay/passes/alter_layout/blocked_graph.h"
#include "core/tir/machine.h"

namespace lathe::relay {
namespace {

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
  // Flattening blocks gives (H, W, channel) instead of (channel, H, W) within each block: the constant
  // weights are put in that order, once, and the data stays where it is. Channels beyond would be columns.
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

bool has_few_rows(const Call& e) {
  const std::optional<int64_t> rows = rows_of(*e.checked_type.as<TensorType>());
  return rows && *rows <= kPanelRows;
}

}  // namespace

Blocked pack_dense(BlockedGraph& graph, const Ref<Call>& e) {
  const TensorType* weight = tensor_type_of(e->args[1]);
  const DenseAttrs& a = ops::attrs_as<DenseAttrs>(e->attrs);
  if (!weight || !has_constant_shape(*weight) || !a.weight_layout.empty()) return {};
  std::optional<std::pair<Expr, Expr>> flattened = flattened_in_blocks(graph, *e);
  // Whole vectors of whole groups of products; schedules pad what is not, and pack it themselves. So they do
  // constants that few rows are multiplied by, in panels as wide as their tiles.
  int64_t lanes = graph.blocks.lanes(), products = products_at_once(*e);
  const bool in_panels = has_few_rows(*e) && graph.visit(e->args[1]).as<Constant>();
  if (in_panels || int_value(weight->shape[0]) % lanes != 0 || int_value(weight->shape[1]) % products != 0) {
    if (!flattened) return {};
    return {typed_call("nn.dense", {flattened->first, flattened->second}, e->attrs)};
  }
  auto altered = mutate(a);
  altered->weight_layout =
      products > 1 ? fmt::format("NC{}n{}c", lanes, products) : fmt::format("NC{}n", lanes);
  Expr data = flattened ? flattened->first : graph.visit(e->args[0]);
  Expr kernel = flattened ? flattened->second : graph.visit(e->args[1]);
  Expr packed = transform(kernel, "NC", altered->weight_layout);
  return {typed_call("nn.contrib_dense_pack", {data, packed}, seal(std::move(altered)))};
}

}  // namespace lathe::relay
