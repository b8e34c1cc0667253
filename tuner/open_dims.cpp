#include "tuner/open_dims.h"

#include <vector>

#include "core/support/error.h"
#include "core/support/text.h"

namespace lathe::tuner {

void set_ranges(runtime::Plan& plan, const OpenDims& open) {
  std::vector<std::string> names;
  for (runtime::Dimension& dim : plan.dims) {
    if (runtime::is_of_output(dim)) continue;
    names.push_back(dim.name);
    const DimRange range = open.range(dim.name);
    dim.min = range.min;
    dim.max = range.max;
  }
  for (const auto& [name, range] : open.named)
    if (std::find(names.begin(), names.end(), name) == names.end())
      fail("--open {}: no input has an open dimension of this name{}", name,
           names.empty() ? std::string() : "; those are " + join_text(names, ", "));
}

}  // namespace lathe::tuner
