#include "core/relay/infer/collector.h"

#include "core/arith/simplify.h"
#include "core/relay/analysis/match_coverage.h"
#include "core/relay/passes/infer_type.h"
#include "core/relay/text.h"

namespace lathe::relay {
namespace {

/// Leaves of a tuple type written out in full, shared parts counted each time: walking, comparing and
/// printing a type take as long as that.
constexpr size_t kMaxTupleParts = 1'000'000;

/// Declares the type of let-bound functions before their bodies are typed: they may be recursive and
/// polymorphic.
class LetFunctions : public ExprVisitor {
 public:
  explicit LetFunctions(FunctionRef<void(const Ref<Let>&)> f) : f_(f) {}

 private:
  void enter_let(const Ref<Let>& let) override {
    if (let->value.as<Function>()) f_(let);
  }
  FunctionRef<void(const Ref<Let>&)> f_;
};

/// What the relation of one call sees of the inference under way. It lives for one try: a relation that waits
/// is asked anew, with another of these.
class Context : public RelationContext {
 public:
  Context(Unifier& unifier, const Call& call, const Op& op, const std::vector<Type>& args, const Type& result)
      : unifier_(unifier), call_(call), op_(op), args_(args), result_(result) {}

  const Op& op() const override { return op_; }
  size_t args() const override { return args_.size(); }
  Type type(size_t arg) override { return unifier_.resolve(args_.at(arg)); }
  // The resolved type may be a new node that nobody else holds; the relation keeps a plain pointer to it.
  const TensorType* tensor(size_t arg) override {
    Type resolved = type(arg);
    if (resolved.as<HoleType>()) return nullptr;
    if (!resolved.as<TensorType>())
      fail("{}: argument {} has type {}, a tensor is expected", op_.name, arg + 1, print(resolved));
    kept_.push_back(resolved);
    return kept_.back().as<TensorType>();
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
    // Symbolic dimensions that merely can't be shown to agree pass: only a difference that is a constant
    // other than 0 is wrong whatever the symbols stand for.
    if (unifier_.unify_dims(a, b)) return;
    lathe::Expr difference = simplify(unifier_.resolve_dim(a) - unifier_.resolve_dim(b));
    if (as_int(difference) && !is_int(difference, 0))
      fail("{}: dimension {} differs from {}", op_.name, print(unifier_.resolve_dim(a)),
           print(unifier_.resolve_dim(b)));
  }

