#include <unordered_map>

#include "core/relay/ops/families.h"

namespace lathe::relay {

std::span<const std::span<const Op>> op_families() {
  static const std::span<const Op> kFamilies[] = {
      ops::conv_ops(),    ops::pool_ops(),           ops::dense_ops(),    ops::norm_ops(),
      ops::softmax_ops(), ops::activation_ops(),     ops::unary_ops(),    ops::binary_ops(),
      ops::shape_ops(),   ops::joining_ops(),        ops::reduce_ops(),   ops::move_ops(),
      ops::create_ops(),  ops::conv_transpose_ops(), ops::indexing_ops(), ops::sort_ops(),
      ops::box_ops(),     ops::determinant_ops(),    ops::image_ops(),    ops::quantize_ops(),
      ops::sized_ops(),
  };
  return kFamilies;
}

const Op* find_op(std::string_view name) {
  // Passes ask for each call. Built at the first question and never freed: no order of destruction to think
  // of.
  static const auto* rows = [] {
    auto* table = new std::unordered_map<std::string_view, const Op*>;
    for (std::span<const Op> family : op_families())
      for (const Op& op : family) table->emplace(op.name, &op);
    return table;
  }();
  auto found = rows->find(name);
  return found == rows->end() ? nullptr : found->second;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (std::span<const Op> family : op_families())
    for (const Op& op : family) names.push_back(op.name);
  return names;
}

}  // namespace lathe::relay
