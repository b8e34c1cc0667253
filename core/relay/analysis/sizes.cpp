#include "core/relay/analysis/sizes.h"

#include <algorithm>

#include "core/arith/simplify.h"

namespace lathe::relay {
namespace {

using Size = lathe::Expr;

Analyzer not_negative(const Size& size) {
  Analyzer context;
  post_order(size, [&](const NodeRef& node) {
    if (node.as<lathe::VarNode>()) context.bind(node.cast<lathe::VarNode>(), {0, INT64_MAX});
  });
  return context;
}

/// A position from the front, not yet kept within the axis; nothing where its sign is not known.
struct Position {
  Size at;
  bool from_end = false;
};
std::optional<Position> position(const Size& given, const Size& extent) {
  if (is_at_most(0, given)) return Position{given};
  if (is_at_most(given, -1)) return Position{extent + given, true};
  return std::nullopt;
}

/// Numbers whose differences do not overflow.
Size in_range(const Size& at) {
  constexpr int64_t kFar = int64_t{1} << 60;
  return as_int(at) ? Size(std::clamp(int_value(at), -kFar, kFar)) : at;
}

/// a - max(b, c) without the max, of which nothing is known.
Size less_larger(const Size& a, const Size& b, const Size& c) { return min(a - b, a - c); }

}  // namespace

Size simplify_size(const Size& size) { return not_negative(size).simplify(size); }

bool is_at_most(const Size& a, const Size& b) {
  const Size less = simplify_size(b - a);
  return not_negative(less).bound(less).min >= 0;
}

/// Where begin lies beyond the axis the count is 0 by itself, so only what is counted is kept within it.
std::optional<Slice> numpy_slice(const Size& begin, const Size& end, int64_t stride, const Size& extent) {
  auto is_beyond = [&](const Size& at) {
    // INT64_MIN, which means the front, has no absolute value.
    return as_int(at) && !as_int(extent) &&
           (int_value(at) >= kBeyondAnyAxis || int_value(at) <= -kBeyondAnyAxis);
  };
  const bool forward = stride > 0;
  std::optional<Position> first = position(in_range(begin), extent), last = position(in_range(end), extent);
  if (!first || !last) return std::nullopt;
  Size span;
  if (forward) {
    if (is_beyond(begin)) first = Position{int_value(begin) > 0 ? extent : Size(0)};
    last->at = is_beyond(end)                                   ? (int_value(end) > 0 ? extent : Size(0))
               : last->from_end || is_at_most(last->at, extent) ? last->at
                                                                : min(last->at, extent);
    span = first->from_end ? less_larger(last->at, first->at, 0) : last->at - first->at;
    if (first->from_end) first->at = max(first->at, 0);
  } else {
    first->at = is_beyond(begin)  ? (int_value(begin) > 0 ? extent - 1 : Size(-1))
                : first->from_end ? first->at
                                  : min(first->at, extent - 1);
    const bool to_front = is_beyond(end) && int_value(end) < 0;
    span = to_front         ? first->at + 1
           : last->from_end ? less_larger(first->at, last->at, -1)
                            : first->at - last->at;
  }
  // INT64_MIN has no absolute value.
  const int64_t step = forward ? stride : stride == INT64_MIN ? INT64_MAX : -stride;
  if (step != 1) span = floordiv(span - 1, Size(step)) + 1;
  return Slice{simplify_size(first->at), simplify_size(max(span, 0)), stride};
}

const char* operator_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::kAdd:
      return "add";
    case BinaryOp::kSub:
      return "subtract";
    case BinaryOp::kMul:
      return "multiply";
    case BinaryOp::kFloorDiv:
      return "floor_divide";
    case BinaryOp::kFloorMod:
      return "floor_mod";
    case BinaryOp::kMin:
      return "minimum";
    case BinaryOp::kMax:
      return "maximum";
    default:
      return nullptr;
  }
}

}  // namespace lathe::relay
