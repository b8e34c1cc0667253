#include "schedules/primitive.h"

namespace lathe::schedule {

std::span<const Primitive* const> primitives() {
  static const std::vector<const Primitive*> rows = [] {
    std::vector<const Primitive*> all;
    for (std::span<const Primitive> family :
         {query_primitives(),          sampling_primitives(),  loop_primitives(),
          iteration_primitives(),      inline_primitives(),    location_primitives(),
          cache_primitives(),          reduction_primitives(), rfactor_primitives(),
          blockize_primitives(),       layout_primitives(),    padding_primitives(),
          winograd_primitives(),       strassen_primitives(),  im2col_primitives(),
          pad_einsum_primitives(),     reindex_primitives(),   separate_read_primitives(),
          split_variable_primitives(), lane_primitives()})
      for (const Primitive& row : family) all.push_back(&row);
    return all;
  }();
  return rows;
}

const Primitive& primitive(std::string_view name) {
  std::vector<std::string> names;
  for (const Primitive* row : primitives()) {
    if (row->name == name) return *row;
    names.emplace_back(row->name);
  }
  lathe::fail("`{}` is no schedule primitive{}", name, did_you_mean(name, names));
}

}  // namespace lathe::schedule
