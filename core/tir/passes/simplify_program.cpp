#include "core/tir/passes/simplify_program.h"

#include <utility>

#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// One walk: on the way in expressions are simplified under the ranges of the loops around, on the way out
/// conditions leave the loops that do not change them. A condition deep inside climbs as far as it can, since
/// each loop passes it to the next.
class SimplifyProgram final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    Expr extent = analyzer_.simplify(loop->extent);
    Bound bound = analyzer_.bound(extent);
    if (bound.max <= 0) return {};
    // Whatever the loop was (parallel, unrolled): its variable is 0.
    if (is_int(extent, 1)) return visit(substitute(loop->body, {{loop->var.get(), Expr(0)}}));
    // Parallel loops of which one is all that the other does are one loop, and stay so.
    const For* next = loop->body.as<For>();
    const bool is_inner = std::exchange(is_inner_, next && loop->iteration == Iteration::kParallel &&
                                                       next->iteration == Iteration::kParallel);
    Analyzer outside = analyzer_;
    analyzer_.bind_range(loop->var, extent);
    if (!as_int(extent) && bound.max < INT64_MAX) analyzer_.bind(loop->var, {0, bound.max - 1});
    Stmt body = visit(loop->body);
    analyzer_ = std::move(outside);
    if (!body) return {};
    if (const If* branch = body.as<If>(); branch && !branch->else_case && !is_inner) {
      // The conjuncts that the loop does not change, and those that it does.
      Expr outside, inside;
      for (const Expr& test : conjuncts(branch->condition)) {
        // Lanes are masked by the function that stores them, and a parallel loop is one of its own.
        bool masks = loop->iteration == Iteration::kParallel && test.dtype().lanes > 1;
        Expr& where = uses_var(test, loop->var.get()) || !is_fixed(test) || masks ? inside : outside;
        where = where ? logical_and(where, test) : test;
      }
      Stmt rest = inside ? if_then(inside, branch->then_case) : branch->then_case;
      if (outside)
        return if_then(outside, make<For>(loop->var, extent, loop->iteration, rest, loop->annotations));
    }
    if (body == loop->body && extent == loop->extent) return loop;
    return make<For>(loop->var, extent, loop->iteration, body, loop->annotations);
  }

  /// if (c) A; if (c) B  ->  if (c) { A; B }
  Stmt visit_seq(const Ref<Seq>& sequence) override {
    Stmt visited = StmtMutator::visit_seq(sequence);
    const Seq* now = visited.as<Seq>();
    if (!now) return visited;
    std::vector<Stmt> stmts;
    for (const Stmt& each : now->stmts) {
      const If *next = each.as<If>(), *last = stmts.empty() ? nullptr : stmts.back().as<If>();
      // The first statement must not change the condition of the second.
      bool joins = next && last && !next->else_case && !last->else_case && is_fixed(last->condition) &&
                   structural_equal(last->condition, next->condition);
      if (joins)
        stmts.back() = if_then(last->condition, seq({last->then_case, next->then_case}));
      else
        stmts.push_back(each);
    }
    return stmts.size() == now->stmts.size() ? visited : seq(std::move(stmts));
  }

  /// No statement changes it.
  static bool is_fixed(const Expr& condition) {
    bool loads = false;
    post_order(condition, [&](const NodeRef& node) { loads |= node.as<Load>() != nullptr; });
    return !loads;
  }

  Stmt visit_if(const Ref<If>& branch) override {
    Expr condition = known(analyzer_.simplify_value(branch->condition));
    if (const int64_t* value = as_int(condition))
      return visit(*value ? branch->then_case : branch->else_case);
    const size_t around = facts_.size();
    const std::vector<Expr> tests = conjuncts(condition);
    for (const Expr& test : tests)
      if (is_fact(test)) facts_.push_back({test, true});
    Stmt then_case = visit(branch->then_case);
    facts_.resize(around);
    if (tests.size() == 1 && is_fact(condition)) facts_.push_back({condition, false});
    Stmt else_case = branch->else_case ? visit(branch->else_case) : Stmt();
    facts_.resize(around);
    if (condition == branch->condition && then_case == branch->then_case && else_case == branch->else_case)
      return branch;
    return if_then(condition, then_case, else_case);
  }

  Stmt visit_store(const Ref<Store>& store) override {
    std::vector<Expr> indices;
    bool changed = false;
    for (const Expr& index : store->indices) {
      indices.push_back(analyzer_.simplify(index));
      changed |= indices.back() != index;
    }
    Expr value = analyzer_.simplify_value(store->value);
    if (!changed && value == store->value) return store;
    return make<Store>(store->buffer, std::move(indices), value);
  }

 private:
  /// A condition that an If around has decided.
  struct Fact {
    Expr condition;
    bool holds;
  };

  static bool is_fact(const Expr& test) { return test.dtype() == kBool && is_fixed(test); }

  std::optional<bool> decided(const Expr& condition) const {
    for (const Fact& fact : facts_)
      if (structural_equal(fact.condition, condition)) return fact.holds;
    return std::nullopt;
  }

  /// The condition without what Ifs around have decided.
  Expr known(const Expr& condition) const {
    if (facts_.empty() || as_int(condition)) return condition;
    if (const auto holds = decided(condition)) return imm(kBool, *holds);
    const Binary* both = condition.as<Binary>();
    if (!both || both->dtype != kBool || (both->op != BinaryOp::kAnd && both->op != BinaryOp::kOr))
      return condition;
    const Expr a = known(both->a), b = known(both->b);
    return a == both->a && b == both->b ? condition : binary(both->op, a, b);
  }

  std::vector<Fact> facts_;
  bool is_inner_ = false;  // the loop that is looked at next is all that a parallel one does
};
}  // namespace

Stmt simplify_program(const Stmt& body) { return SimplifyProgram().visit(body); }

}  // namespace lathe::tir
