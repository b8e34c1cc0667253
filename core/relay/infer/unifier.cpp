#include "core/relay/infer/unifier.h"

#include "core/arith/simplify.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// Rebuilds `type` bottom-up: f on types, g on dimensions (which are not entered further).
Type map_type(const Type& type, FunctionRef<Type(const Type&)> f,
              FunctionRef<lathe::Expr(const lathe::Expr&)> g) {
  NodeRef mapped;
  with_enough_stack([&] {
    mapped = type->map_children([&](const NodeRef& child) -> NodeRef {
      if (dynamic_cast<const TypeNode*>(child.get())) return f(child.cast<TypeNode>());
      if (dynamic_cast<const AttrsNode*>(child.get())) return child;
      return g(child.cast<ExprNode>());
    });
  });
  // A tensor whose shape and base type have become known is one like any other.
  const GenericTensorType* tensor = mapped.as<GenericTensorType>();
  return tensor ? tensor_of(tensor->shape, tensor->base) : mapped.cast<TypeNode>();
}

bool is_dims(const Type& type) { return type.as<TensorType>() || type.as<ShapeType>(); }

const std::vector<lathe::Expr>& dims_of(const Type& type) {
  const TensorType* tensor = type.as<TensorType>();
  return tensor ? tensor->shape : type.as<ShapeType>()->dims;
}

/// `dim` with its variables replaced, rebuilt by binary(), which folds what has become constant.
lathe::Expr substitute_dims(const lathe::Expr& dim,
                            FunctionRef<lathe::Expr(const lathe::Expr&)> of_variable) {
  if (as_int(dim)) return dim;
  return lathe::rewrite(dim,
                        [&](const NodeRef& node) -> NodeRef {
                          if (node.as<lathe::VarNode>()) return of_variable(node.cast<ExprNode>());
                          if (const Binary* b = node.as<Binary>()) return binary(b->op, b->a, b->b);
                          return node;
                        })
      .cast<ExprNode>();
}

}  // namespace

/// Type variables differ by identity, so nothing is captured under the type parameters of a function type.
Type substitute_types(const Type& type, const std::unordered_map<const Node*, Type>& values) {
  if (values.empty()) return type;
  auto found = values.find(type.get());
  if (found != values.end()) return found->second;
  return map_type(
      type, [&](const Type& child) { return substitute_types(child, values); },
      [](const lathe::Expr& dim) { return dim; });
}

Type Unifier::shallow(Type type) const {
  while (type.as<HoleType>()) {
    const Type* found = holes_.find(type.get());
    if (!found) break;
    type = *found;
  }
  return type;
}

/// A matter of the node alone: a variable that becomes flexible is made for that, and in no type before.
bool Unifier::is_ground(const Type& type) const {
  if (type.as<HoleType>()) return false;
  if (is_dims(type)) {
    bool flexible = false;
    for (const lathe::Expr& dim : dims_of(type))
      if (!flexible_.empty() && !as_int(dim))
        post_order(dim, [&](const NodeRef& node) { flexible |= flexible_.count(node.get()) > 0; });
    return !flexible;
  }
  if (const Known* known = known_.find(type.get())) return known->ground;
  bool ground = true;
  with_enough_stack([&] {
    type->for_each_child([&](const NodeRef& child) {
      if (dynamic_cast<const TypeNode*>(child.get())) ground = ground && is_ground(child.cast<TypeNode>());
    });
  });
  known_[type.get()] = {type, ground};
  return ground;
}

/// An unbound hole stays itself: it is bound later, in all types that hold it.
Type Unifier::resolve(const Type& type) const {
  Type top = shallow(type);
  if (top.as<HoleType>() || is_ground(top)) return top;
  return map_type(
      top, [&](const Type& child) { return resolve(child); },
      [&](const lathe::Expr& dim) { return resolve_dim(dim); });
}

