#include "core/relay/op.h"

namespace lathe::relay {

std::span<const std::span<const Op>> op_families() { return {}; }

const Op* find_op(std::string_view name) {
  for (std::span<const Op> family : op_families())
    for (const Op& op : family)
      if (op.name == name) return &op;
  return nullptr;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (std::span<const Op> family : op_families())
    for (const Op& op : family) names.push_back(op.name);
  return names;
}

}  // namespace lathe::relay
