#include "core/relay/passes/normal_form.h"

#include "core/relay/analysis/graph_scopes.h"
#include "core/relay/analysis/purity.h"
#include "core/relay/functor.h"
#include "core/support/stack.h"

namespace lathe::relay {
namespace {

/// Walks the tree of scopes that graph_scopes() made: of each it binds the members, in their order, by let.
class BindAll {
 public:
  // Values of lets are met as members of a scope, too: they keep the name that they have.
  explicit BindAll(const Ref<Function>& root) : scopes_(graph_scopes(root)) {
    for (const auto& members : scopes_.members)
      for (const Expr& e : members)
        if (const Let* let = e.as<Let>()) values_.insert(let->value.get());
  }

  Ref<Function> function(const Ref<Function>& e) {
    auto copy = mutate(*e);
    copy->body = scope(e->body, bodies(e)[0]);
    return seal(std::move(copy));
  }

 private:
  struct Binding {
    Var var;
    Expr value;
  };

  /// The scopes of e's bodies, in the order of for_each_operand.
  const std::vector<int>& bodies(const Expr& e) const { return scopes_.places.at(e.get()).bodies; }
  bool used_once(const Expr& e) const { return !is_leaf(e) && scopes_.places.at(e.get()).uses == 1; }

  /// The variable that stands for `e`, or `e` itself where it is a leaf.
  Expr atom(const Expr& e) const {
    auto found = bound_.find(e.get());
    return found == bound_.end() ? e : found->second;
  }

  /// The value of a let in place, or the variable it is bound to already.
  Expr let_value(const Ref<Let>& let) {
    return used_once(let->value) ? rebuilt(let->value) : atom(let->value);
  }

  Expr scope(const Expr& result, int id) {
    Expr chain;
    with_enough_stack([&] { chain = chain_of(result, id); });
    return chain;
  }

  /// The body `result` of scope `id` as a chain of lets.
  Expr chain_of(Expr result, int id) {
    std::vector<Binding> bindings;
    // A chain of lets is one scope inside the other: it is followed in this loop, not by recursion, since it
    // may be 100,000 long.
    for (;;) {
      const Let* let = used_once(result) ? result.as<Let>() : nullptr;
      for (const Expr& e : scopes_.members[id]) {
        // The let that continues the chain, and values that a let names already.
        bool in_place = used_once(e) && ((let && e == result) || values_.count(e.get()));
        if (in_place) continue;
        const Function* function = e.as<Function>();
        if (function && function->attrs.primitive) continue;  // a kernel is called by what it is
        // All of one name: a variable is its node, and text tells them apart by numbers.
        Var variable = with_checked_type(make_var("t"), e->checked_type).cast<VarNode>();
        bindings.push_back({variable, rebuilt(e)});
        bound_[e.get()] = variable;
      }
      if (!let) break;
      bindings.push_back({let->var, let_value(result.cast<Let>())});
      id = bodies(result)[0];
      result = Expr(let->body);
    }
    Expr chain = atom(result);
    // `x = f(); x` is said shorter.
    if (!bindings.empty() && chain == bindings.back().var &&
        bindings.back().value->kind() != ExprKind::kFunction) {
      chain = bindings.back().value;
      bindings.pop_back();
    }
    // From the inside out: the last binding is the innermost let.
    for (; !bindings.empty(); bindings.pop_back()) {
      // A let has the type of its body: the result of this pass needs no inference anew.
      Type type = chain->checked_type;
      chain = with_checked_type(make<Let>(bindings.back().var, bindings.back().value, chain), type);
    }
    return chain;
  }

  /// `e` over atoms.
  Expr rebuilt(const Expr& e) {
    if (const auto* f = e.as<Function>()) return f->attrs.primitive ? e : Expr(function(e.cast<Function>()));
    if (const auto* branch = e.as<If>()) {
      auto copy = mutate(*branch);
      copy->condition = atom(branch->condition);
      copy->then_case = scope(branch->then_case, bodies(e)[0]);
      copy->else_case = scope(branch->else_case, bodies(e)[1]);
      return seal(std::move(copy));
    }
    if (const auto* match = e.as<Match>()) {
      auto copy = mutate(*match);
      copy->value = atom(match->value);
      for (size_t i = 0; i < match->clauses.size(); ++i)
        copy->clauses[i].body = scope(match->clauses[i].body, bodies(e)[i]);
      return seal(std::move(copy));
    }
    if (const auto* block = e.as<Dataflow>()) {
      auto copy = mutate(*block);
      copy->body = scope(block->body, bodies(e)[0]);
      return seal(std::move(copy));
    }
    if (const auto* let = e.as<Let>()) {
      auto copy = mutate(*let);
      copy->value = let_value(e.cast<Let>());
      copy->body = scope(let->body, bodies(e)[0]);
      return seal(std::move(copy));
    }
    return e
        ->map_children([&](const NodeRef& child) -> NodeRef {
          return dynamic_cast<const RelayNode*>(child.get()) ? NodeRef(atom(child.cast<RelayNode>())) : child;
        })
        .cast<RelayNode>();
  }

  GraphScopes scopes_;
  std::unordered_set<const Node*> values_;  // of lets
  std::unordered_map<const Node*, Expr> bound_;
};

class UnbindAll : public ExprMutator {
 public:
  explicit UnbindAll(const Expr& root) : purity_(root) {}

 private:
  /// Effects must happen once and in their order; a recursive function needs the name it calls itself by.
  bool stays(const Let& let) const {
    if (!purity_.is_pure(let.value)) return true;
    bool recursive = false;
    if (let.value.as<Function>())
      post_order(let.value, [&](const NodeRef& node) { recursive |= node == let.var; });
    return recursive;
  }
  /// Asked before the body is visited, whose uses of the variable become the value.
  void enter_let(const Ref<Let>& let) override {
    if (!stays(*let))
      set(let->var, visit(let->value));
    else
      stay_.insert(let.get());
  }
  Expr visit_let(const Ref<Let>& e) override {
    return stay_.count(e.get()) ? ExprMutator::visit_default(e) : visit(e->body);
  }

  Purity purity_;
  std::unordered_set<const Node*> stay_;
};

}  // namespace

Ref<Function> to_a_normal_form(const Ref<Function>& function) { return BindAll(function).function(function); }

Ref<Function> to_graph_normal_form(const Ref<Function>& function) {
  return UnbindAll(function).visit_as(function);
}

}  // namespace lathe::relay
