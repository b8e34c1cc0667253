// How tightly operators bind in text. Internal to core/tir: printer and parser read the same table.
#pragma once

#include "core/arith/expr.h"

namespace lathe::tir {

/// Larger binds tighter; all are left-associative. 0: written as a function, min(a, b).
constexpr int precedence(BinaryOp op) {
  switch (op) {
    case BinaryOp::kMin:
    case BinaryOp::kMax:
    case BinaryOp::kPow:
      return 0;
    case BinaryOp::kOr:
      return 1;
    case BinaryOp::kAnd:
      return 2;
    case BinaryOp::kEq:
    case BinaryOp::kNe:
    case BinaryOp::kLt:
    case BinaryOp::kLe:
      return 3;
    case BinaryOp::kBitOr:
      return 4;
    case BinaryOp::kBitXor:
      return 5;
    case BinaryOp::kBitAnd:
      return 6;
    case BinaryOp::kShiftLeft:
    case BinaryOp::kShiftRight:
      return 7;
    case BinaryOp::kAdd:
    case BinaryOp::kSub:
      return 8;
    default:
      return 9;
  }
}
inline constexpr int kRangePrecedence = 4, kUnaryPrecedence = 10;
inline constexpr int kBinaryOps = static_cast<int>(BinaryOp::kShiftRight) + 1;

}  // namespace lathe::tir
