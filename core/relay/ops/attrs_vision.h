// Attributes of the operators on boxes.
#pragma once

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

/// vision.best_boxes: boxes as corners, or, with `centred`, as centre (x, y), width and height. The result
/// has `most` places for each class where that is positive, else one for each box.
struct BestBoxesAttrs final : AttrsOf<BestBoxesAttrs> {
  bool centred = false;
  int64_t most = 0;
  static constexpr auto kName = "BestBoxesAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("centred", &BestBoxesAttrs::centred), field("most", &BestBoxesAttrs::most)};
};

}  // namespace lathe::relay
