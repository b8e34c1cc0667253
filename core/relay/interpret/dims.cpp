#include "core/relay/interpret/dims.h"

#include <algorithm>
#include <utility>

#include "core/arith/only_unknown.h"
#include "core/arith/simplify.h"
#include "core/relay/infer/unifier.h"
#include "core/relay/text.h"
#include "core/support/shape_fault.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

bool has_value(const NodeRef& variable, const Dims& dims) {
  auto is_it = [&](const auto& each) { return each.variable == variable; };
  return std::any_of(dims.dims.begin(), dims.dims.end(), is_it) ||
         std::any_of(dims.types.begin(), dims.types.end(), is_it);
}

/// Values for the variables among the shape and the base type of a tensor of type `wanted`; that type then.
Type bind_types(const Tensor& tensor, const GenericTensorType& wanted, Dims& dims) {
  auto bind = [&](const Type& variable, const Type& value) {
    if (variable.as<TypeVarNode>() && !has_value(variable, dims)) dims.types.push_back({variable, value});
  };
  const Type found = tensor_type(tensor.shape(), tensor.dtype());
  bind(wanted.shape, make<ShapeType>(found.as<TensorType>()->shape));
  bind(wanted.base, base_type(tensor.dtype()));
  return evaluate(Type(&wanted), dims);
}

/// Calls f with each tensor that the type shows and its type; false from f, or another shape of value, ends
/// it.
bool for_each_tensor(const Value& value, const Type& type, Dims& dims,
                     FunctionRef<bool(const Tensor&, const TensorType&)> f) {
  if (const GenericTensorType* generic = type.as<GenericTensorType>()) {
    const TensorValue* tensor = value.as<TensorValue>();
    if (!tensor) return false;
    const Type known = bind_types(tensor->tensor, *generic, dims);
    return known.as<TensorType>() && f(tensor->tensor, *known.as<TensorType>());
  }
  if (const TensorType* wanted = type.as<TensorType>()) {
    const TensorValue* tensor = value.as<TensorValue>();
    return tensor && f(tensor->tensor, *wanted);
  }
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return true;
  const TupleValue* items = value.as<TupleValue>();
  if (!items || items->items.size() != tuple->items.size()) return false;
  bool all = true;
  with_enough_stack([&] {
    for (size_t i = 0; all && i < tuple->items.size(); ++i)
      all = for_each_tensor(items->items[i], tuple->items[i], dims, f);
  });
  return all;
}

}  // namespace

lathe::Expr evaluate(const lathe::Expr& dim, const Dims& dims) {
  if (as_int(dim)) return dim;
  lathe::VarMap values;
  for (const DimValue& each : dims.dims) values[each.variable.as<lathe::VarNode>()] = each.value;
  return simplify(substitute(dim, values));
}

Type evaluate(const Type& type, const Dims& dims) {
  std::unordered_map<const Node*, Type> values;
  for (const TypeValue& each : dims.types) values[each.variable.get()] = each.value;
  return substitute_types(type, values);
}

namespace {

/// Of 2 * k + m, where m has a value: k, as program/extents.cpp computes it. That it comes out even is
/// compared later. Whether there is such a k.
bool bind_only_unknown(const lathe::Expr& dim, int64_t extent, Dims& dims) {
  const auto unknown =
      only_unknown(dim, [&](const lathe::VarNode* variable) { return has_value(NodeRef(variable), dims); });
  if (!unknown) return false;
  const lathe::Expr rest = evaluate(unknown->rest, dims);
  if (!as_int(rest)) return false;
  dims.dims.push_back({lathe::Expr(unknown->variable), unknown->told_by(extent, int_value(rest))});
  return true;
}

/// Variables that stand by themselves; false where the value is of another type.
bool bind_variables(const Value& value, const Type& type, Dims& dims) {
  return for_each_tensor(value, type, dims, [&](const Tensor& tensor, const TensorType& wanted) {
    if (tensor.dtype() != wanted.dtype || tensor.shape().size() != wanted.shape.size()) return false;
    for (size_t i = 0; i < wanted.shape.size(); ++i)
      if (wanted.shape[i].as<lathe::VarNode>() && !has_value(wanted.shape[i], dims))
        dims.dims.push_back({wanted.shape[i], tensor.shape()[i]});
    return true;
  });
}

/// Those that expressions tell; whether there were some.
bool bind_expressions(const Value& value, const Type& type, Dims& dims) {
  bool found = false;
  for_each_tensor(value, type, dims, [&](const Tensor& tensor, const TensorType& wanted) {
    for (size_t i = 0; i < wanted.shape.size(); ++i)
      found |= bind_only_unknown(wanted.shape[i], tensor.shape()[i], dims);
    return true;
  });
  return found;
}

std::string not_of_type(const Value& value, const Type& type) {
  return fmt::format("{} is not of type {}", print(value), print(type));
}

/// What the dimensions are not; "" where they fit.
std::string compared(const Value& value, const Type& type, Dims& dims) {
  std::string fault;
  for_each_tensor(value, type, dims, [&](const Tensor& tensor, const TensorType& wanted) {
    std::vector<int64_t> shape;
    for (const lathe::Expr& extent : wanted.shape) {
      const lathe::Expr dim = evaluate(extent, dims);
      shape.push_back(as_int(dim) ? int_value(dim) : -1);
    }
    fault = shape_fault(tensor.shape(), shape);
    return fault.empty();
  });
  return fault;
}

}  // namespace

DimsFault bind_dims(std::span<const Value> values, std::span<const Type> types, Dims& dims) {
  // Variables first: an expression may stand before the dimension that tells its variable.
  for (size_t i = 0; i < values.size(); ++i)
    if (!bind_variables(values[i], types[i], dims)) return {i, not_of_type(values[i], types[i])};
  // Each may be what another one waits for.
  for (bool found = true; std::exchange(found, false);)
    for (size_t i = 0; i < values.size(); ++i) found |= bind_expressions(values[i], types[i], dims);
  for (size_t i = 0; i < values.size(); ++i)
    if (const std::string fault = compared(values[i], types[i], dims); !fault.empty()) return {i, fault};
  return {};
}

std::string bind_dims(const Value& value, const Type& type, Dims& dims) {
  return bind_dims({&value, 1}, {&type, 1}, dims).text;
}

}  // namespace lathe::relay
