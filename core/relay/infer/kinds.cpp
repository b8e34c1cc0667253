#include "core/relay/infer/kinds.h"

#include "core/relay/text.h"
#include "core/relay/text/names.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

void check_kinds_once(const Type& type, const ModuleNode& module);

/// The kind of what stands for a type. That of a scalar is a base type as well.
Kind kind_of(const Type& type) {
  if (const TypeVarNode* variable = type.as<TypeVarNode>()) return variable->of;
  if (const HoleType* hole = type.as<HoleType>()) return hole->of;
  return type.as<ShapeType>() ? Kind::kShape : Kind::kType;
}

bool has_kind(const Type& type, Kind wanted) {
  const TensorType* tensor = type.as<TensorType>();
  return kind_of(type) == wanted || (wanted == Kind::kBaseType && tensor && tensor->shape.empty());
}

void check_arguments(const TypeCall& call, const ModuleNode& module) {
  auto found = module.types.find(call.callee->name);
  if (found == module.types.end()) fail("type `{}` is not defined", call.callee->name);
  const std::vector<TypeVar>& params = found->second->type_params;
  if (call.args.size() != params.size())
    fail("type `{}` takes {} argument{}, got {}", call.callee->name, params.size(),
         params.size() == 1 ? "" : "s", call.args.size());
  for (size_t i = 0; i < params.size(); ++i)
    check_argument(call.args[i], params[i]->of,
                   fmt::format("argument {} of type `{}`", i + 1, call.callee->name), module);
}

void check_tensor(const GenericTensorType& tensor) {
  for (auto [part, wanted] : {std::pair(tensor.shape, Kind::kShape), std::pair(tensor.base, Kind::kBaseType)})
    if (!has_kind(part, wanted))
      fail("`{}` is of kind {}, {} is expected", print(part), kind_name(kind_of(part)), kind_name(wanted));
}

}  // namespace

void check_argument(const Type& type, Kind wanted, const std::string& what, const ModuleNode& module) {
  if (!has_kind(type, wanted))
    fail("{} is of kind {}, {} is expected", what, kind_name(kind_of(type)), kind_name(wanted));
  if (wanted == Kind::kType) check_kinds(type, module);
}

void check_kinds(const Type& type, const ModuleNode& module) {
  with_enough_stack([&] { check_kinds_once(type, module); });
}

namespace {
void check_kinds_once(const Type& type, const ModuleNode& module) {
  if (const TypeVarNode* variable = type.as<TypeVarNode>(); variable && variable->of != Kind::kType)
    fail("type variable `{}` is of kind {}, a type is expected", variable->name, kind_name(variable->of));
  if (type.as<ShapeType>()) fail("{} is of kind Shape, a type is expected", print(type));
  if (const GenericTensorType* tensor = type.as<GenericTensorType>()) return check_tensor(*tensor);
  if (const TypeCall* call = type.as<TypeCall>()) return check_arguments(*call, module);
  type->for_each_child([&](const NodeRef& child) {
    bool is_parameter = false;  // of a function type: defined there, not used
    if (const FuncType* function = type.as<FuncType>())
      for (const TypeVar& each : function->type_params) is_parameter |= child == each;
    if (!is_parameter && dynamic_cast<const TypeNode*>(child.get()))
      check_kinds(child.cast<TypeNode>(), module);
  });
}
}  // namespace

}  // namespace lathe::relay
