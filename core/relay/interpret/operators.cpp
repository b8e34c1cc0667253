#include "core/relay/interpret/operators.h"

#include <algorithm>

#include "core/relay/analysis/call_type.h"
#include "core/relay/interpret_closed.h"
#include "core/relay/lower.h"
#include "core/relay/ops/attrs_require.h"
#include "core/relay/text.h"
#include "core/tir/interpret.h"

namespace lathe::relay {
namespace {

bool has_constant_shapes(const Type& type) {
  const TupleType* tuple = type.as<TupleType>();
  return tuple ? std::all_of(tuple->items.begin(), tuple->items.end(), has_constant_shapes)
               : has_constant_shape(*type.as<TensorType>());
}

/// A value as an expression that knows its type.
Expr typed_literal(const Value& value) {
  if (const TensorValue* tensor = value.as<TensorValue>()) return typed_constant(tensor->tensor);
  std::vector<Expr> items;
  for (const Value& item : value.as<TupleValue>()->items) items.push_back(typed_literal(item));
  return typed_tuple(std::move(items));
}

/// The relation decides a condition that is a constant.
void check_requirement(const Call& call, const std::vector<Value>& args) {
  const RequireAttrs* attrs = call.attrs.as<RequireAttrs>();
  if (call.callee.as<OpNode>()->name != "require" || args.at(1).as<TensorValue>()->tensor.integer(0)) return;
  fail("{}", attrs ? attrs->message : RequireAttrs().message);
}

void append_memory(const Type& type, std::vector<Tensor>& tensors) {
  if (const TupleType* tuple = type.as<TupleType>()) {
    for (const Type& item : tuple->items) append_memory(item, tensors);
    return;
  }
  const TensorType& tensor = *type.as<TensorType>();
  tensors.emplace_back(constant_shape(tensor), tensor.dtype);
}

}  // namespace

Type type_of(const Value& value) {
  if (const TensorValue* tensor = value.as<TensorValue>())
    return tensor_type(tensor->tensor.shape(), tensor->tensor.dtype());
  const TupleValue* tuple = value.as<TupleValue>();
  if (!tuple) fail("{} is not a tensor or a tuple of tensors", print(value));
  std::vector<Type> items;
  for (const Value& item : tuple->items) items.push_back(type_of(item));
  return tuple_type(std::move(items));
}

void append_tensors(const Value& value, std::vector<Tensor>& tensors) {
  if (const TensorValue* tensor = value.as<TensorValue>()) return tensors.push_back(tensor->tensor);
  const TupleValue* tuple = value.as<TupleValue>();
  if (!tuple) fail("an argument is neither a tensor nor a tuple of tensors");
  for (const Value& item : tuple->items) append_tensors(item, tensors);
}

Value value_of(const Type& type, const std::vector<Tensor>& tensors, size_t& next) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return tensor_value(tensors.at(next++));
  std::vector<Value> items;
  for (const Type& item : tuple->items) items.push_back(value_of(item, tensors, next));
  return tuple_value(std::move(items));
}

/// Relations get variables: those that would read a constant give a result of unknown shape instead.
Operators::Program Operators::program(const Call& call, const std::vector<Type>& args) {
  const Op& op = call.callee.as<OpNode>()->row();
  if (!op.compute) fail("{} has no meaning as a tensor program", op.name);
  auto function = std::make_unique<Function>();
  for (const Type& type : args)
    function->params.push_back(with_checked_type(make_var("x", type), type).cast<VarNode>());
  function->body = typed_call(op.name, {function->params.begin(), function->params.end()}, call.attrs);
  Type result = function->body->checked_type;
  if (!has_constant_shapes(result)) return {result, nullptr};
  return {result, lower_function(seal(std::move(function)), op.name)};
}

Value Operators::run(const Call& call, const std::vector<Value>& args) {
  check_requirement(call, args);
  std::vector<Type> types;
  for (const Value& arg : args) types.push_back(type_of(arg));
  std::string key =
      fmt::format("{} {}", call.callee.as<OpNode>()->name, static_cast<const void*>(call.attrs.get()));
  for (const Type& type : types) key += " " + print(type);
  auto found = programs_.find(key);
  if (found == programs_.end()) {
    found = programs_.emplace(key, program(call, types)).first;
    keep_alive_.push_back(call.attrs);
  }
  const Program& program = found->second;
  std::vector<Tensor> tensors;
  size_t inputs = 0;
  Type result = program.result;
  if (program.func) {
    for (const Value& arg : args) append_tensors(arg, tensors);
    inputs = tensors.size();
    append_memory(result, tensors);
    tir::interpret(program.func, tensors);
  } else {
    std::vector<Expr> literals;
    for (const Value& arg : args) literals.push_back(typed_literal(arg));
    Expr closed = typed_call(call.callee.as<OpNode>()->name, std::move(literals), call.attrs);
    result = closed->checked_type;
    if (!has_constant_shapes(result)) fail("the shape of {} is not known even at run time", print(result));
    tensors = interpret_closed({closed});
  }
  return value_of(result, tensors, inputs);
}

}  // namespace lathe::relay