lathe::Expr Unifier::resolve_dim(const lathe::Expr& dim) const {
  if (dims_.empty()) return dim;
  return substitute_dims(dim, [&](const lathe::Expr& variable) {
    auto found = dims_.find(variable.get());
    return found == dims_.end() ? variable : resolve_dim(found->second);
  });
}

void Unifier::unsolved(const Type& type, std::vector<const HoleType*>& holes) const {
  Type top = shallow(type);
  if (const HoleType* hole = top.as<HoleType>()) {
    holes.push_back(hole);
    return;
  }
  if (is_ground(top)) return;
  with_enough_stack([&] {
    top->for_each_child([&](const NodeRef& child) {
      if (dynamic_cast<const TypeNode*>(child.get())) unsolved(child.cast<TypeNode>(), holes);
    });
  });
}

/// With the occurs check, which makes every chain of bindings end.
bool Unifier::bind(const Ref<HoleType>& hole, const Type& type) {
  std::vector<const HoleType*> inside;
  unsolved(type, inside);
  for (const HoleType* each : inside)
    if (each == hole.get()) return false;  // it would be infinite
  // Triangular: the type may hold other holes, which shallow() and resolve() follow when asked.
  holes_[hole.get()] = type;
  on_solved_(hole.get());
  return true;
}

bool Unifier::unify_lists(const std::vector<Type>& a, const std::vector<Type>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!unify(a[i], b[i])) return false;
  return true;
}

bool Unifier::unify(const Type& left, const Type& right) {
  Type a = shallow(left), b = shallow(right);
  if (a == b) return true;
  // Of two holes the one of an instance gives way: what the program wrote stays to be determined.
  if (a.as<HoleType>() && is_instance_.count(b.get())) std::swap(a, b);
  if (a.as<HoleType>()) return bind(a.cast<HoleType>(), b);
  if (b.as<HoleType>()) return bind(b.cast<HoleType>(), a);
  bool equal = false;
  with_enough_stack([&] { equal = unify_once(a, b); });
  return equal;
}

/// REQUIRES: no holes at the top.
bool Unifier::unify_once(const Type& a, const Type& b) {
  if (a.as<GenericTensorType>() || b.as<GenericTensorType>()) return unify_generic(a, b);
  if (a->kind() != b->kind()) return false;
  switch (a->kind()) {
    case TypeKind::kTensor:
      return a.as<TensorType>()->dtype == b.as<TensorType>()->dtype && unify_shapes(dims_of(a), dims_of(b));
    case TypeKind::kShape:
      return unify_shapes(dims_of(a), dims_of(b));
    case TypeKind::kTuple:
      return unify_lists(a.as<TupleType>()->items, b.as<TupleType>()->items);
    case TypeKind::kFunction:
      return unify_functions(*a.as<FuncType>(), *b.as<FuncType>());
    case TypeKind::kReference:
      return unify(a.as<RefType>()->value, b.as<RefType>()->value);
    case TypeKind::kCall: {
      const TypeCall &x = *a.as<TypeCall>(), &y = *b.as<TypeCall>();
      return x.callee->name == y.callee->name && unify_lists(x.args, y.args);
    }
    case TypeKind::kRelation: {
      const RelationType &x = *a.as<RelationType>(), &y = *b.as<RelationType>();
      const bool same_attrs =
          x.attrs == y.attrs || (x.attrs && y.attrs && structural_equal(x.attrs, y.attrs));
      return x.op == y.op && same_attrs && unify_lists(x.args, y.args) && unify(x.result, y.result);
    }
    case TypeKind::kVariable:
    case TypeKind::kGlobal:
    case TypeKind::kHole:
    case TypeKind::kGenericTensor:
      break;
  }
  return structural_equal(a, b);
}

bool Unifier::unify_shapes(const std::vector<lathe::Expr>& a, const std::vector<lathe::Expr>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!unify_dims(a[i], b[i])) return false;
  return true;
}