 private:
  Unifier& unifier_;
  const Call& call_;
  const Op& op_;
  const std::vector<Type>& args_;
  const Type& result_;
  std::vector<Type> kept_;  // what tensor() handed out
};

}  // namespace

void type_error(const Expr& e, std::string_view message) { throw TypeError(e->span, std::string(message)); }

TypeCollector::TypeCollector(const Module& module)
    // Only queues: a relation that ran from inside unify() would see types half unified. A relation that
    // still waits afterwards registers again, with the holes that are left.
    : module_(module), unifier_([this](const HoleType* hole) {
        auto found = dependents_.find(hole);
        if (found == dependents_.end()) return;
        for (Waiting* each : found->second)
          if (!each->solved && !std::exchange(each->queued, true)) queue_.push_back(each);
        dependents_.erase(found);
      }) {
  // Signatures of all before the body of any, for functions that call each other in a circle.
  for (const auto& [name, function] : module_->functions) globals_[name] = signature(function);
}

void TypeCollector::add(const std::string& name) {
  // What calls inside the function itself (recursion) unifies with its own dimensions; callers that come
  // later get dimensions of their own, as generalization of Hindley-Milner does for type variables.
  visit(module_->functions.at(name));
  run_queue();
  generalized_.insert(name);
}

/// A relation that waits although nothing is unknown about its arguments leaves its result a hole: type_of
/// reports that one.
void TypeCollector::finish() {
  run_queue();
  for (const Waiting& each : waiting_) {
    if (each.solved) continue;
    for (size_t i = 0; i < each.types.size(); ++i) {
      std::vector<const HoleType*> holes;
      unifier_.unsolved(each.types[i], holes);
      if (holes.empty()) continue;
      const Call* call = each.e.as<Call>();
      const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
      type_error(
          each.e,
          fmt::format("{}: the type of {} is not known, only {}; annotate it", op ? op->name : "projection",
                      op ? fmt::format("argument {}", i + 1) : "the tuple", text(each.types[i])));
    }
  }
}

Type TypeCollector::type_of(const Expr& e) const {
  auto found = types_.find(e.get());
  if (found == types_.end()) return nullptr;
  Type type = unifier_.resolve(found->second);
  std::vector<const HoleType*> holes;
  unifier_.unsolved(type, holes);
  if (!holes.empty()) {
    const VarNode* variable = e.as<VarNode>();
    std::string what = variable ? fmt::format("`%{}`", variable->name) : "this expression";
    type_error(e, fmt::format("the type of {} is not determined, only {}; annotate it", what, text(type)));
  }
  return unifier_.close(type);
}

std::string TypeCollector::text(const Type& type) const { return print(unifier_.resolve(type)); }

Type TypeCollector::annotated(const Type& annotation) {
  return annotation ? annotation : unifier_.fresh_hole();
}

/// The type of `e`, perhaps a hole. Operators and library functions have none on their own: their calls are
/// typed by visit_call, which does not ask here.
Type TypeCollector::known(const Expr& e) {
  visit(e);
  auto found = types_.find(e.get());
  if (found == types_.end()) type_error(e, "an operator or library function is not a value; call it");
  return found->second;
}

/// Makes the two types equal or throws at the place of `e`. `what` is the subject of the message.
void TypeCollector::demand(const Expr& e, const Type& found, const Type& wanted, std::string_view what) {
  if (!unifier_.unify(found, wanted))
    type_error(e, fmt::format("{} has type {}, {} is expected", what, text(found), text(wanted)));
}

/// The function's type by its annotations, with holes where there is none. Its variables get theirs.
Type TypeCollector::signature(const Ref<Function>& function) {
  auto [found, is_new] = types_.try_emplace(function.get());
  if (!is_new) return found->second;
  std::vector<Type> params;
  for (const Var& param : function->params) {
    params.push_back(annotated(param->annotation));
    set(param, params.back());
  }
  return types_[function.get()] =
             make<FuncType>(function->type_params, std::move(params), annotated(function->result_type));
}

/// Most relations are solved here at once, since operands are visited first; the queue is for the others.
void TypeCollector::wait(const Expr& e, std::vector<Type> types, std::function<bool()> solve) {
  waiting_.push_back({e, std::move(types), std::move(solve)});
  try_solve(waiting_.back());
}

/// One try. A hole that stands in the way calls this one again, once, when it is bound.
void TypeCollector::try_solve(Waiting& waiting) {
  waiting.queued = false;
  try {
    waiting.solved = waiting.solve();
  } catch (const Error& error) {
    type_error(waiting.e, error.what());
  }
  if (waiting.solved) return;
  std::vector<const HoleType*> holes;
  for (const Type& type : waiting.types) unifier_.unsolved(type, holes);
  for (const HoleType* hole : holes) dependents_[hole].push_back(&waiting);
}

/// Ends: each entry was put there by the binding of a hole, and a hole is bound once.
void TypeCollector::run_queue() {
  while (!queue_.empty()) {
    Waiting* next = queue_.front();
    queue_.pop_front();
    if (!next->solved) try_solve(*next);
  }
}

void TypeCollector::visit_default(const Expr& e) { CHECK(false, "no typing rule for {}", e->type().name); }

void TypeCollector::visit_constant(const Ref<Constant>& e) {
  set(e, tensor_type(e->value.shape(), e->value.dtype()));
}

void TypeCollector::visit_var(const Var& e) {
  if (!types_.count(e.get())) set(e, annotated(e->annotation));
}

void TypeCollector::visit_global_var(const GlobalVar& e) {
  auto found = globals_.find(e->name);
  if (found == globals_.end()) type_error(e, fmt::format("there is no function `@{}`", e->name));
  // A function that is under way is monomorphic in its dimensions: with fresh ones at each use, its own
  // recursive calls would determine nothing.
  set(e, generalized_.count(e->name) ? unifier_.with_flexible_dims(found->second) : found->second);
}

/// A constructor is a polymorphic function from its fields to the data type: Cons: fn<A>(A, List[A]) ->
/// List[A].
void TypeCollector::visit_constructor(const Constructor& e) {
  auto found = module_->types.find(e->belongs_to->name);
  if (found == module_->types.end())
    type_error(e, fmt::format("type `{}` is not defined", e->belongs_to->name));
  const TypeDataNode& data = *found->second;
  Type result =
      make<TypeCall>(e->belongs_to, std::vector<Type>(data.type_params.begin(), data.type_params.end()));
  set(e, make<FuncType>(data.type_params, e->inputs, result));
}

void TypeCollector::visit_let(const Ref<Let>& e) { set(e, known(e->body)); }

/// Between value and body, so that the body sees the variable's type; long chains of lets stay off the stack.
void TypeCollector::enter_let(const Ref<Let>& let) {
  visit(let->var);
  demand(let->value, known(let->value), types_.at(let->var.get()),
         fmt::format("the value of `%{}`", let->var->name));
}

void TypeCollector::visit_function(const Ref<Function>& e) {
  Type type = signature(e);
  LetFunctions([&](const Ref<Let>& let) {
    if (!let->var->annotation) types_.try_emplace(let->var.get(), signature(let->value.cast<Function>()));
  }).visit(e->body);
  demand(e->body, known(e->body), type.as<FuncType>()->result, "the body of the function");
}

void TypeCollector::visit_tuple(const Ref<Tuple>& e) {
  std::vector<Type> items;
  size_t parts = 1;
  for (const Expr& item : e->items) {
    items.push_back(known(item));
    auto found = tuple_parts_.find(unifier_.shallow(items.back()).get());
    parts += found == tuple_parts_.end() ? 1 : found->second;
  }
  // Pairs of pairs of pairs ... double with each line of a program.
  if (parts > kMaxTupleParts)
    type_error(e, fmt::format("a tuple type of more than {} parts", kMaxTupleParts));
  Type type = tuple_type(std::move(items));
  tuple_parts_[type.get()] = parts;
  set(e, type);
}

void TypeCollector::visit_projection(const Ref<Projection>& e) {
  // The tuple may be a hole yet (a parameter without annotation): how many items it has, nobody can guess, so
  // the projection waits as an operator does.
  Type tuple = known(e->tuple), item = unifier_.fresh_hole();
  set(e, item);
  wait(e, {tuple}, [=, this] {
    Type type = unifier_.shallow(tuple);
    if (type.as<HoleType>()) return false;
    const TupleType* items = type.as<TupleType>();
    if (!items) fail("item {} of a value of type {}, which is not a tuple", e->index, text(type));
    if (e->index < 0 || e->index >= static_cast<int64_t>(items->items.size()))
      fail("item {} of a tuple of {}", e->index, items->items.size());
    return unifier_.unify(item, items->items[e->index]);
  });
}

void TypeCollector::visit_if(const Ref<If>& e) {
  demand(e->condition, known(e->condition), tensor_type(std::vector<lathe::Expr>{}, kBool), "the condition");
  Type type = known(e->then_case);
  demand(e->else_case, known(e->else_case), type, "the else branch");
  set(e, type);
}

/// All clauses give one type. Coverage is checked on patterns alone, which needs no types.
void TypeCollector::visit_match(const Ref<Match>& e) {
  Type value = known(e->value), result = unifier_.fresh_hole();
  for (const Clause& clause : e->clauses) {
    bind_pattern(e, clause.pattern, value);
    demand(clause.body, known(clause.body), result, "the clause");
  }
  std::string uncovered = e->complete ? find_uncovered(*e, module_) : "";
  if (!uncovered.empty())
    type_error(e, fmt::format("no clause matches {}; add one, or write match?", uncovered));
  set(e, result);
}

/// Types the variables of `pattern`, which is matched with a value of `type`.
void TypeCollector::bind_pattern(const Expr& match, const Pattern& pattern, const Type& type) {
  switch (pattern->kind()) {
    case PatternKind::kWildcard:
      return;
    case PatternKind::kVar: {
      const Var& variable = pattern.as<VarPattern>()->var;
      visit(variable);
      return demand(match, type, types_.at(variable.get()),
                    fmt::format("what `%{}` matches", variable->name));
    }
    case PatternKind::kTuple: {
      std::vector<Type> items;
      for (size_t i = 0; i < pattern.as<TuplePattern>()->items.size(); ++i)
        items.push_back(unifier_.fresh_hole());
      demand(match, type, tuple_type(items), "the matched value");
      for (size_t i = 0; i < items.size(); ++i)
        bind_pattern(match, pattern.as<TuplePattern>()->items[i], items[i]);
      return;
    }
    case PatternKind::kConstructor:
      break;
  }
  const ConstructorPattern& constructor = *pattern.as<ConstructorPattern>();
  // The data type's arguments come out of the matched value: its type unified with the constructor's result.
  Ref<FuncType> instance = unifier_.instantiate(*known(constructor.constructor).as<FuncType>());
  demand(match, type, instance->result, "the matched value");
  if (constructor.items.size() != instance->params.size())
    type_error(match, fmt::format("{} has {} fields, the pattern {}", constructor.constructor->name,
                                  instance->params.size(), constructor.items.size()));
  for (size_t i = 0; i < constructor.items.size(); ++i)
    bind_pattern(match, constructor.items[i], instance->params[i]);
}

void TypeCollector::visit_ref_create(const Ref<RefCreate>& e) { set(e, make<RefType>(known(e->value))); }

void TypeCollector::visit_ref_read(const Ref<RefRead>& e) {
  Type value = unifier_.fresh_hole();
  demand(e->ref, known(e->ref), make<RefType>(value), "what is read");
  set(e, value);
}

void TypeCollector::visit_ref_write(const Ref<RefWrite>& e) {
  demand(e->ref, known(e->ref), make<RefType>(known(e->value)), "what is written");
  set(e, tuple_type({}));
}

/// fn(T...) -> R gives fn(T...) -> (R, (T...)).
void TypeCollector::visit_grad(const Ref<Grad>& e) {
  Type function = unifier_.shallow(known(e->function));
  const FuncType* type = function.as<FuncType>();
  if (!type) type_error(e, fmt::format("grad of a value of type {}; a function is expected", text(function)));
  set(e,
      make<FuncType>(type->type_params, type->params, tuple_type({type->result, tuple_type(type->params)})));
}

/// Destination-passing: results are parameters too, and nothing is returned.
void TypeCollector::visit_prim_func(const Ref<PrimFunc>& e) {
  std::vector<Type> params;
  for (const tir::Buffer& each : e->func->params) params.push_back(tensor_type(each->shape, each->dtype));
  set(e, make<FuncType>(std::vector<TypeVar>{}, std::move(params), tuple_type({})));
}

/// Checked at run time: the type is what the cast says, whatever is known of the value.
void TypeCollector::visit_match_cast(const Ref<MatchCast>& e) {
  known(e->value);
  set(e, e->type);
}

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
    return row.infer(context, e->attrs) == Relation::kSolved;
  });
}

