// Values: calls with their types inferred as they are made, constants folded on the way.
#include <algorithm>

#include "core/frontends/onnx_converter.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/ops/attrs_tensor.h"

namespace lathe::onnx {
namespace {

/// Results up to this many elements are folded by the interpreter while importing; the rest is left to the
/// passes.
constexpr int64_t kFoldLimit = 1 << 14;

bool small_constant(const Value& value) {
  if (!value) return false;
  if (const auto* t = value.as<relay::Tuple>())
    return std::all_of(t->items.begin(), t->items.end(), small_constant);
  const auto* c = value.as<relay::Constant>();
  return c && c->value.size() <= kFoldLimit;
}

}  // namespace

const relay::TensorType& type_of(const Value& value) {
  const auto* type = value->checked_type.as<relay::TensorType>();
  CHECK(type, "an ONNX value without a tensor type");
  return *type;
}

std::vector<int64_t> shape_of(const Value& value) { return relay::constant_shape(type_of(value)); }

const Tensor* known(const Value& value) {
  const auto* c = value.as<relay::Constant>();
  return c ? &c->value : nullptr;
}

Value constant(Tensor value) { return relay::typed_constant(std::move(value)); }

Value int_constant(const std::vector<int64_t>& values) {
  return constant(tensor_of(values, {static_cast<int64_t>(values.size())}, kInt64));
}

Value scalar(DataType dtype, double value) { return constant(full({}, dtype, value)); }

Value field_of(const Value& tuple, int64_t index) { return relay::typed_projection(tuple, index); }

Value tuple_of(const std::vector<Value>& items) { return relay::typed_tuple(items); }

Value emit(const char* name, std::vector<Value> args, relay::Attrs attrs) {
  bool known_args = !args.empty() && std::all_of(args.begin(), args.end(), small_constant);
  Value call = relay::typed_call(name, std::move(args), std::move(attrs));
  const auto* type = call->checked_type.as<relay::TensorType>();
  const relay::Op& op = *relay::find_op(name);
  bool fold = known_args && type && op.compute && !op.stateful &&
              shape_size(relay::constant_shape(*type)) <= kFoldLimit;
  return fold ? constant(relay::interpret_closed({call})[0]) : call;
}

Value reshape(const Value& value, const std::vector<int64_t>& shape) {
  if (shape_of(value) == shape) return value;
  if (const Tensor* tensor = known(value)) return constant(tensor->reshaped(shape));
  return emit("reshape", {value}, make<relay::ReshapeAttrs>(shape, true));
}

Value cast_to(const Value& value, DataType dtype) {
  return type_of(value).dtype == dtype ? value : emit("cast", {value}, make<relay::CastAttrs>(dtype));
}

}  // namespace lathe::onnx
