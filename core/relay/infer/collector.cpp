#include "core/relay/infer/collector.h"

#include <algorithm>

#include "core/relay/analysis/match_coverage.h"
#include "core/relay/infer/dim_owners.h"
#include "core/relay/infer/kinds.h"
#include "core/relay/text.h"
#include "core/relay/text/names.h"
#include "core/support/stack.h"

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

bool is_tensor(const Type& type) { return type.as<TensorType>() || type.as<GenericTensorType>(); }

/// Whether some value has both types, with the dimensions that only run time knows chosen well; else why not.
/// REQUIRES: no holes.
std::string cast_fault(const Type& from, const Type& to, Unifier& unifier) {
  // What the variables stand for is looked at when it runs.
  const bool generic = from.as<GenericTensorType>() || to.as<GenericTensorType>();
  if (generic && is_tensor(from) && is_tensor(to)) return "";
  const TupleType *tuple = from.as<TupleType>(), *wanted = to.as<TupleType>();
  if (tuple && wanted && tuple->items.size() == wanted->items.size()) {
    std::string fault;
    with_enough_stack([&] {
      for (size_t i = 0; fault.empty() && i < tuple->items.size(); ++i)
        fault = cast_fault(tuple->items[i], wanted->items[i], unifier);
    });
    return fault;
  }
  const TensorType *a = from.as<TensorType>(), *b = to.as<TensorType>();
  bool fits = a && b ? a->dtype == b->dtype && a->shape.size() == b->shape.size() : unifier.unify(from, to);
  for (size_t i = 0; fits && a && i < a->shape.size(); ++i)
    fits = !unifier.never_equal(a->shape[i], b->shape[i]);
  return fits ? "" : fmt::format("a value of type {} never has type {}", print(from), print(to));
}

/// Run time looks at tensors alone, in tuples or not: all else has the type of the cast already.
void unify_but_tensors(const Type& from, const Type& to, Unifier& unifier) {
  Type known = unifier.shallow(from);
  const TupleType *tuple = known.as<TupleType>(), *wanted = to.as<TupleType>();
  if (tuple && wanted && tuple->items.size() == wanted->items.size())
    with_enough_stack([&] {
      for (size_t i = 0; i < tuple->items.size(); ++i)
        unify_but_tensors(tuple->items[i], wanted->items[i], unifier);
    });
  else if (!wanted && !is_tensor(to))
    unifier.unify(known, to);  // what does not fit is reported by cast_fault
}

/// `type` with `?` where `other`, which fits it, has one: what is of either type is of this one.
Type saying_no_more(const Type& type, const Type& other) {
  const TensorType *a = type.as<TensorType>(), *b = other.as<TensorType>();
  auto is_any = [](const lathe::Expr& dim) { return dim.as<Any>() != nullptr; };
  if (a && b && std::any_of(b->shape.begin(), b->shape.end(), is_any)) {
    std::vector<lathe::Expr> shape = a->shape;
    for (size_t i = 0; i < shape.size(); ++i)
      if (is_any(b->shape.at(i))) shape[i] = b->shape[i];
    return tensor_type(std::move(shape), a->dtype);
  }
  const TupleType *x = type.as<TupleType>(), *y = other.as<TupleType>();
  if (!x || !y || x == y) return type;
  std::vector<Type> items = x->items;
  bool same = true;
  with_enough_stack([&] {
    for (size_t i = 0; i < items.size(); ++i) {
      items[i] = saying_no_more(items[i], y->items.at(i));
      same = same && items[i] == x->items[i];
    }
  });
  return same ? type : tuple_type(std::move(items));
}

/// Gradients are of tensors.
bool holds_tensors_alone(const Type& type) {
  const TupleType* tuple = type.as<TupleType>();
  if (!tuple) return is_tensor(type);
  bool all = true;
  with_enough_stack(
      [&] { all = std::all_of(tuple->items.begin(), tuple->items.end(), holds_tensors_alone); });
  return all;
}

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
  for (const auto& [name, function] : module_->functions) {
    globals_[name] = signature(function);
    if (unifier_.is_ground(globals_[name])) generalized_.insert(name);
    dim_owners_.merge(dim_owners(function));
  }
  for (const auto& [name, data] : module_->types)
    for (const Constructor& constructor : data->constructors)
      for (const Type& input : constructor->inputs) check_kinds(constructor, input);
}