/// The first parameters of a tensor program are its inputs.
void TypeCollector::call_tensor_program(const Ref<Call>& e) {
  if (!e->out_type)
    type_error(e, "a call of a tensor program or library function needs the type of its result");
  for (const Expr& arg : e->args) known(arg);
  if (e->callee.as<PrimFunc>()) {
    // Each call may be of other extents.
    Type callee = unifier_.with_flexible_dims(known(e->callee));
    const std::vector<Type>& params = callee.as<FuncType>()->params;
    if (e->args.size() >= params.size())
      type_error(e, fmt::format("a tensor program of {} parameters, results included, gets {} arguments",
                                params.size(), e->args.size()));
    for (size_t i = 0; i < e->args.size(); ++i)
      demand(e, types_.at(e->args[i].get()), params[i], fmt::format("argument {}", i + 1));
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
  if (!type) return demand(e->callee, top, func_type(args, result), "what is called");
  if (e->type_args.size() > type->type_params.size())
    type_error(e, fmt::format("{} type arguments for {} type parameters", e->type_args.size(),
                              type->type_params.size()));
  Ref<FuncType> instance = unifier_.instantiate(*type, e->type_args);
  if (instance->params.size() != args.size())
    type_error(e, fmt::format("a function of type {} gets {} argument{}", text(top), args.size(),
                              args.size() == 1 ? "" : "s"));
  for (size_t i = 0; i < args.size(); ++i)
    demand(e, args[i], instance->params[i], fmt::format("argument {}", i + 1));
  CHECK(unifier_.unify(result, instance->result), "a fresh hole takes any type");
}

}  // namespace lathe::relay
