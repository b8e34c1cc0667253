// The attributes of require, which ends a program that goes where it may not.
#pragma once

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

struct RequireAttrs final : AttrsOf<RequireAttrs> {
  std::string message = "a requirement does not hold";
  static constexpr auto kName = "RequireAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields = std::tuple{field("message", &RequireAttrs::message)};
};

}  // namespace lathe::relay
