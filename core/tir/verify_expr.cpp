#include "core/tir/verify_expr.h"

#include "core/arith/fold.h"
#include "core/support/error.h"
#include "core/tir/text.h"

namespace lathe::tir {
namespace {
using Fault = std::optional<std::string>;

Fault wrong(const Expr& e, const std::string& what) { return fmt::format("{} in {}", what, print(e)); }

// Builders give these types by themselves; text, databases and the wire need not
// (parse.cpp builds the nodes).
Fault binary_fault(const Expr& e, const Binary& b) {
  if (b.a.dtype() != b.b.dtype())
    return wrong(e, fmt::format("the operands of {} are {} and {}", spelling(b.op), to_string(b.a.dtype()),
                                to_string(b.b.dtype())));
  DataType type = b.a.dtype(), result = gives_bool(b.op) ? kBool.with_lanes(type.lanes) : type;
  bool logical = b.op == BinaryOp::kAnd || b.op == BinaryOp::kOr, bits = b.op >= BinaryOp::kBitAnd;
  if (logical ? !type.is_bool() : bits ? type.is_float() : false)
    return wrong(e, fmt::format("{} of {}", spelling(b.op), to_string(type)));
  if (b.dtype != result)
    return wrong(
        e, fmt::format("{} of {} is said to be {}", spelling(b.op), to_string(type), to_string(b.dtype)));
  return {};
}

/// Whether the intrinsic is one of numbers of this type.
bool takes(Intrinsic f, DataType type) {
  switch (f) {
    case Intrinsic::kAbs:
    case Intrinsic::kSign:
      return type.is_int() || type.is_float();
    case Intrinsic::kBitNot:
    case Intrinsic::kPopcount:
      return type.is_int();
    default:
      return type.is_float();
  }
}

Fault intrinsic_fault(const Expr& e, const IntrinsicCall& call) {
  DataType type = call.a.dtype();
  if (!takes(call.intrinsic, type))
    return wrong(e, fmt::format("{} of {}", spelling(call.intrinsic), to_string(type)));
  bool test = call.intrinsic == Intrinsic::kIsNan || call.intrinsic == Intrinsic::kIsInf;
  if (call.dtype != (test ? kBool.with_lanes(type.lanes) : type))
    return wrong(e, fmt::format("{} of {} is said to be {}", spelling(call.intrinsic), to_string(type),
                                to_string(call.dtype)));
  return {};
}

Fault load_fault(const Expr& e, const Load& load) {
  if (load.indices.size() != load.buffer->shape.size())
    return wrong(e, fmt::format("{} of rank {} has {} indices", load.buffer->name, load.buffer->shape.size(),
                                load.indices.size()));
  int lanes = lanes_of(load.indices);
  if (load.dtype != load.buffer->dtype.with_lanes(lanes))
    return wrong(e, fmt::format("a load said to be {}", to_string(load.dtype)));
  return {};
}
}  // namespace

Fault find_type_fault(const Expr& e, bool vectors) {
  // Vectors come with vectorize_loops.
  if (!vectors && e.dtype().lanes > 1) return wrong(e, "a vector at the scheduled level");
  switch (e->kind()) {
    case ExprKind::kInt:
      return e.dtype().is_int() || e.dtype().is_bool()
                 ? Fault()
                 : wrong(e, "an integer constant of type " + to_string(e.dtype()));
    case ExprKind::kFloat:
      return e.dtype().is_float() ? Fault() : wrong(e, "a float constant of type " + to_string(e.dtype()));
    case ExprKind::kBinary:
      return binary_fault(e, *e.as<Binary>());
    case ExprKind::kNot:
      return e.as<Not>()->a.dtype().is_bool() && e.dtype() == e.as<Not>()->a.dtype()
                 ? Fault()
                 : wrong(e, "! of what is no bool");
    case ExprKind::kSelect: {
      const Select& s = *e.as<Select>();
      bool fits = s.condition.dtype().is_bool() && s.if_true.dtype() == s.if_false.dtype() &&
                  s.dtype == s.if_true.dtype() &&
                  // A scalar condition chooses between whole vectors.
                  (s.condition.dtype().lanes == 1 || s.condition.dtype().lanes == s.dtype.lanes);
      return fits ? Fault() : wrong(e, "select of values of different types");
    }
    case ExprKind::kCast:
      return e.as<Cast>()->value.dtype().lanes == e.dtype().lanes
                 ? Fault()
                 : wrong(e, "a cast between vectors of different length");
    case ExprKind::kIntrinsic:
      return intrinsic_fault(e, *e.as<IntrinsicCall>());
    case ExprKind::kRamp: {
      const Ramp& r = *e.as<Ramp>();
      bool fits = r.base.dtype().lanes == 1 && r.base.dtype() == r.stride.dtype() &&
                  r.dtype.element() == r.base.dtype();
      return fits ? Fault() : wrong(e, "a ramp of other types than its base and stride");
    }
    case ExprKind::kBroadcast: {
      DataType value = e.as<Broadcast>()->value.dtype();
      return value.lanes == 1 && e.dtype().element() == value
                 ? Fault()
                 : wrong(e, "a broadcast of another type than its value");
    }
    case ExprKind::kLoad:
      return load_fault(e, *e.as<Load>());
    case ExprKind::kVar:
    case ExprKind::kAny:
      return {};
  }
  return {};
}

}  // namespace lathe::tir
