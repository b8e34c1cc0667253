// Integer arithmetic on constants, as BinaryOp defines it.
#pragma once

#include <cstdint>
#include <optional>

#include "core/arith/expr.h"

namespace lathe {

/// a op b; nothing when that is undefined or nobody's business here: division by zero (or by -1, which may
/// overflow), an overflow of int64, an operation on reals.
std::optional<int64_t> fold(BinaryOp op, int64_t a, int64_t b);

/// Whether the result is a bool, whatever the operands are.
constexpr bool gives_bool(BinaryOp op) { return op >= BinaryOp::kEq && op <= BinaryOp::kOr; }

}  // namespace lathe
