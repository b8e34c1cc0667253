// The typing of calls: of operators, tensor programs and functions.
#include "core/relay/infer/collector.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// What the relation of one call sees of the inference under way. It lives for one try: a relation that waits
/// is asked anew, with another of these.
class Context : public RelationContext {
 public:
  Context(Unifier& unifier, const Call& call, const Op& op, const std::vector<Type>& args, const Type& result)
      : unifier_(unifier), call_(call), op_(op), args_(args), result_(result) {}

  const Op& op() const override { return op_; }
  size_t args() const override { return args_.size(); }
  // The resolved type may be a new node that nobody else holds; the relation keeps plain pointers into it.
  Type type(size_t arg) override { return kept_.emplace_back(unifier_.resolve(args_.at(arg))); }
  const TensorType* tensor(size_t arg) override {
    Type resolved = type(arg);
    if (resolved.as<HoleType>()) return nullptr;
    if (!resolved.as<TensorType>())
      fail("{}: argument {} has type {}, a tensor is expected", op_.name, arg + 1, print(resolved));
    return resolved.as<TensorType>();
  }
  const Constant* constant(size_t arg) override { return call_.args.at(arg).as<Constant>(); }
  void result(Type type) override {
    Type before = unifier_.resolve(result_);
    if (!unifier_.unify(result_, type))
      fail("{}: the result has type {}, {} is expected", op_.name, print(type), print(before));
  }
  void unify_arg(size_t arg, Type wanted) override {
    Type before = type(arg);
    if (!unifier_.unify(args_.at(arg), wanted))
      fail("{}: argument {} has type {}, {} is expected", op_.name, arg + 1, print(before), print(wanted));
  }
  void equal_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    if (!same_dim(a, b)) undecided_.push_back({Expr(&call_), a, b});
  }
  void broadcast_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    undecided_.push_back({Expr(&call_), a, b, /*or_one=*/true});
  }
  bool same_dim(const lathe::Expr& a, const lathe::Expr& b) override {
    if (unifier_.unify_dims(a, b)) return true;
    // Only a difference that is a constant other than 0 is wrong whatever the symbols stand for.
    if (unifier_.never_equal(a, b))
      fail("{}: dimension {} differs from {}", op_.name, print(unifier_.resolve_dim(a)),
           print(unifier_.resolve_dim(b)));
    return false;
  }
  const std::vector<DimCheck>& undecided() const { return undecided_; }

 private:
  Unifier& unifier_;
  const Call& call_;
  const Op& op_;
  const std::vector<Type>& args_;
  const Type& result_;
  std::vector<Type> kept_;  // what type() handed out
  std::vector<DimCheck> undecided_;
};

}  // namespace

void TypeCollector::visit_call(const Ref<Call>& e) {
  if (const OpNode* op = e->callee.as<OpNode>()) return call_operator(e, *op);
  if (e->callee.as<ExternFunc>() || e->callee.as<PrimFunc>()) return call_tensor_program(e);
  call_function(e, known(e->callee));
}

/// The result is a hole until the relation gives it; others unify with that meanwhile.
void TypeCollector::call_operator(const Ref<Call>& e, const OpNode& op) {
  const Op& row = op.row();
  if (row.args >= 0 && static_cast<size_t>(row.args) != e->args.size())
    type_error(e, fmt::format("{} takes {} argument{}, got {}", op.name, row.args, row.args == 1 ? "" : "s",
                              e->args.size()));
  if (!row.infer) type_error(e, fmt::format("{} has no type relation yet", op.name));
  std::vector<Type> args;
  for (const Expr& arg : e->args) args.push_back(known(arg));
  Type result = unifier_.fresh_hole();
  set(e, result);
  wait(e, args, [this, e, &row, args, result] {
    Context context(unifier_, *e, row, args, result);
    if (row.infer(context, e->attrs) != Relation::kSolved) return false;
    checks_.insert(checks_.end(), context.undecided().begin(), context.undecided().end());
    return true;
  });
}

/// The first parameters of a tensor program are its inputs.
void TypeCollector::call_tensor_program(const Ref<Call>& e) {
  if (!e->out_type)
    type_error(e, "a call of a tensor program or library function needs the type of its result");
  check_kinds(e, e->out_type);
  for (const Expr& arg : e->args) known(arg);
  if (e->callee.as<PrimFunc>()) {
    // Each call may be of other extents.
    Type callee = unifier_.with_flexible_dims(known(e->callee));
    const std::vector<Type>& params = callee.as<FuncType>()->params;
    if (e->args.size() >= params.size())
      type_error(e, fmt::format("a tensor program of {} parameters, results included, gets {} arguments",
                                params.size(), e->args.size()));
    for (size_t i = 0; i < e->args.size(); ++i)
      demand(e, known(e->args[i]), params[i], fmt::format("argument {}", i + 1));
  }
  set(e, e->out_type);
}

/// A call of a function value. Of a callee that is a hole yet, it is only known that it takes these
/// arguments: such a function is monomorphic.
void TypeCollector::call_function(const Ref<Call>& e, const Type& callee) {
  std::vector<Type> args;
  for (const Expr& arg : e->args) args.push_back(known(arg));
  Type result = unifier_.fresh_hole(), top = unifier_.shallow(callee);
  set(e, result);
  const FuncType* type = top.as<FuncType>();
  if (!type) return demand(place(e->callee, e), top, func_type(args, result), "what is called");
  for (const Type& each : e->type_args) check_kinds(e, each);
  if (e->type_args.size() > type->type_params.size())
    type_error(e, fmt::format("{} type arguments for {} type parameters", e->type_args.size(),
                              type->type_params.size()));
  Ref<FuncType> instance = unifier_.instantiate(*type, e->type_args);
  if (instance->params.size() != args.size())
    type_error(e, fmt::format("a function of type {} gets {} argument{}", text(top), args.size(),
                              args.size() == 1 ? "" : "s"));
  // Polymorphic arguments last: the others may tell which instance of them is meant.
  for (bool polymorphic : {false, true})
    for (size_t i = 0; i < args.size(); ++i)
      if (unifier_.is_polymorphic(args[i]) == polymorphic && !unifier_.fits(args[i], instance->params[i]))
        mismatch(e, args[i], instance->params[i], fmt::format("argument {}", i + 1));
  CHECK(unifier_.unify(result, instance->result), "a fresh hole takes any type");
}

}  // namespace lathe::relay
