#include "core/relay/infer/kinds.h"

#include "core/relay/text/names.h"

namespace lathe::relay {
namespace {

void check_arguments(const TypeCall& call, const ModuleNode& module) {
  auto found = module.types.find(call.callee->name);
  if (found == module.types.end()) fail("type `{}` is not defined", call.callee->name);
  const std::vector<TypeVar>& params = found->second->type_params;
  if (call.args.size() != params.size())
    fail("type `{}` takes {} argument{}, got {}", call.callee->name, params.size(),
         params.size() == 1 ? "" : "s", call.args.size());
  for (size_t i = 0; i < params.size(); ++i) {
    const TypeVarNode* variable = call.args[i].as<TypeVarNode>();
    Kind kind = variable ? variable->of : Kind::kType;
    if (kind != params[i]->of)
      fail("argument {} of type `{}` is of kind {}, {} is expected", i + 1, call.callee->name,
           kind_name(kind), kind_name(params[i]->of));
    if (kind == Kind::kType) check_kinds(call.args[i], module);
  }
}

}  // namespace

void check_kinds(const Type& type, const ModuleNode& module) {
  if (const TypeVarNode* variable = type.as<TypeVarNode>(); variable && variable->of != Kind::kType)
    fail("type variable `{}` is of kind {}, a type is expected", variable->name, kind_name(variable->of));
  if (const TypeCall* call = type.as<TypeCall>()) return check_arguments(*call, module);
  type->for_each_child([&](const NodeRef& child) {
    bool is_parameter = false;  // of a function type: defined there, not used
    if (const FuncType* function = type.as<FuncType>())
      for (const TypeVar& each : function->type_params) is_parameter |= child == each;
    if (!is_parameter && dynamic_cast<const TypeNode*>(child.get()))
      check_kinds(child.cast<TypeNode>(), module);
  });
}

}  // namespace lathe::relay
