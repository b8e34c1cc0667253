// Values: calls with their types inferred as they are made, constants folded on the way.
#include <algorithm>

#include "core/frontends/onnx_converter.h"
#include "core/relay/lower.h"
#include "core/relay/ops/attrs_tensor.h"
#include "core/tir/interpret.h"

namespace lathe::onnx {
namespace {

/// Results up to this many elements are folded by the interpreter while importing; the rest is left to the
/// passes.
constexpr int64_t kFoldLimit = 1 << 14;

/// The relation of one call whose argument types are all known.
class KnownTypes final : public relay::RelationContext {
 public:
  KnownTypes(const relay::Op& op, const std::vector<Value>& args) : op_(op), args_(args) {}
  const relay::Op& op() const override { return op_; }
  const relay::TensorType* tensor(size_t arg) override {
    const auto* type = args_[arg]->checked_type.as<relay::TensorType>();
    if (!type) fail("{}: argument {} is not a tensor", op_.name, arg);
    return type;
  }
  relay::Type type(size_t arg) override { return args_[arg]->checked_type; }
  size_t args() const override { return args_.size(); }
  const relay::Constant* constant(size_t arg) override { return args_[arg].as<relay::Constant>(); }
  void result(relay::Type type) override { result_ = std::move(type); }
  void unify_arg(size_t arg, relay::Type type) override {
    if (!structural_equal(args_[arg]->checked_type, type))
      fail("{}: argument {} has another type than the others demand", op_.name, arg);
  }
  void equal_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    const int64_t *x = as_int(a), *y = as_int(b);
    if (x && y && *x != *y) fail("{}: dimensions {} and {} must be equal", op_.name, *x, *y);
  }
  const relay::Type& result() const { return result_; }

 private:
  const relay::Op& op_;
  const std::vector<Value>& args_;
  relay::Type result_;
};

template <typename T>
Value typed(Ref<T> node, relay::Type type) {
  auto copy = mutate(*node);
  copy->checked_type = std::move(type);
  return seal(std::move(copy));
}

bool small_constant(const Value& value) {
  if (const auto* t = value.as<relay::Tuple>())
    return std::all_of(t->items.begin(), t->items.end(), small_constant);
  const auto* c = value.as<relay::Constant>();
  return c && c->value.size() <= kFoldLimit;
}

bool foldable(const relay::Op& op, const std::vector<Value>& args, const relay::Type& result) {
  if (!op.compute || op.stateful || args.empty()) return false;
  const auto* type = result.as<relay::TensorType>();
  if (!type || shape_size(relay::constant_shape(*type)) > kFoldLimit) return false;
  return std::all_of(args.begin(), args.end(), small_constant);
}

Tensor evaluated(const Value& call, const relay::TensorType& type) {
  auto function = make<relay::Function>(std::vector<relay::TypeVar>{}, std::vector<relay::Var>{},
                                        call->checked_type, call);
  tir::Func program = relay::lower_function(function, "fold");
  Tensor result(relay::constant_shape(type), type.dtype);
  tir::interpret(program, std::vector<Tensor>{result});
  return result;
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

Value constant(Tensor value) {
  relay::Type type = relay::tensor_type(value.shape(), value.dtype());
  return typed(make<relay::Constant>(std::move(value)), type);
}

Value int_constant(const std::vector<int64_t>& values) {
  return constant(tensor_of(values, {static_cast<int64_t>(values.size())}, kInt64));
}

Value scalar(DataType dtype, double value) { return constant(full({}, dtype, value)); }

Value field_of(const Value& tuple, int64_t index) {
  const auto* type = tuple->checked_type.as<relay::TupleType>();
  CHECK(type && index < static_cast<int64_t>(type->items.size()));
  return typed(make<relay::Projection>(tuple, index), type->items[static_cast<size_t>(index)]);
}

Value tuple_of(const std::vector<Value>& items) {
  std::vector<relay::Type> types;
  for (const Value& item : items) {
    if (!item) fail("an input is missing");
    types.push_back(item->checked_type);
  }
  return typed(make<relay::Tuple>(items), relay::tuple_type(types));
}

Value emit(const char* name, std::vector<Value> args, relay::Attrs attrs) {
  const relay::Op* op = relay::find_op(name);
  if (!op) fail("operator {} is not supported", name);
  if (op->args >= 0 && args.size() != static_cast<size_t>(op->args))
    fail("{} inputs, must be {}", args.size(), op->args);
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i]) fail("input {} is missing", i);
  KnownTypes relation(*op, args);
  if (!attrs && op->attrs) attrs = NodeRef(op->attrs->create()).cast<relay::AttrsNode>();
  relay::Relation answer = op->infer(relation, attrs);
  CHECK(answer == relay::Relation::kSolved && relation.result(), "{}: type not solved", name);
  relay::Type result = relation.result();
  bool fold = foldable(*op, args, result);
  Value call = typed(make<relay::Call>(relay::op_expr(name), std::move(args), std::move(attrs)), result);
  return fold ? constant(evaluated(call, *result.as<relay::TensorType>())) : call;
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
