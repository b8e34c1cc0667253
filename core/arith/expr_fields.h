// How many values the enums of scalar expressions have, for whatever reads nodes that hold them.
#pragma once

#include "core/arith/expr.h"
#include "core/support/node_impl.h"

namespace lathe::reflect {

template <>
inline constexpr size_t kValuesOf<BinaryOp> = static_cast<size_t>(BinaryOp::kShiftRight) + 1;
template <>
inline constexpr size_t kValuesOf<Intrinsic> = static_cast<size_t>(Intrinsic::kPopcount) + 1;

}  // namespace lathe::reflect