void TypeCollector::add(const std::string& name) {
  // Where a type is not written in full, what calls inside the function itself (recursion) unifies with its
  // own dimensions; callers that come later get dimensions of their own, as generalization of Hindley-Milner
  // does for type variables.
  visit(module_->functions.at(name));
  run_queue();
  generalized_.insert(name);
}

/// A relation that waits although nothing is unknown about its arguments leaves its result a hole: type_of
/// reports that one.
void TypeCollector::finish() {
  run_queue();
  // What was open when a relation asked may be known by now.
  std::erase_if(checks_, [&](DimCheck& check) {
    check.a = unifier_.resolve_dim(check.a), check.b = unifier_.resolve_dim(check.b);
    if (unifier_.never_equal(check.a, check.b))
      type_error(check.call, fmt::format("dimension {} differs from {}", print(check.a), print(check.b)));
    return unifier_.unify_dims(check.a, check.b);
  });
  for (const Waiting& each : waiting_) {
    if (each.solved) continue;
    for (size_t i = 0; i < each.types.size(); ++i) {
      std::vector<const HoleType*> holes;
      unifier_.unsolved(each.types[i], holes);
      if (holes.empty()) continue;
      const Call* call = each.e.as<Call>();
      const OpNode* op = call ? call->callee.as<OpNode>() : nullptr;
      std::string what = op ? op->name + ": the type of " + fmt::format("argument {}", i + 1)
                         : each.e.as<Projection>() ? "projection: the type of the tuple"
                         : each.e.as<Grad>()       ? "grad: the type of the function"
                                                   : "match_cast: the type of the value";
      type_error(each.e, fmt::format("{} is not known, only {}; annotate it", what, text(each.types[i])));
    }
  }
  unifier_.settle_instances();
}

