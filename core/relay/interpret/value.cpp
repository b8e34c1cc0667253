#include "core/relay/interpret/value.h"

#include "core/relay/infer/unifier.h"
#include "core/relay/text/names.h"
#include "core/relay/type_fields.h"

namespace lathe {
LATHE_DEFINE_NODE(relay::TensorValue, relay::ValueNode)
LATHE_DEFINE_NODE(relay::TupleValue, relay::ValueNode)
LATHE_DEFINE_NODE(relay::DataValue, relay::ValueNode)
LATHE_DEFINE_NODE(relay::ClosureValue, relay::ValueNode)
LATHE_DEFINE_NODE(relay::ConstructorValue, relay::ValueNode)
LATHE_DEFINE_NODE(relay::RefValue, relay::ValueNode)
}  // namespace lathe

namespace lathe::relay {
namespace {

std::string leaf_text(const Value& value) {
  if (const TensorValue* tensor = value.as<TensorValue>()) {
    std::string literal = print_value(tensor->tensor);
    return literal.empty()
               ? fmt::format("<{} {}>", to_string(tensor->tensor.dtype()), shape_text(tensor->tensor.shape()))
               : literal;
  }
  if (const ConstructorValue* constructor = value.as<ConstructorValue>())
    return constructor->constructor->name;
  return value.as<RefValue>() ? "<ref>" : "<function>";
}

/// The parts of a tuple or of data; null for values without.
const std::vector<Value>* parts_of(const Value& value) {
  if (const TupleValue* tuple = value.as<TupleValue>()) return &tuple->items;
  if (const DataValue* data = value.as<DataValue>()) return &data->fields_of;
  return nullptr;
}

bool has_extents(const Tensor& tensor, const TensorType& type) {
  if (tensor.dtype() != type.dtype || tensor.shape().size() != type.shape.size()) return false;
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (const int64_t* extent = as_int(type.shape[i]); extent && *extent != tensor.shape()[i]) return false;
  return true;
}

/// The types of the parts of `value` where it is of `type`: appended to `types`, false where it is not.
bool part_types(const Value& value, const Type& type, const ModuleNode& module, std::vector<Type>& types) {
  if (const TupleType* tuple = type.as<TupleType>()) {
    types = tuple->items;
    return value.as<TupleValue>() && value.as<TupleValue>()->items.size() == types.size();
  }
  const TypeCall* call = type.as<TypeCall>();
  const DataValue* data = value.as<DataValue>();
  if (!call || !data || data->constructor->belongs_to->name != call->callee->name) return false;
  const std::vector<TypeVar>& params = module.types.at(call->callee->name)->type_params;
  std::unordered_map<const Node*, Type> arguments;
  for (size_t i = 0; i < params.size(); ++i) arguments[params[i].get()] = call->args.at(i);
  for (const Type& input : data->constructor->inputs) types.push_back(substitute_types(input, arguments));
  return types.size() == data->fields_of.size();
}

}  // namespace

Value tensor_value(Tensor tensor) { return make<TensorValue>(std::move(tensor)); }
Value tuple_value(std::vector<Value> items) { return make<TupleValue>(std::move(items)); }

/// With a stack of its own: lists are long.
std::string print(const Value& root) {
  struct Item {
    Value value;  // null: the text alone
    std::string text;
  };
  std::string result;
  std::vector<Item> stack{{root, ""}};
  while (!stack.empty()) {
    Item item = std::move(stack.back());
    stack.pop_back();
    result += item.text;
    if (!item.value) continue;
    const std::vector<Value>* parts = parts_of(item.value);
    if (!parts) {
      result += leaf_text(item.value);
      continue;
    }
    const DataValue* data = item.value.as<DataValue>();
    if (data) result += data->constructor->name;
    if (data && parts->empty()) continue;
    result += "(";
    stack.push_back({Value(), !data && parts->size() == 1 ? ",)" : ")"});
    for (size_t i = parts->size(); i-- > 0;) stack.push_back({(*parts)[i], i ? ", " : ""});
  }
  return result;
}

/// The same.
bool has_type(const Value& value, const Type& type, const ModuleNode& module) {
  std::vector<std::pair<Value, Type>> stack{{value, type}};
  while (!stack.empty()) {
    auto [part, wanted] = stack.back();
    stack.pop_back();
    bool fits = true;
    switch (part->kind()) {
      case ValueKind::kTensor: {
        const TensorType* tensor = wanted.as<TensorType>();
        fits = tensor ? has_extents(part.as<TensorValue>()->tensor, *tensor)
                      : wanted.as<GenericTensorType>() != nullptr;
        break;
      }
      case ValueKind::kTuple:
      case ValueKind::kData: {
        std::vector<Type> types;
        fits = part_types(part, wanted, module, types);
        for (size_t i = 0; fits && i < types.size(); ++i) stack.push_back({(*parts_of(part))[i], types[i]});
        break;
      }
      case ValueKind::kClosure:
      case ValueKind::kConstructor:
        fits = wanted.as<FuncType>() != nullptr;
        break;
      case ValueKind::kReference:
        fits = wanted.as<RefType>() != nullptr;
        break;
    }
    if (!fits) return false;
  }
  return true;
}

}  // namespace lathe::relay
