// The attributes of zeros_by, whose shape is computed from its arguments'.
#pragma once

#include "core/relay/ops/attrs_tensor.h"

namespace lathe::relay {

/// Expressions of dimensions as the text of types has them, "(d1 - d0, 8)". d0, d1, ... are the dimensions of
/// the first argument, then those of the second, and so on.
struct ZerosByAttrs final : AttrsOf<ZerosByAttrs> {
  std::string shape = "()";
  DataType dtype = kInt64;
  static constexpr auto kName = "ZerosByAttrs";
  static constexpr auto kKind = 0;
  static constexpr auto fields =
      std::tuple{field("shape", &ZerosByAttrs::shape), field("dtype", &ZerosByAttrs::dtype)};
};

}  // namespace lathe::relay
