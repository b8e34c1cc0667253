// Unification of types: finds the least substitution of holes that makes types equal (Roesch et al.
// 2019, 3.2.1).
#pragma once

#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "core/relay/type.h"
#include "core/support/node_map.h"

namespace lathe::relay {

/// Holes of types, and flexible dimensions: variables that stand for a dimension to be found. Other symbolic
/// dimensions are rigid: equal to themselves and to what arithmetic proves equal. `?` agrees with any
/// dimension.
class Unifier {
 public:
  /// Called with each hole that gets a binding.
  explicit Unifier(std::function<void(const HoleType*)> on_solved) : on_solved_(std::move(on_solved)) {}

  Type fresh_hole(Kind of = Kind::kType) {
    return Type(keep_alive_.emplace_back(make<HoleType>(of)).cast<HoleType>());
  }
  /// A hole that becomes () where nothing determines it (settle_instances): of a part that nobody looks at.
  Type fresh_instance(Kind of = Kind::kType) {
    instances_.push_back(fresh_hole(of).cast<HoleType>());
    is_instance_.insert(instances_.back().get());
    return instances_.back();
  }
  /// False when the types can't be made equal; holes may be bound then all the same.
  bool unify(const Type& a, const Type& b);
  /// Whether a value of type `found` may stand where `wanted` is expected: unifies them, once a polymorphic
  /// function has been instantiated where one type of function is wanted, items of tuples included.
  bool fits(const Type& found, const Type& wanted);
  /// Of a function type with type parameters: it is instantiated anew at each use.
  bool is_polymorphic(const Type& type) const;
  bool unify_dims(const lathe::Expr& a, const lathe::Expr& b);
  /// Whether they differ by a constant other than 0.
  bool never_equal(const lathe::Expr& a, const lathe::Expr& b) const;

  /// The binding when `type` is a bound hole, followed to its end; `type` else.
  Type shallow(Type type) const;
  /// With all bound holes and flexible dimensions replaced.
  Type resolve(const Type& type) const;
  lathe::Expr resolve_dim(const lathe::Expr& dim) const;
  /// Whether nothing in `type` is to be found, nor was: no hole, bound or not, and no flexible dimension.
  bool is_ground(const Type& type) const;
  /// The unbound holes in `type`.
  void unsolved(const Type& type, std::vector<const HoleType*>& holes) const;

  /// Instances of type parameters that nothing determines become (): no value depends on which type they are.
  void settle_instances();

  /// The type with its type parameters replaced: by `args`, or by fresh holes. Its constraints are demanded
  /// of whoever uses the instance.
  Ref<FuncType> instantiate(const FuncType& type, const std::vector<Type>& args = {});
  /// The constraints (RelationType) of the instances made since it was last asked.
  std::vector<Type> take_demands() { return std::exchange(demands_, {}); }
  /// The type with its dimension variables replaced by fresh flexible ones: all, or `these`.
  Type with_flexible_dims(const Type& type, const std::unordered_set<const Node*>* these = nullptr);
  /// Flexible dimensions that nothing determined become `?`.
  Type close(const Type& type) const;

 private:
  bool bind(const Ref<HoleType>& hole, const Type& type);
  bool unify_once(const Type& a, const Type& b);
  bool unify_shapes(const std::vector<lathe::Expr>& a, const std::vector<lathe::Expr>& b);
  bool unify_generic(const Type& a, const Type& b);
  bool unify_functions(const FuncType& a, const FuncType& b);
  bool unify_lists(const std::vector<Type>& a, const std::vector<Type>& b);
  bool bind_dim(const lathe::Expr& variable, const lathe::Expr& value);
  bool solve_linear(const lathe::Expr& a, const lathe::Expr& b);
  bool is_flexible(const lathe::Expr& dim) const;

  std::function<void(const HoleType*)> on_solved_;
  struct Known {
    Type type;  // alive, as its address stands for it
    bool ground = false;
  };
  mutable NodeMap<Known> known_;  // types of parts: those of nested tuples are walked once, not once a level
  NodeMap<Type> holes_;
  std::unordered_set<const Node*> flexible_;
  std::vector<Ref<HoleType>> instances_;         // holes that instantiate() and patterns made
  std::unordered_set<const Node*> is_instance_;  // the same
  std::vector<Type> demands_;
  std::vector<NodeRef> keep_alive_;  // holes and flexible dimensions: the maps know them by address
  std::unordered_map<const Node*, lathe::Expr> dims_;
};

/// `type` with type variables replaced.
Type substitute_types(const Type& type, const std::unordered_map<const Node*, Type>& values);

}  // namespace lathe::relay
