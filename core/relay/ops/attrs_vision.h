// Attributes of the operators on boxes.
#pragma once

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

/// vision.keep_best: boxes as corners, or, with `centred`, as centre (x, y), width and height.
struct KeepBestAttrs final : AttrsOf<KeepBestAttrs> {
  bool centred = false;
  static constexpr auto kName = "KeepBestAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("centred", &KeepBestAttrs::centred)};
};

}  // namespace lathe::relay
