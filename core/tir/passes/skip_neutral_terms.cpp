#include "core/tir/passes/skip_neutral_terms.h"

#include "core/tir/builder.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// A condition that reads memory is no border of an image, and a statement might change it.
bool loads(const Expr& e) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}

/// A term that is something only where the condition holds, and then `value`.
struct Guarded {
  Expr condition, value;
};

/// The term as a guarded one: a select that else gives `nothing` (the neutral element), or, where that is 0,
/// a product with such a factor or such a value widened. Null for others.
std::optional<Guarded> guarded(const Expr& term, const Expr& nothing) {
  if (const Select* select = term.as<Select>()) {
    if (!structural_equal(select->if_false, nothing) || loads(select->condition)) return {};
    return Guarded{select->condition, select->if_true};
  }
  bool is_zero = structural_equal(nothing, constant(term.dtype(), 0));
  if (const Binary* product = term.as<Binary>(); is_zero && product && product->op == BinaryOp::kMul) {
    if (auto a = guarded(product->a, nothing)) return Guarded{a->condition, a->value * product->b};
    if (auto b = guarded(product->b, nothing)) return Guarded{b->condition, product->a * b->value};
  }
  if (const Cast* widened = term.as<Cast>(); is_zero && widened)
    if (auto inner = guarded(widened->value, constant(widened->value.dtype(), 0)))
      return Guarded{inner->condition, cast(term.dtype(), inner->value)};
  return {};
}

/// Of a statement c[i] = c[i] op term.
std::optional<Guarded> guarded_term(const Store& store) {
  // A store of a first value must happen anyway: c would stay undefined.
  if (!accumulates(store)) return {};
  const Binary& update = *store.value.as<Binary>();
  auto combiner = combiner_of(update.op);
  return combiner ? guarded(update.b, identity_of(*combiner, store.value.dtype())) : std::nullopt;
}

class SkipNeutralTerms final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    bool lanes = loop->iteration == Iteration::kVectorized;
    if (lanes) lanes_.push_back(loop->var);
    Stmt visited = StmtMutator::visit_for(loop);
    if (lanes) lanes_.pop_back();
    return visited;
  }

  Stmt visit_store(const Ref<Store>& store) override {
    auto term = guarded_term(*store);
    if (!term) return store;
    for (const Var& lane : lanes_)
      // A condition by lanes would make the whole statement a masked one.
      if (uses_var(term->condition, lane.get())) return store;
    const Binary& update = *store->value.as<Binary>();
    return if_then(term->condition,
                   tir::store(store->buffer, store->indices, binary(update.op, update.a, term->value)));
  }

 private:
  std::vector<Var> lanes_;  // of the vectorized loops around
};
}  // namespace

Stmt skip_neutral_terms(const Stmt& body) { return SkipNeutralTerms().visit(body); }

bool skips_terms(const Store& store) { return guarded_term(store).has_value(); }

}  // namespace lathe::tir
