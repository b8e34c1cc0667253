#include "core/relay/analysis/call_type.h"

#include "core/arith/simplify.h"

namespace lathe::relay {
namespace {

/// The relation of one call whose argument types are all known.
class KnownTypes final : public RelationContext {
 public:
  KnownTypes(const Op& op, const std::vector<Expr>& args) : op_(op), args_(args) {}
  const Op& op() const override { return op_; }
  const TensorType* tensor(size_t arg) override {
    const auto* type = this->type(arg).as<TensorType>();
    if (!type) fail("{}: argument {} is not a tensor", op_.name, arg + 1);
    return type;
  }
  Type type(size_t arg) override {
    CHECK(arg < args_.size() && args_[arg]->checked_type, "{}: argument {} has no type", op_.name, arg + 1);
    return args_[arg]->checked_type;
  }
  size_t args() const override { return args_.size(); }
  const Constant* constant(size_t arg) override { return args_[arg].as<Constant>(); }
  void result(Type type) override { result_ = std::move(type); }
  void unify_arg(size_t arg, Type type) override {
    if (!structural_equal(args_[arg]->checked_type, type))
      fail("{}: argument {} has another type than the others demand", op_.name, arg + 1);
  }
  void equal_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    // Symbolic dimensions pass: full inference has compared them, or will.
    const int64_t *x = as_int(a), *y = as_int(b);
    if (x && y && *x != *y) fail("{}: dimensions {} and {} must be equal", op_.name, *x, *y);
  }
  bool same_dim(const lathe::Expr& a, const lathe::Expr& b) override {
    equal_dims(a, b);
    return prove_equal(a, b);
  }
  const Type& result() const { return result_; }

 private:
  const Op& op_;
  const std::vector<Expr>& args_;
  Type result_;
};

template <typename T>
Expr typed(const Ref<T>& node, Type type) {
  auto copy = mutate(*node);
  copy->checked_type = std::move(type);
  return seal(std::move(copy));
}

}  // namespace

Type call_type(const Op& op, const std::vector<Expr>& args, const Attrs& attrs) {
  KnownTypes relation(op, args);
  Relation answer = op.infer(relation, attrs);
  CHECK(answer == Relation::kSolved && relation.result(), "{}: type not solved", op.name);
  return relation.result();
}

Expr typed_call(std::string_view name, std::vector<Expr> args, Attrs attrs) {
  const Op* op = find_op(name);
  if (!op) fail("operator {} is not supported", name);
  if (op->args >= 0 && args.size() != static_cast<size_t>(op->args))
    fail("{}: {} arguments, must be {}", name, args.size(), op->args);
  for (size_t i = 0; i < args.size(); ++i)
    if (!args[i]) fail("{}: argument {} is missing", name, i + 1);
  // The defaults, written out: calls with and without them are then equal.
  if (!attrs && op->attrs) attrs = NodeRef(op->attrs->create()).cast<AttrsNode>();
  Type type = call_type(*op, args, attrs);
  return typed(make<Call>(op_expr(name), std::move(args), std::move(attrs)), type);
}

Expr typed_constant(Tensor value) {
  Type type = tensor_type(value.shape(), value.dtype());
  return typed(make<Constant>(std::move(value)), type);
}

Expr typed_tuple(std::vector<Expr> items) {
  std::vector<Type> types;
  for (const Expr& item : items) {
    if (!item) fail("an item of a tuple is missing");
    types.push_back(item->checked_type);
  }
  return typed(make<Tuple>(std::move(items)), tuple_type(std::move(types)));
}

Expr typed_projection(const Expr& tuple, int64_t index) {
  const auto* type = tuple->checked_type.as<TupleType>();
  CHECK(type && index < static_cast<int64_t>(type->items.size()), "field {} of what has no such field",
        index);
  return typed(make<Projection>(tuple, index), type->items[static_cast<size_t>(index)]);
}

}  // namespace lathe::relay