Type TypeCollector::type_of(const Expr& e) const {
  const Type* found = types_.find(e.get());
  if (!found) return nullptr;
  Type type = unifier_.resolve(*found);
  if (unifier_.is_ground(type)) return type;
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

void TypeCollector::check_kinds(const Expr& e, const Type& type) const {
  try {
    relay::check_kinds(type, *module_);
  } catch (const Error& error) {
    type_error(e, error.what());
  }
}

void TypeCollector::check_type_arg(const Expr& e, const Type& type, Kind wanted,
                                   const std::string& what) const {
  try {
    check_argument(type, wanted, what, *module_);
  } catch (const Error& error) {
    type_error(e, error.what());
  }
}

/// Those of `function`, and that its parameters can be given to others: one that is generic is known by name
/// alone, so that each of its uses can have code of its own.
void TypeCollector::check_constraints(const Ref<Function>& function) const {
  for (const Type& each : function->constraints) {
    const RelationType& relation = *each.as<RelationType>();
    for (const Type& arg : relation.args) check_kinds(function, arg);
    check_kinds(function, relation.result);
    const Op* row = find_op(relation.op);
    if (row && row->args >= 0 && static_cast<size_t>(row->args) != relation.args.size())
      type_error(function, fmt::format("{} takes {} argument{}, the constraint has {}", relation.op,
                                       row->args, row->args == 1 ? "" : "s", relation.args.size()));
  }
  for (const Var& param : function->params) {
    const FuncType* type = param->annotation ? param->annotation.as<FuncType>() : nullptr;
    for (const TypeVar& each : type ? type->type_params : std::vector<TypeVar>{})
      if (each->of != Kind::kType)
        type_error(param,
                   fmt::format("`%{}` is a parameter and polymorphic in `{}`, of kind {}; only functions "
                               "that def or let names can be",
                               param->name, each->name, kind_name(each->of)));
  }
}

/// The type that `e` says it has, or a hole.
Type TypeCollector::annotated(const Expr& e, const Type& annotation) {
  if (!annotation) return unifier_.fresh_hole();
  check_kinds(e, annotation);
  return annotation;
}

/// The type of `e` for one use, perhaps a hole. Library functions have none on their own: their calls are
/// typed by visit_call, which does not ask here.
Type TypeCollector::known(const Expr& e) {
  visit(e);
  const Type* found = types_.find(e.get());
  if (!found) type_error(e, "a library function is not a value; call it");
  Type type = unifier_.shallow(*found);
  auto general = general_dims_.find(e.get());
  return general == general_dims_.end() ? type : unifier_.with_flexible_dims(type, &general->second);
}

/// The one type of all `bodies` of e, with `?` where one of them has it. Polymorphic ones come last, to be
/// instantiated as the others are.
Type TypeCollector::united(const Expr& e, const std::vector<Expr>& bodies, std::string_view what) {
  Type result = unifier_.fresh_hole();
  std::vector<Type> types;
  for (bool polymorphic : {false, true})
    for (const Expr& body : bodies)
      if (Type type = known(body); unifier_.is_polymorphic(type) == polymorphic) {
        demand(place(body, e), type, result, what);
        if (!polymorphic) types.push_back(type);
      }
  for (const Type& type : types) result = saying_no_more(unifier_.resolve(result), unifier_.resolve(type));
  return result;
}

/// Makes `found` fit or throws at the place of `e`. `what` is the subject of the message.
void TypeCollector::demand(const Expr& e, const Type& found, const Type& wanted, std::string_view what) {
  if (!unifier_.fits(found, wanted)) mismatch(e, found, wanted, what);
  meet_demands(e);
}

void TypeCollector::mismatch(const Expr& e, const Type& found, const Type& wanted,
                             std::string_view what) const {
  type_error(e, fmt::format("{} has type {}, {} is expected", what, text(found), text(wanted)));
}

/// The function's type by its annotations, with holes where there is none. Its variables get theirs.
Type TypeCollector::signature(const Ref<Function>& function) {
  if (const Type* found = types_.find(function.get())) return *found;
  std::vector<Type> params;
  for (const Var& param : function->params) {
    params.push_back(annotated(param, param->annotation));
    set(param, params.back());
  }
  check_constraints(function);
  return types_[function.get()] =
             make<FuncType>(function->type_params, std::move(params),
                            annotated(function, function->result_type), function->constraints);
}

/// Most relations are solved here at once, since operands are visited first; the queue is for the others.
void TypeCollector::wait(const Expr& e, std::vector<Type> types, std::function<bool()> solve) {
  waiting_.push_back({e, std::move(types), std::move(solve)});
  try_solve(waiting_.back());
  // Nothing refers to it: only what is unsolved is noted elsewhere.
  if (waiting_.back().solved) waiting_.pop_back();
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
  if (!types_.count(e.get())) set(e, annotated(e, e->annotation));
}

void TypeCollector::visit_global_var(const GlobalVar& e) {
  auto found = globals_.find(e->name);
  if (found == globals_.end()) type_error(e, fmt::format("there is no function `@{}`", e->name));
  // A function that is under way and whose type is not known yet is monomorphic in its dimensions: with fresh
  // ones at each use, its own recursive calls would determine nothing.
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
  Type value = known(let->value), variable = types_.at(let->var.get());
  if (!unifier_.fits(value, variable))
    mismatch(place(let->value, let), value, variable, fmt::format("the value of `%{}`", let->var->name));
  meet_demands(let);
  // From here on, where its type was not written: inside, the function is then monomorphic in its dimensions,
  // as global ones are.
  auto general = general_dims_.find(let->value.get());
  if (general != general_dims_.end()) general_dims_.emplace(let->var.get(), general->second);
}

void TypeCollector::visit_function(const Ref<Function>& e) {
  Type type = signature(e);
  const auto around = given_;
  if (!e->constraints.empty()) {
    auto given = std::make_shared<std::vector<Type>>(*around);
    given->insert(given->end(), e->constraints.begin(), e->constraints.end());
    given_ = given;
  }
  LetFunctions([&](const Ref<Let>& let) {
    if (let->var->annotation || types_.count(let->var.get())) return;
    const Type written = signature(let->value.cast<Function>());
    set(let->var, written);
    auto owned = dim_owners_.find(let->value.get());
    if (owned != dim_owners_.end() && unifier_.is_ground(written))
      general_dims_.emplace(let->var.get(), owned->second);
  }).visit(e->body);
  demand(place(e->body, e), known(e->body), type.as<FuncType>()->result, "the body of the function");
  given_ = around;
  auto owned = dim_owners_.find(e.get());
  if (owned != dim_owners_.end()) general_dims_.insert(*owned);
}

void TypeCollector::visit_tuple(const Ref<Tuple>& e) {
  std::vector<Type> items;
  size_t parts = 1;
  for (const Expr& item : e->items) {
    items.push_back(known(item));
    const size_t* found = tuple_parts_.find(items.back().get());
    parts += found ? *found : 1;
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
  demand(place(e->condition, e), known(e->condition), tensor_type(std::vector<lathe::Expr>{}, kBool),
         "the condition");
  set(e, united(e, {e->then_case, e->else_case}, "the else branch"));
}

/// All clauses give one type. Coverage is checked on patterns alone, which needs no types.
void TypeCollector::visit_match(const Ref<Match>& e) {
  Type value = known(e->value);
  std::vector<Expr> bodies;
  for (const Clause& clause : e->clauses) {
    bind_pattern(e, clause.pattern, value);
    bodies.push_back(clause.body);
  }
  Type result = united(e, bodies, "the clause");
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
      return demand(match, type, Type(types_.at(variable.get())),
                    fmt::format("what `%{}` matches", variable->name));
    }
    case PatternKind::kTuple: {
      std::vector<Type> items;
      for (size_t i = 0; i < pattern.as<TuplePattern>()->items.size(); ++i)
        items.push_back(unifier_.fresh_instance());
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
  demand(place(e->ref, e), known(e->ref), make<RefType>(value), "what is read");
  set(e, value);
}

void TypeCollector::visit_ref_write(const Ref<RefWrite>& e) {
  Type value = unifier_.fresh_hole();
  demand(place(e->ref, e), known(e->ref), make<RefType>(value), "what is written to");
  demand(place(e->value, e), known(e->value), value, "what is written");
  set(e, tuple_type({}));
}

/// fn(T...) -> R gives fn(T...) -> (R, (T...)).
void TypeCollector::visit_grad(const Ref<Grad>& e) {
  Type function = known(e->function), result = unifier_.fresh_hole();
  set(e, result);
  // The type of the gradient may be what tells the types of the function: it is stated before they are known.
  if (const FuncType* type = unifier_.shallow(function).as<FuncType>()) {
    Ref<FuncType> instance = unifier_.instantiate(*type);
    function = instance;
    unifier_.unify(result,
                   func_type(instance->params, tuple_type({instance->result, tuple_type(instance->params)})));
    meet_demands(e);
  }
  wait(e, {function}, [=, this] {
    Type known = unifier_.resolve(function);
    std::vector<const HoleType*> holes;
    unifier_.unsolved(known, holes);
    if (!holes.empty()) return false;
    const FuncType* type = known.as<FuncType>();
    if (!type) fail("grad of a value of type {}; a function is expected", text(known));
    Type params = tuple_type(type->params);
    if (!holds_tensors_alone(params) || !holds_tensors_alone(type->result))
      fail("grad of a function of type {}; it must take and give tensors, or tuples of them", text(known));
    return unifier_.unify(result, func_type(type->params, tuple_type({type->result, params})));
  });
}

/// Destination-passing: results are parameters too, and nothing is returned.
void TypeCollector::visit_prim_func(const Ref<PrimFunc>& e) {
  std::vector<Type> params;
  for (const tir::Buffer& each : e->func->params) params.push_back(tensor_type(each->shape, each->dtype));
  set(e, make<FuncType>(std::vector<TypeVar>{}, std::move(params), tuple_type({})));
}

/// Checked at run time: the type is what the cast says, if the value can have it at all.
void TypeCollector::visit_match_cast(const Ref<MatchCast>& e) {
  Type value = known(e->value);
  set(e, annotated(e, e->type));
  unify_but_tensors(value, e->type, unifier_);
  wait(e, {value}, [=, this] {
    Type from = unifier_.resolve(value);
    std::vector<const HoleType*> holes;
    unifier_.unsolved(from, holes);
    if (!holes.empty()) return false;
    std::string fault = cast_fault(from, unifier_.resolve(e->type), unifier_);
    if (!fault.empty()) fail("{}", fault);
    return true;
  });
}

void TypeCollector::visit_dataflow(const Ref<Dataflow>& e) { set(e, known(e->body)); }

}  // namespace lathe::relay
