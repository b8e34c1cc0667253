#include "core/relay/interpret/dims.h"

#include <algorithm>

#include "core/arith/simplify.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

bool has_value(const lathe::Expr& variable, const Dims& dims) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](const DimValue& each) { return each.variable == variable; });
}

/// Calls f with each tensor that the type shows and its type; false from f, or another shape of value, ends
/// it.
bool for_each_tensor(const Value& value, const Type& type,
                     FunctionRef<bool(const Tensor&, const TensorType&)> f) {
  if (const TensorType* wanted = type.as<TensorType>()) {
    const TensorValue* tensor = value.as<TensorValue>();
    return tensor && f(tensor->tensor, *wanted);
  }
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return true;
  const TupleValue* items = value.as<TupleValue>();
  if (!items || items->items.size() != tuple->items.size()) return false;
  for (size_t i = 0; i < tuple->items.size(); ++i)
    if (!for_each_tensor(items->items[i], tuple->items[i], f)) return false;
  return true;
}

}  // namespace

lathe::Expr evaluate(const lathe::Expr& dim, const Dims& dims) {
  if (as_int(dim)) return dim;
  lathe::VarMap values;
  for (const DimValue& each : dims) values[each.variable.as<lathe::VarNode>()] = each.value;
  return simplify(substitute(dim, values));
}

std::string bind_dims(const Value& value, const Type& type, Dims& dims) {
  // Variables first: an expression may stand before the dimension that tells its variable.
  bool fits = for_each_tensor(value, type, [&](const Tensor& tensor, const TensorType& wanted) {
    if (tensor.dtype() != wanted.dtype || tensor.shape().size() != wanted.shape.size()) return false;
    for (size_t i = 0; i < wanted.shape.size(); ++i)
      if (wanted.shape[i].as<lathe::VarNode>() && !has_value(wanted.shape[i], dims))
        dims.push_back({wanted.shape[i], tensor.shape()[i]});
    return true;
  });
  std::string known;
  fits = fits && for_each_tensor(value, type, [&](const Tensor& tensor, const TensorType& wanted) {
           for (size_t i = 0; i < wanted.shape.size(); ++i) {
             const lathe::Expr dim = evaluate(wanted.shape[i], dims);
             if (as_int(dim) && int_value(dim) != tensor.shape()[i]) {
               known = as_int(wanted.shape[i])
                           ? ""
                           : fmt::format("; {} is {} here", print(wanted.shape[i]), int_value(dim));
               return false;
             }
           }
           return true;
         });
  return fits ? "" : fmt::format("{} is not of type {}{}", print(value), print(type), known);
}

}  // namespace lathe::relay