/// Of tensors, one of them with a shape or a base type to be found: part by part.
bool Unifier::unify_generic(const Type& a, const Type& b) {
  auto part = [](const Type& type, bool shape) -> Type {
    if (const GenericTensorType* generic = type.as<GenericTensorType>())
      return shape ? generic->shape : generic->base;
    const TensorType* tensor = type.as<TensorType>();
    return !tensor ? Type() : shape ? Type(make<ShapeType>(tensor->shape)) : base_type(tensor->dtype);
  };
  const bool tensors =
      (a.as<TensorType>() || a.as<GenericTensorType>()) && (b.as<TensorType>() || b.as<GenericTensorType>());
  return tensors && unify(part(a, true), part(b, true)) && unify(part(a, false), part(b, false));
}

/// Equal up to the names of type parameters: those of b become those of a.
bool Unifier::unify_functions(const FuncType& a, const FuncType& b) {
  if (a.type_params.size() != b.type_params.size() || a.constraints.size() != b.constraints.size())
    return false;
  std::unordered_map<const Node*, Type> names;
  for (size_t i = 0; i < a.type_params.size(); ++i) {
    if (a.type_params[i]->of != b.type_params[i]->of) return false;
    names[b.type_params[i].get()] = a.type_params[i];
  }
  auto renamed = [&](const std::vector<Type>& types) {
    std::vector<Type> list;
    for (const Type& each : types) list.push_back(substitute_types(each, names));
    return list;
  };
  return unify_lists(a.params, renamed(b.params)) && unify(a.result, substitute_types(b.result, names)) &&
         unify_lists(a.constraints, renamed(b.constraints));
}

void Unifier::settle_instances() {
  for (const Ref<HoleType>& hole : instances_)
    if (hole->of == Kind::kType && shallow(hole) == hole) bind(hole, tuple_type({}));
}

bool Unifier::is_polymorphic(const Type& type) const {
  Type top = shallow(type);
  const FuncType* function = top.as<FuncType>();
  return function && !function->type_params.empty();
}

/// A hole takes a polymorphic type as it is. Under functions, references and data types nothing is
/// instantiated: there the two sides must be equal.
bool Unifier::fits(const Type& found, const Type& wanted) {
  Type a = shallow(found), b = shallow(wanted);
  const TupleType *x = a.as<TupleType>(), *y = b.as<TupleType>();
  if (a == b) return true;
  if (x && y && x->items.size() == y->items.size()) {
    bool all = true;
    with_enough_stack([&] {
      for (size_t i = 0; all && i < x->items.size(); ++i) all = fits(x->items[i], y->items[i]);
    });
    return all;
  }
  bool instance = is_polymorphic(a) && b.as<FuncType>() && !is_polymorphic(b);
  return unify(instance ? Type(instantiate(*a.as<FuncType>())) : a, b);
}

bool Unifier::is_flexible(const lathe::Expr& dim) const { return flexible_.count(dim.get()) > 0; }

/// n = n + 1 has no solution, and would make resolve_dim run forever.
bool Unifier::bind_dim(const lathe::Expr& variable, const lathe::Expr& value) {
  if (uses_var(value, variable.as<lathe::VarNode>())) return false;
  dims_[variable.get()] = value;
  return true;
}

/// c * x == k and x + c == k, for constants c and k.
bool Unifier::solve_linear(const lathe::Expr& a, const lathe::Expr& b) {
  const Binary* sum = a.as<Binary>();
  const int64_t* value = as_int(b);
  if (!sum || !value) return false;
  const int64_t *left = as_int(sum->a), *right = as_int(sum->b);
  const int64_t* factor = left ? left : right;
  if (sum->op == BinaryOp::kMul && factor && *factor && *value % *factor == 0)
    return unify_dims(left ? sum->b : sum->a, *value / *factor);
  if (sum->op == BinaryOp::kAdd && factor) return unify_dims(left ? sum->b : sum->a, *value - *factor);
  return sum->op == BinaryOp::kSub && right && unify_dims(sum->a, *value + *right);
}

