#include "core/relay/type.h"

#include <algorithm>

#include "core/relay/type_fields.h"

namespace lathe {
LATHE_DEFINE_NODE(relay::TensorType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::TupleType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::TypeVarNode, relay::TypeNode, Identity::kName)
LATHE_DEFINE_NODE(relay::HoleType, relay::TypeNode, Identity::kName)
LATHE_DEFINE_NODE(relay::ShapeType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::GenericTensorType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::RelationType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::FuncType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::RefType, relay::TypeNode)
LATHE_DEFINE_NODE(relay::GlobalTypeVarNode, relay::TypeNode)
LATHE_DEFINE_NODE(relay::TypeCall, relay::TypeNode)
}  // namespace lathe

namespace lathe::relay {

Type tensor_type(std::vector<lathe::Expr> shape, DataType dtype) {
  return make<TensorType>(std::move(shape), dtype);
}

Type tensor_type(const std::vector<int64_t>& shape, DataType dtype) {
  return tensor_type(std::vector<lathe::Expr>(shape.begin(), shape.end()), dtype);
}

Type tensor_of(const Type& shape, const Type& base) {
  const ShapeType* dims = shape.as<ShapeType>();
  const TensorType* scalar = base.as<TensorType>();
  if (!dims || !scalar) return make<GenericTensorType>(shape, base);
  return tensor_type(dims->dims, scalar->dtype);
}

Type base_type(DataType dtype) { return tensor_type(std::vector<lathe::Expr>{}, dtype); }

Type tuple_type(std::vector<Type> items) { return make<TupleType>(std::move(items)); }

Type func_type(std::vector<Type> params, Type result) {
  return make<FuncType>(std::vector<TypeVar>{}, std::move(params), std::move(result));
}

std::vector<int64_t> constant_shape(const TensorType& type) {
  std::vector<int64_t> shape;
  for (const lathe::Expr& dim : type.shape) shape.push_back(int_value(dim));
  return shape;
}

bool has_constant_shape(const TensorType& type) {
  return std::all_of(type.shape.begin(), type.shape.end(),
                     [](const lathe::Expr& dim) { return as_int(dim) != nullptr; });
}

}  // namespace lathe::relay
