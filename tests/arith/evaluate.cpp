#include "tests/arith/evaluate.h"

#include "core/support/error.h"

namespace lathe {
namespace {
int64_t floored(int64_t a, int64_t b) {
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

std::optional<int64_t> compute(BinaryOp op, int64_t a, int64_t b) {
  bool divides =
      op == BinaryOp::kDiv || op == BinaryOp::kMod || op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod;
  if (divides && b == 0) return std::nullopt;
  switch (op) {
    case BinaryOp::kAdd:
      return a + b;
    case BinaryOp::kSub:
      return a - b;
    case BinaryOp::kMul:
      return a * b;
    case BinaryOp::kDiv:
      return a / b;
    case BinaryOp::kMod:
      return a % b;
    case BinaryOp::kFloorDiv:
      return floored(a, b);
    case BinaryOp::kFloorMod:
      return a - floored(a, b) * b;
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
    case BinaryOp::kShiftLeft:
      return a << b;
    case BinaryOp::kShiftRight:
      return a >> b;
    default:
      return std::nullopt;
  }
}
}  // namespace

std::optional<int64_t> evaluate(const Expr& e, const Values& values) {
  if (const int64_t* value = as_int(e)) return *value;
  if (const VarNode* v = e.as<VarNode>()) return values.at(v);
  if (const FloatImm* f = e.as<FloatImm>()) return static_cast<int64_t>(f->value);
  if (const Not* n = e.as<Not>()) {
    auto a = evaluate(n->a, values);
    return a ? std::optional<int64_t>(!*a) : std::nullopt;
  }
  if (const Select* s = e.as<Select>()) {
    auto c = evaluate(s->condition, values);
    return c ? evaluate(*c ? s->if_true : s->if_false, values) : std::nullopt;
  }
  const Binary* b = e.as<Binary>();
  CHECK(b, "not an integer expression");
  auto x = evaluate(b->a, values), y = evaluate(b->b, values);
  return x && y ? compute(b->op, *x, *y) : std::nullopt;
}

}  // namespace lathe
