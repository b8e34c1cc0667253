// Values: calls with their types inferred as they are made, constants folded on the way.
#include <algorithm>

#include "core/frontends/onnx_branches.h"
#include "core/relay/analysis/call_type.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/relay/text.h"

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

/// Of a tensor, or of all tensors in a tuple.
int64_t elements_of(const relay::Type& type) {
  if (const auto* tensor = type.as<relay::TensorType>())
    return relay::has_constant_shape(*tensor) ? shape_size(relay::constant_shape(*tensor)) : kFoldLimit + 1;
  int64_t sum = 0;
  for (const relay::Type& item : type.as<relay::TupleType>()->items) sum += elements_of(item);
  return sum;
}

/// What no machine computes is refused where the model asks for it: later nobody knows which node it was.
void require_sane(const relay::TensorType& type) {
  if (type.shape.size() > Node::kMostDims)
    fail("a tensor of {} dimensions, must have {} at most", type.shape.size(), Node::kMostDims);
  constexpr int64_t kMostBytes = int64_t{1} << 40;
  int64_t bytes = type.dtype.bytes();
  for (const Expr& dim : type.shape) {
    const auto* extent = as_int(dim);
    if (extent && (__builtin_mul_overflow(bytes, *extent, &bytes) || bytes > kMostBytes))
      fail("a tensor {} of more than {} bytes", relay::print(relay::Type(&type)), kMostBytes);
  }
}

/// The value of a call of constants; of a tuple, that of each field.
Value folded(const Value& call) {
  const auto* tuple = call->checked_type.as<relay::TupleType>();
  if (!tuple) return constant(relay::interpret_closed({call})[0]);
  std::vector<Value> fields;
  for (size_t i = 0; i < tuple->items.size(); ++i)
    fields.push_back(relay::typed_projection(call, static_cast<int64_t>(i)));
  std::vector<Value> values;
  for (Tensor& each : relay::interpret_closed(fields)) values.push_back(constant(std::move(each)));
  return relay::typed_tuple(values);
}

/// A product of operands without elements: zeros.
bool sums_nothing(const relay::Op& op, const relay::Call& call) {
  const auto* result = call.checked_type.as<relay::TensorType>();
  return op.product && result && relay::has_constant_shape(*result) &&
         std::any_of(call.args.begin(), call.args.end(),
                     [](const Value& arg) { return elements_of(arg->checked_type) == 0; });
}

}  // namespace

const relay::TensorType& type_of(const Value& value) {
  if (is_either(value))
    fail(
        "a value that is of several ranks or types by a condition, which must be known when the model is "
        "compiled where one tensor must be");
  const auto* type = value->checked_type.as<relay::TensorType>();
  if (!type) fail("a sequence, or an optional without a value, where a tensor must be: not supported");
  return *type;
}

std::vector<int64_t> shape_of(const Value& value) {
  const relay::TensorType& type = type_of(value);
  if (!relay::has_constant_shape(type))
    fail("an operand of type {} has dimensions that are open, which this operator does not take yet",
         relay::print(relay::Type(&type)));
  return relay::constant_shape(type);
}

const Tensor* known(const Value& value) {
  const auto* c = value.as<relay::Constant>();
  return c ? &c->value : nullptr;
}

Value constant(Tensor value) { return relay::typed_constant(std::move(value)); }

Value int_constant(const std::vector<int64_t>& values) {
  return constant(tensor_of(values, {static_cast<int64_t>(values.size())}, kInt64));
}

Value scalar(DataType dtype, double value) { return constant(full({}, dtype, value)); }

Value field_of(const Value& tuple, int64_t index) {
  if (const auto* items = tuple.as<relay::Tuple>()) return items->items.at(static_cast<size_t>(index));
  return with_named_sizes(relay::typed_projection(tuple, index));
}

Value tuple_of(const std::vector<Value>& items) { return relay::typed_tuple(items); }

Value emit(const char* name, std::vector<Value> args, relay::Attrs attrs) {
  // Calls without arguments (zeros, ones) may be of any size and are left as calls.
  bool known_args = !args.empty() && std::all_of(args.begin(), args.end(), small_constant);
  if (OpenDimensions::current() &&
      std::any_of(args.begin(), args.end(), [](const Value& arg) { return holds_handles(arg); })) {
    if (Value dims = known_args ? fold_dims(name, args, attrs) : nullptr) return dims;
    if (!known_args || !moves_alone(name, args)) {
      for (Value& arg : args) arg = as_data(arg);
      known_args = false;
    }
  }
  Value call = relay::typed_call(name, std::move(args), std::move(attrs));
  const auto* result = call->checked_type.as<relay::TensorType>();
  if (result) require_sane(*result);
  const relay::Op& op = *relay::find_op(name);
  // Of nothing there is nothing to compute, nor to schedule: blocks of no elements are what schedules stumble
  // over.
  if (result && op.compute && !op.stateful && elements_of(call->checked_type) == 0)
    return constant(Tensor(relay::constant_shape(*result), result->dtype));
  if (sums_nothing(op, *call.as<relay::Call>()))
    return relay::typed_call(
        "zeros", {}, make<relay::InitAttrs>(relay::constant_shape(*result), std::optional(result->dtype)));
  // Small arguments may still give a large result (a broadcast): that is left as a call.
  bool fold = known_args && op.compute && !op.stateful && elements_of(call->checked_type) <= kFoldLimit;
  return fold ? folded(call) : with_named_sizes(call);
}

Value reshape(const Value& value, const std::vector<int64_t>& shape) {
  if (has_open_dims(value)) return reshape_to(value, {shape.begin(), shape.end()});
  if (shape_of(value) == shape) return value;
  if (shape_size(shape_of(value)) != shape_size(shape))
    fail("cannot reshape {} to {}", shape_text(shape_of(value)), shape_text(shape));
  // Of any size: a reshaped tensor shares its elements with the given one.
  if (const Tensor* tensor = known(value)) return constant(tensor->reshaped(shape));
  return emit("reshape", {value}, make<relay::ReshapeAttrs>(shape, true));
}

Value cast_to(const Value& value, DataType dtype) {
  return type_of(value).dtype == dtype ? value : emit("cast", {value}, make<relay::CastAttrs>(dtype));
}

}  // namespace lathe::onnx
