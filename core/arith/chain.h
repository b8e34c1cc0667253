// Functions that take more than an instruction.
#pragma once

#include "core/arith/expr.h"

namespace lathe {

/// A function computed by a long chain of dependent instructions, with constants in registers.
inline bool is_chain(const NodeRef& node) {
  const IntrinsicCall* call = node.as<IntrinsicCall>();
  return call && call->intrinsic < Intrinsic::kFloor && call->intrinsic != Intrinsic::kSqrt;
}

}  // namespace lathe
