// Scalar expressions: the dimensions of tensor types, loop indices and the element-wise computations of
// tensor programs are one language. `core/arith` reasons about the integer part; core/tir adds `Load`.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/support/dtype.h"
#include "core/support/node.h"

namespace lathe {

enum class ExprKind : uint16_t {
  kVar,
  kInt,
  kFloat,
  kAny,
  kBinary,
  kNot,
  kSelect,
  kCast,
  kIntrinsic,
  kRamp,
  kBroadcast,
  kLoad
};

/// The base of scalar expressions. Semantics shared by all: integers are two's complement of `dtype` and wrap
/// (index expressions, of int64 variables and constants, are assumed not to overflow), floats are IEEE 754;
/// evaluation has no side effects.
struct ExprNode : Node {
  DataType dtype;
  ExprKind kind() const { return static_cast<ExprKind>(kind_id()); }

 protected:
  using Node::Node;
};

/// A scalar expression. Converts from C++ numbers: an int is an int64 constant, a double a float32 one.
class Expr : public Ref<ExprNode> {
 public:
  using Ref<ExprNode>::Ref;
  Expr() = default;
  Expr(const Ref<ExprNode>& ref) : Ref<ExprNode>(ref) {}
  Expr(int value);
  Expr(int64_t value);
  explicit Expr(double value);
  DataType dtype() const { return get()->dtype; }
};

/// A variable: a loop index, a symbolic dimension, a scalar parameter. Two variables of one name differ.
struct VarNode final : NodeOf<VarNode, ExprNode, Identity::kName> {
  std::string name;
  static constexpr auto kName = "Var";
  static constexpr auto kKind = ExprKind::kVar;
  static constexpr auto fields = std::tuple{info("name", &VarNode::name), field("dtype", &VarNode::dtype)};
};
using Var = Ref<VarNode>;
Var var(std::string name, DataType dtype = kInt64);

/// An integer or boolean constant of type `dtype`.
struct IntImm final : NodeOf<IntImm, ExprNode> {
  int64_t value = 0;
  static constexpr auto kName = "IntImm";
  static constexpr auto kKind = ExprKind::kInt;
  static constexpr auto fields = std::tuple{field("value", &IntImm::value), field("dtype", &IntImm::dtype)};
};

struct FloatImm final : NodeOf<FloatImm, ExprNode> {
  double value = 0;
  static constexpr auto kName = "FloatImm";
  static constexpr auto kKind = ExprKind::kFloat;
  static constexpr auto fields =
      std::tuple{field("value", &FloatImm::value), field("dtype", &FloatImm::dtype)};
};

/// Relay's `?`: a dimension known only at run time, and equal to nothing, itself included, at compile time.
struct Any final : NodeOf<Any, ExprNode> {
  static constexpr auto kName = "Any";
  static constexpr auto kKind = ExprKind::kAny;
  static constexpr auto fields = std::tuple{field("dtype", &Any::dtype)};
};

/// Of integers all four divisions by 0 give 0; the least number by -1 is itself, as it wraps.
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,       // floats: IEEE; integers: truncation toward zero
  kMod,       // sign of the dividend (C's % and fmod)
  kFloorDiv,  // rounds toward minus infinity; the division of indices
  kFloorMod,  // sign of the divisor; the remainder of indices
  kMin,
  kMax,  // floats: the other operand when one is NaN is NOT promised; NaN in the first operand propagates
  kPow,  // integers: exact, wraps; to a negative power 1 over that, truncated, and of 0 it is 0
  kEq,
  kNe,
  kLt,
  kLe,  // -> bool
  kAnd,
  kOr,  // of bools; both sides may be evaluated
  kBitAnd,
  kBitOr,
  kBitXor,
  kShiftLeft,
  kShiftRight,
};
/// The spelling in text: "+", "//", "min", ...
const char* spelling(BinaryOp op);

/// Both operands have one type; comparisons and logic give bool.
struct Binary final : NodeOf<Binary, ExprNode> {
  BinaryOp op = BinaryOp::kAdd;
  Expr a, b;
  static constexpr auto kName = "Binary";
  static constexpr auto kKind = ExprKind::kBinary;
  static constexpr auto fields = std::tuple{field("op", &Binary::op), field("a", &Binary::a),
                                            field("b", &Binary::b), field("dtype", &Binary::dtype)};
};

