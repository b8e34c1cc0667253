// What programs compute: tensors, tuples, data, functions and references. Values are nodes, so they are
// shared, compared and freed as expressions are: a list of 1,000,000 cells needs no deep stack.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

enum class ValueKind : uint16_t { kTensor, kTuple, kData, kClosure, kConstructor, kReference };

struct ValueNode : Node {
  ValueKind kind() const { return static_cast<ValueKind>(kind_id()); }

 protected:
  using Node::Node;
};
using Value = Ref<ValueNode>;

struct TensorValue final : NodeOf<TensorValue, ValueNode> {
  Tensor tensor;
  static constexpr auto kName = "TensorValue";
  static constexpr auto kKind = ValueKind::kTensor;
  static constexpr auto fields = std::tuple{field("tensor", &TensorValue::tensor)};
};

struct TupleValue final : NodeOf<TupleValue, ValueNode> {
  std::vector<Value> items;
  static constexpr auto kName = "TupleValue";
  static constexpr auto kKind = ValueKind::kTuple;
  static constexpr auto fields = std::tuple{field("items", &TupleValue::items)};
};

/// A constructor applied to its fields.
struct DataValue final : NodeOf<DataValue, ValueNode> {
  Constructor constructor;
  std::vector<Value> fields_of;
  static constexpr auto kName = "DataValue";
  static constexpr auto kKind = ValueKind::kData;
  static constexpr auto fields =
      std::tuple{field("constructor", &DataValue::constructor), field("fields", &DataValue::fields_of)};
};

/// The value of a symbolic dimension.
struct DimValue {
  lathe::Expr variable;
  int64_t value = 0;
  static constexpr auto fields =
      std::tuple{field("variable", &DimValue::variable), field("value", &DimValue::value)};
};

/// What a variable of kind Shape or BaseType stands for.
struct TypeValue {
  Type variable, value;
  static constexpr auto fields =
      std::tuple{field("variable", &TypeValue::variable), field("value", &TypeValue::value)};
};

/// A function with the values of what it uses from outside, in the order the interpreter knows; null for the
/// function itself, so that values are never in a circle.
struct ClosureValue final : NodeOf<ClosureValue, ValueNode> {
  Ref<Function> function;
  std::vector<Value> captured;
  std::vector<DimValue> dims;
  std::vector<TypeValue> types;
  static constexpr auto kName = "ClosureValue";
  static constexpr auto kKind = ValueKind::kClosure;
  static constexpr auto fields =
      std::tuple{field("function", &ClosureValue::function), field("captured", &ClosureValue::captured),
                 field("dims", &ClosureValue::dims), field("types", &ClosureValue::types)};
};

/// A constructor that is not applied: a function.
struct ConstructorValue final : NodeOf<ConstructorValue, ValueNode> {
  Constructor constructor;
  static constexpr auto kName = "ConstructorValue";
  static constexpr auto kKind = ValueKind::kConstructor;
  static constexpr auto fields = std::tuple{field("constructor", &ConstructorValue::constructor)};
};

/// A cell of the interpreter that made it.
struct RefValue final : NodeOf<RefValue, ValueNode> {
  int64_t cell = 0;
  static constexpr auto kName = "RefValue";
  static constexpr auto kKind = ValueKind::kReference;
  static constexpr auto fields = std::tuple{field("cell", &RefValue::cell)};
};

Value tensor_value(Tensor tensor);
Value tuple_value(std::vector<Value> items);

/// As Relay writes it: 1f, (True, [1, 2]), Cons(1, Nil); what has no literal as <float32 (3, 224)>,
/// <function>, <ref>.
std::string print(const Value& value);

/// Whether a value is of a type, as far as can be seen: functions and references are not looked into, and a
/// symbolic dimension takes any extent. REQUIRES: the data types of `module`.
bool has_type(const Value& value, const Type& type, const ModuleNode& module);

}  // namespace lathe::relay