/// Decides what it can, cheapest first. Complete for constants and for what simplification proves; beyond
/// that, one unknown in a linear expression and expressions of the same form. False is "can't be shown".
bool Unifier::unify_dims(const lathe::Expr& left, const lathe::Expr& right) {
  lathe::Expr a = resolve_dim(left), b = resolve_dim(right);
  if (a == b || a.as<Any>() || b.as<Any>()) return true;
  if (is_flexible(a)) return bind_dim(a, b);
  if (is_flexible(b)) return bind_dim(b, a);
  if (as_int(a) && as_int(b)) return int_value(a) == int_value(b);
  if (prove_equal(a, b)) return true;
  if (solve_linear(a, b) || solve_linear(b, a)) return true;
  // The same operator: part by part. Sufficient, not necessary: n + 2 and m + 1 fail here.
  const Binary *x = a.as<Binary>(), *y = b.as<Binary>();
  return x && y && x->op == y->op && unify_dims(x->a, y->a) && unify_dims(x->b, y->b);
}

bool Unifier::never_equal(const lathe::Expr& a, const lathe::Expr& b) const {
  if (a.as<Any>() || b.as<Any>()) return false;
  lathe::Expr difference = simplify(resolve_dim(a) - resolve_dim(b));
  return as_int(difference) && !is_int(difference, 0);
}

/// A copy for one use, so that two calls of a polymorphic function do not bind each other's type variables.
Ref<FuncType> Unifier::instantiate(const FuncType& type, const std::vector<Type>& args) {
  std::unordered_map<const Node*, Type> values;
  for (size_t i = 0; i < type.type_params.size(); ++i)
    if (i < args.size()) {
      values[type.type_params[i].get()] = args[i];
    } else {
      values[type.type_params[i].get()] = fresh_instance(type.type_params[i]->of);
    }
  // A hole that was solved may hold the variables: the result of a function that does not state it.
  auto instance = [&](const Type& each) { return substitute_types(resolve(each), values); };
  for (const Type& each : type.constraints) demands_.push_back(instance(each));
  std::vector<Type> params;
  for (const Type& each : type.params) params.push_back(instance(each));
  return make<FuncType>(std::vector<TypeVar>{}, std::move(params), instance(type.result));
}

/// One fresh variable for each old one: what was equal in the type stays equal. Holes are shared with the
/// original, since what they become is not known yet.
Type Unifier::with_flexible_dims(const Type& type, const std::unordered_set<const Node*>* these) {
  std::unordered_map<const Node*, lathe::Expr> fresh;
  auto flexible = [&](const lathe::Expr& variable) -> lathe::Expr {
    if (these && !these->count(variable.get())) return variable;
    auto [found, is_new] = fresh.try_emplace(variable.get());
    if (is_new) {
      found->second = var(variable.as<lathe::VarNode>()->name);
      keep_alive_.push_back(found->second);
      flexible_.insert(found->second.get());
    }
    return found->second;
  };
  std::function<Type(const Type&)> map = [&](const Type& each) -> Type {
    Type top = shallow(each);
    if (top.as<HoleType>()) return top;
    return map_type(top, map,
                    [&](const lathe::Expr& dim) { return substitute_dims(resolve_dim(dim), flexible); });
  };
  return map(type);
}

/// An expression over a dimension that nothing determined is `?` as a whole: the variable was made here and
/// means nothing to a reader.
Type Unifier::close(const Type& type) const {
  if (flexible_.empty() || is_ground(type)) return type;
  return map_type(
      type, [&](const Type& child) { return close(child); },
      [&](const lathe::Expr& dim) {
        bool open = false;
        substitute_dims(dim, [&](const lathe::Expr& variable) {
          open |= is_flexible(variable);
          return variable;
        });
        return open ? any_dim() : dim;
      });
}

}  // namespace lathe::relay
