// Relay's types (Roesch et al. 2018, Figure 3; 2019, section 3.2), with symbolic dimensions: a dimension is
// an integer expression (core/arith), so `n` has identity across arguments and results; `?` (Any) has none.
#pragma once

#include "core/arith/expr.h"
#include "core/support/error.h"
#include "core/support/node.h"

namespace lathe::relay {

enum class TypeKind : uint16_t {
  kTensor,
  kTuple,
  kFunction,
  kVariable,
  kHole,
  kReference,
  kGlobal,
  kCall,
  kShape,
  kGenericTensor,
  kRelation
};

struct TypeNode : Node {
  TypeKind kind() const { return static_cast<TypeKind>(kind_id()); }

 protected:
  using Node::Node;
};
using Type = Ref<TypeNode>;

/// Tensor[(d0, d1, ...), dtype]. A scalar has the empty shape. Dimensions are int64 expressions.
struct TensorType final : NodeOf<TensorType, TypeNode> {
  std::vector<Expr> shape;
  DataType dtype;
  static constexpr auto kName = "TensorType";
  static constexpr auto kKind = TypeKind::kTensor;
  static constexpr auto fields =
      std::tuple{field("shape", &TensorType::shape), field("dtype", &TensorType::dtype)};
};

struct TupleType final : NodeOf<TupleType, TypeNode> {
  std::vector<Type> items;
  static constexpr auto kName = "TupleType";
  static constexpr auto kKind = TypeKind::kTuple;
  static constexpr auto fields = std::tuple{field("items", &TupleType::items)};
};

enum class Kind : uint8_t { kType, kShape, kBaseType, kConstraint, kAdt };

/// A type (or shape) parameter of a function or of an algebraic data type.
struct TypeVarNode final : NodeOf<TypeVarNode, TypeNode, Identity::kName> {
  std::string name;
  Kind of = Kind::kType;
  static constexpr auto kName = "TypeVar";
  static constexpr auto kKind = TypeKind::kVariable;
  static constexpr auto fields = std::tuple{info("name", &TypeVarNode::name), field("of", &TypeVarNode::of)};
};
using TypeVar = Ref<TypeVarNode>;

/// A hole `_` that inference fills. Two holes differ.
struct HoleType final : NodeOf<HoleType, TypeNode, Identity::kName> {
  Kind of = Kind::kType;
  static constexpr auto kName = "HoleType";
  static constexpr auto kKind = TypeKind::kHole;
  static constexpr auto fields = std::tuple{field("of", &HoleType::of)};
};

/// The attributes of a call: a plain struct an operator declares (ops/attrs.h), with `fields`.
struct AttrsNode : Node {
 protected:
  using Node::Node;
};
using Attrs = Ref<AttrsNode>;

/// Shape(d0, d1, ...): what a variable of kind Shape stands for. No value has this type.
struct ShapeType final : NodeOf<ShapeType, TypeNode> {
  std::vector<Expr> dims;
  static constexpr auto kName = "ShapeType";
  static constexpr auto kKind = TypeKind::kShape;
  static constexpr auto fields = std::tuple{field("dims", &ShapeType::dims)};
};

/// Tensor[S, T] where the shape or the base type is a variable or a hole. A base type is written, and held,
/// as the type of its scalars. tensor_of() makes a TensorType where both are known.
struct GenericTensorType final : NodeOf<GenericTensorType, TypeNode> {
  Type shape, base;
  static constexpr auto kName = "GenericTensorType";
  static constexpr auto kKind = TypeKind::kGenericTensor;
  static constexpr auto fields =
      std::tuple{field("shape", &GenericTensorType::shape), field("base", &GenericTensorType::base)};
};

/// A constraint on type parameters: the relation of an operator between the types of its arguments and of its
/// result (2019, section 3.2.2). op(args, attrs) -> result.
struct RelationType final : NodeOf<RelationType, TypeNode> {
  std::string op;
  std::vector<Type> args;
  Attrs attrs;  // may be null
  Type result;
  static constexpr auto kName = "RelationType";
  static constexpr auto kKind = TypeKind::kRelation;
  static constexpr auto fields =
      std::tuple{field("op", &RelationType::op), field("args", &RelationType::args),
                 field("attrs", &RelationType::attrs), field("result", &RelationType::result)};
};

/// fn<type_params>(params) -> result, with constraints (relations) on its type parameters.
struct FuncType final : NodeOf<FuncType, TypeNode> {
  std::vector<TypeVar> type_params;
  std::vector<Type> params;
  Type result;
  std::vector<Type> constraints;
  static constexpr auto kName = "FuncType";
  static constexpr auto kKind = TypeKind::kFunction;
  static constexpr auto fields =
      std::tuple{def("type_params", &FuncType::type_params), field("params", &FuncType::params),
                 field("result", &FuncType::result), field("constraints", &FuncType::constraints)};
};

/// ref(T): a mutable cell.
struct RefType final : NodeOf<RefType, TypeNode> {
  Type value;
  static constexpr auto kName = "RefType";
  static constexpr auto kKind = TypeKind::kReference;
  static constexpr auto fields = std::tuple{field("value", &RefType::value)};
};

/// The name of an algebraic data type; its definition is in the module.
struct GlobalTypeVarNode final : NodeOf<GlobalTypeVarNode, TypeNode> {
  std::string name;
  static constexpr auto kName = "GlobalTypeVar";
  static constexpr auto kKind = TypeKind::kGlobal;
  static constexpr auto fields = std::tuple{field("name", &GlobalTypeVarNode::name)};
};
using GlobalTypeVar = Ref<GlobalTypeVarNode>;

/// An algebraic data type applied to types: List[Tensor[(3), float32]].
struct TypeCall final : NodeOf<TypeCall, TypeNode> {
  GlobalTypeVar callee;
  std::vector<Type> args;
  static constexpr auto kName = "TypeCall";
  static constexpr auto kKind = TypeKind::kCall;
  static constexpr auto fields =
      std::tuple{field("callee", &TypeCall::callee), field("args", &TypeCall::args)};
};

Type tensor_type(std::vector<Expr> shape, DataType dtype);
Type tensor_type(const std::vector<int64_t>& shape, DataType dtype);
/// Tensor[shape, base]: a TensorType where both are known, a GenericTensorType else.
Type tensor_of(const Type& shape, const Type& base);
/// A base type, as its scalars' type.
Type base_type(DataType dtype);
Type tuple_type(std::vector<Type> items);
Type func_type(std::vector<Type> params, Type result);

/// The shape as numbers. REQUIRES: constant dimensions.
std::vector<int64_t> constant_shape(const TensorType& type);
bool has_constant_shape(const TensorType& type);

}  // namespace lathe::relay