struct Not final : NodeOf<Not, ExprNode> {
  Expr a;
  static constexpr auto kName = "Not";
  static constexpr auto kKind = ExprKind::kNot;
  static constexpr auto fields = std::tuple{field("a", &Not::a), field("dtype", &Not::dtype)};
};

/// `condition ? if_true : if_false`. Only the chosen side is evaluated: a load that is out of bounds on the
/// other side is no error (padding is written this way).
struct Select final : NodeOf<Select, ExprNode> {
  Expr condition, if_true, if_false;
  static constexpr auto kName = "Select";
  static constexpr auto kKind = ExprKind::kSelect;
  static constexpr auto fields =
      std::tuple{field("condition", &Select::condition), field("if_true", &Select::if_true),
                 field("if_false", &Select::if_false), field("dtype", &Select::dtype)};
};

/// Value conversion. Float to integer truncates toward zero, what the type does not hold becomes its nearest
/// number, NaN 0; integers wrap; anything to bool is `!= 0`.
struct Cast final : NodeOf<Cast, ExprNode> {
  Expr value;
  static constexpr auto kName = "Cast";
  static constexpr auto kKind = ExprKind::kCast;
  static constexpr auto fields = std::tuple{field("value", &Cast::value), field("dtype", &Cast::dtype)};
};

enum class Intrinsic : uint8_t {
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kSigmoid,
  kErf,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kFloor,
  kCeil,
  kRound /* half to even */,
  kTrunc,
  kAbs,
  kSign,
  kIsNan,
  kIsInf,
  kBitNot,
  kPopcount,
};
const char* spelling(Intrinsic intrinsic);

struct IntrinsicCall final : NodeOf<IntrinsicCall, ExprNode> {
  Intrinsic intrinsic = Intrinsic::kExp;
  Expr a;
  static constexpr auto kName = "IntrinsicCall";
  static constexpr auto kKind = ExprKind::kIntrinsic;
  static constexpr auto fields =
      std::tuple{field("intrinsic", &IntrinsicCall::intrinsic), field("a", &IntrinsicCall::a),
                 field("dtype", &IntrinsicCall::dtype)};
};

/// The vector base, base + stride, ... of dtype.lanes lanes. Only in lowered programs.
struct Ramp final : NodeOf<Ramp, ExprNode> {
  Expr base, stride;
  static constexpr auto kName = "Ramp";
  static constexpr auto kKind = ExprKind::kRamp;
  static constexpr auto fields =
      std::tuple{field("base", &Ramp::base), field("stride", &Ramp::stride), field("dtype", &Ramp::dtype)};
};

/// A vector of dtype.lanes equal lanes. Only in lowered programs.
struct Broadcast final : NodeOf<Broadcast, ExprNode> {
  Expr value;
  static constexpr auto kName = "Broadcast";
  static constexpr auto kKind = ExprKind::kBroadcast;
  static constexpr auto fields =
      std::tuple{field("value", &Broadcast::value), field("dtype", &Broadcast::dtype)};
};

// Builders. They fold constants and the identities x+0, x*1, x*0 (integers), x//1, x%1, and check the types.
Expr imm(DataType dtype, int64_t value);
Expr fimm(DataType dtype, double value);
/// A constant of any type.
Expr constant(DataType dtype, double value);
Expr any_dim();
Expr binary(BinaryOp op, Expr a, Expr b);
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr div(Expr a, Expr b);  // kDiv
Expr floordiv(Expr a, Expr b);
Expr floormod(Expr a, Expr b);
Expr ceildiv(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr equal(Expr a, Expr b);
Expr not_equal(Expr a, Expr b);
Expr less(Expr a, Expr b);
Expr less_equal(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr select(Expr condition, Expr if_true, Expr if_false);
Expr cast(DataType dtype, Expr value);
Expr intrinsic(Intrinsic f, Expr a);
Expr ramp(Expr base, Expr stride, int lanes);
Expr broadcast(Expr value, int lanes);

/// The value, when the expression is an integer (bool) constant; else nullptr.
const int64_t* as_int(const Expr& e);
/// The value of a constant; CHECKs otherwise.
int64_t int_value(const Expr& e);
bool is_int(const Expr& e, int64_t value);

/// Replaces variables; the same node comes back when none occurs.
using VarMap = std::map<const VarNode*, Expr>;
Expr substitute(const Expr& e, const VarMap& values);
bool uses_var(const NodeRef& node, const VarNode* var);

/// For readers of JSON: the nodes of this language.
NodeTable expr_node_types();

}  // namespace lathe
