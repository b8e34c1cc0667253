// The typing of calls: of operators, tensor programs and functions.
#include <algorithm>

#include "core/relay/infer/collector.h"
#include "core/relay/infer/generic.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// What the relation of one call sees of the inference under way. It lives for one try: a relation that waits
/// is asked anew, with another of these.
class Context : public RelationContext {
 public:
  /// The relation is stated at `e`. `exprs` are the arguments, or nothing where there are types alone.
  Context(Unifier& unifier, const Expr& e, const std::vector<Expr>& exprs, const Op& op,
          const std::vector<Type>& args, const Type& result)
      : unifier_(unifier), e_(e), exprs_(exprs), op_(op), args_(args), result_(result) {}

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
  const Constant* constant(size_t arg) override {
    return arg < exprs_.size() ? exprs_[arg].as<Constant>() : nullptr;
  }
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
    if (!same_dim(a, b)) undecided_.push_back({e_, a, b});
  }
  void broadcast_dims(const lathe::Expr& a, const lathe::Expr& b) override {
    undecided_.push_back({e_, a, b, /*or_one=*/true});
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
  const Expr& e_;
  const std::vector<Expr>& exprs_;
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
  relate(e, row, e->args, args, e->attrs, result);
}

/// States the relation of an operator at `e`, which is a call of it on `exprs`, or a use of a function that
/// demands it between types.
void TypeCollector::relate(const Expr& e, const Op& row, const std::vector<Expr>& exprs,
                           const std::vector<Type>& args, const Attrs& attrs, const Type& result) {
  wait(e, args, [this, e, &row, exprs, args, attrs, result, given = given_] {
    std::vector<Type> known;
    bool generic = false;
    for (const Type& each : args) {
      known.push_back(unifier_.resolve(each));
      generic |= is_generic(known.back());
    }
    Context context(unifier_, e, exprs, row, args, result);
    if (generic) {
      std::vector<const HoleType*> holes;
      for (const Type& each : known) unifier_.unsolved(each, holes);
      if (!holes.empty()) return false;
      context.result(generic_result(row, exprs, known, attrs, *given));
      return true;
    }
    if (row.infer(context, attrs) != Relation::kSolved) return false;
    checks_.insert(checks_.end(), context.undecided().begin(), context.undecided().end());
    return true;
  });
}

/// What instances of polymorphic functions, made for `e`, demand of their type parameters.
void TypeCollector::meet_demands(const Expr& e) {
  for (const Type& each : unifier_.take_demands()) {
    const RelationType& relation = *each.as<RelationType>();
    const Op* row = find_op(relation.op);
    if (!row || !row->infer) type_error(e, fmt::format("there is no operator `{}` to demand", relation.op));
    relate(e, *row, {}, relation.args, relation.attrs, relation.result);
  }
}

namespace {
/// What a type of tuples, within each other, has in their places, in order.
std::vector<Type> fields_of(const Type& type) {
  std::vector<Type> fields, left{type};
  while (!left.empty()) {
    const Type next = left.back();
    left.pop_back();
    if (const TupleType* tuple = next.as<TupleType>())
      left.insert(left.end(), tuple->items.rbegin(), tuple->items.rend());
    else
      fields.push_back(next);
  }
  return fields;
}

bool has_unknown_dim(const Type& type) {
  const TensorType* tensor = type.as<TensorType>();
  return tensor && std::any_of(tensor->shape.begin(), tensor->shape.end(),
                               [](const lathe::Expr& dim) { return dim.as<Any>() != nullptr; });
}
}  // namespace

/// The first parameters of a tensor program are its inputs, the others what it writes.
void TypeCollector::call_tensor_program(const Ref<Call>& e) {
  if (!e->out_type)
    type_error(e, "a call of a tensor program or library function needs the type of its result");
  check_kinds(e, e->out_type);
  for (const Expr& arg : e->args) known(arg);
  if (e->callee.as<PrimFunc>()) {
    // Each call may be of other extents.
    Type callee = unifier_.with_flexible_dims(known(e->callee));
    const std::vector<Type>& params = callee.as<FuncType>()->params;
    // Who calls makes room for it.
    const std::vector<Type> results = fields_of(e->out_type);
    if (std::any_of(results.begin(), results.end(), has_unknown_dim))
      type_error(e, fmt::format("the result has type {}, whose sizes must be known", text(e->out_type)));
    const auto written = static_cast<size_t>(e->callee.as<PrimFunc>()->func->outputs);
    const size_t read = params.size() - written;
    if (e->args.size() != read || results.size() != written)
      type_error(e, fmt::format("the tensor program takes {} and gives {} tensors, not {} and {}", read,
                                written, e->args.size(), results.size()));
    for (size_t i = 0; i < read; ++i)
      demand(e, known(e->args[i]), params[i], fmt::format("argument {}", i + 1));
    for (size_t i = 0; i < written; ++i)
      demand(e, results[i], params[read + i], fmt::format("result {}", i + 1));
    require_told_sizes(e);
  }
  set(e, e->out_type);
}

/// `?` fits any size, and nothing would see whether it is the one that the tensor program has elsewhere.
void TypeCollector::require_told_sizes(const Ref<Call>& e) {
  std::vector<Type> args;
  for (const Expr& arg : e->args) args.push_back(known(arg));
  wait(e, args, [this, e, args] {
    const std::vector<tir::Buffer>& params = e->callee.as<PrimFunc>()->func->params;
    const auto occurs_once = [&](const lathe::Expr& dim) {
      size_t count = 0;
      for (const tir::Buffer& param : params)
        for (const lathe::Expr& extent : param->shape) count += uses_var(extent, dim.as<lathe::VarNode>());
      return count == 1;
    };
    for (size_t i = 0; i < args.size(); ++i) {
      const Type type = unifier_.resolve(args[i]);
      const TensorType* tensor = type.as<TensorType>();
      if (!tensor) return false;
      for (size_t d = 0; d < tensor->shape.size(); ++d)
        if (const lathe::Expr& wanted = params[i]->shape[d];
            tensor->shape[d].as<Any>() && !(wanted.as<lathe::VarNode>() && occurs_once(wanted)))
          fail("argument {} has type {}, whose sizes must be known: match_cast gives them names", i + 1,
               text(type));
    }
    return true;
  });
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
  if (e->type_args.size() > type->type_params.size())
    type_error(e, fmt::format("{} type arguments for {} type parameters", e->type_args.size(),
                              type->type_params.size()));
  for (size_t i = 0; i < e->type_args.size(); ++i)
    check_type_arg(e, e->type_args[i], type->type_params[i]->of, fmt::format("type argument {}", i + 1));
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
  meet_demands(e);
}

}  // namespace lathe::relay
