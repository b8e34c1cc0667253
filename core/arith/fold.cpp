#include "core/arith/fold.h"

#include <algorithm>

#include "core/support/floor_div.h"

namespace lathe {

std::optional<int64_t> fold(BinaryOp op, int64_t a, int64_t b) {
  int64_t result;
  switch (op) {
    case BinaryOp::kAdd:
      return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryOp::kSub:
      return __builtin_sub_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryOp::kMul:
      return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
    case BinaryOp::kDiv:
      return b == 0 || b == -1 ? std::nullopt : std::optional(a / b);
    case BinaryOp::kMod:
      return b == 0 || b == -1 ? std::nullopt : std::optional(a % b);
    case BinaryOp::kFloorDiv:
      return b == 0 || b == -1 ? std::nullopt : std::optional(floor_div(a, b));
    case BinaryOp::kFloorMod:
      return b == 0 || b == -1 ? std::nullopt : std::optional(floor_mod(a, b));
    case BinaryOp::kMin:
      return std::min(a, b);
    case BinaryOp::kMax:
      return std::max(a, b);
    case BinaryOp::kEq:
      return a == b;
    case BinaryOp::kNe:
      return a != b;
    case BinaryOp::kLt:
      return a < b;
    case BinaryOp::kLe:
      return a <= b;
    case BinaryOp::kAnd:
      return a && b;
    case BinaryOp::kOr:
      return a || b;
    case BinaryOp::kBitAnd:
      return a & b;
    case BinaryOp::kBitOr:
      return a | b;
    case BinaryOp::kBitXor:
      return a ^ b;
    default:
      return std::nullopt;
  }
}

}  // namespace lathe
