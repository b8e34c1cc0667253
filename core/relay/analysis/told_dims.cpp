#include "core/relay/analysis/told_dims.h"

#include "core/arith/only_unknown.h"
#include "core/support/node_map.h"

namespace lathe::relay {
namespace {

/// The tensor types in a type, in order; null where there is something else.
void append_tensors(const Type& type, std::vector<const TensorType*>& tensors) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return tensors.push_back(type.as<TensorType>());
  for (const Type& item : tuple->items) append_tensors(item, tensors);
}

}  // namespace

std::vector<ToldDim> told_dims(const Function& function) {
  std::vector<const TensorType*> tensors;
  for (const Var& param : function.params)
    append_tensors(param->checked_type ? param->checked_type : param->annotation, tensors);
  std::vector<ToldDim> told;
  NodeSet known;
  const auto for_each_dim = [&](FunctionRef<lathe::Var(const lathe::Expr&)> told_by) {
    bool found = false;
    for (size_t i = 0; i < tensors.size(); ++i)
      for (size_t axis = 0; tensors[i] && axis < tensors[i]->shape.size(); ++axis)
        if (const lathe::Var dim = told_by(tensors[i]->shape[axis]); dim && known.insert(dim.get()))
          told.push_back({dim, i, axis}), found = true;
    return found;
  };
  for_each_dim([](const lathe::Expr& size) {
    return size.as<lathe::VarNode>() ? size.cast<lathe::VarNode>() : lathe::Var();
  });
  const auto is_known = [&](const lathe::VarNode* dim) { return known.count(dim) != 0; };
  // Each may be what another one waits for.
  while (for_each_dim([&](const lathe::Expr& size) {
    const auto unknown = only_unknown(size, is_known);
    return unknown ? lathe::Var(unknown->variable) : lathe::Var();
  })) {
  }
  return told;
}

}  // namespace lathe::relay
