#include "core/tir/passes/skip_empty_tiles.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {

bool is_tile(const For& loop) {
  return loop.iteration == Iteration::kUnrolled || loop.iteration == Iteration::kVectorized;
}

bool loads(const Expr& e) {
  bool found = false;
  post_order(e, [&](const NodeRef& node) { found |= node.as<Load>() != nullptr; });
  return found;
}

/// What a statement needs to write anything that is read outside of it, as tests of where loops inside begin.
class Needs {
 public:
  /// Nothing where it never writes such.
  std::optional<std::vector<Expr>> of(const Stmt& stmt) {
    if (const Store* store = stmt.as<Store>())
      return own_.count(store->buffer.get()) ? std::nullopt : std::optional(std::vector<Expr>());
    if (const Alloc* alloc = stmt.as<Alloc>()) {
      own_.insert(alloc->buffer.get());
      return of(alloc->body);
    }
    if (const For* loop = stmt.as<For>()) {
      inside_.push_back(loop);
      auto needs = of(loop->body);
      inside_.pop_back();
      return needs;
    }
    if (const If* branch = stmt.as<If>()) {
      auto needs = of(branch->then_case);
      const std::vector<Expr> tests = first_tests(branch->condition);
      if (needs) needs->insert(needs->end(), tests.begin(), tests.end());
      return branch->else_case ? of_both(std::move(needs), of(branch->else_case)) : needs;
    }
    std::optional<std::vector<Expr>> needs;
    if (const Seq* seq = stmt.as<Seq>())
      for (const Stmt& each : seq->stmts) needs = of_both(std::move(needs), of(each));
    return needs;
  }

  /// A loop that stays one asks it for each of its iterations.
  bool is_asked_in_loops(const Expr& condition) const { return contains(asked_, condition); }

 private:
  static bool contains(const std::vector<Expr>& conditions, const Expr& condition) {
    return std::any_of(conditions.begin(), conditions.end(),
                       [&](const Expr& each) { return structural_equal(each, condition); });
  }

  /// Of each conjunct that grows with the loops inside: what it is where these begin. Notes those that loops
  /// ask.
  std::vector<Expr> first_tests(const Expr& condition) {
    std::vector<Var> vars;
    VarMap first;
    for (const For* loop : inside_) {
      vars.push_back(loop->var);
      first[loop->var.get()] = Expr(0);
    }
    std::vector<Expr> tests;
    for (const Expr& test : conjuncts(condition)) {
      const Binary* less = test.as<Binary>();
      if (!less || less->op != BinaryOp::kLt || less->a.dtype() != kInt64 || loads(test)) continue;
      const std::optional<LinearForm> form = linear_form(less->a - less->b, vars);
      if (!form || std::any_of(form->coefficients.begin(), form->coefficients.end(),
                               [](const auto& each) { return each.second < 0; }))
        continue;
      tests.push_back(simplify(substitute(test, first)));
      if (std::any_of(inside_.begin(), inside_.end(), [&](const For* loop) {
            return !is_tile(*loop) && form->coefficients.count(loop->var.get()) != 0;
          }))
        asked_.push_back(tests.back());
    }
    return tests;
  }

  static std::optional<std::vector<Expr>> of_both(std::optional<std::vector<Expr>> a,
                                                  std::optional<std::vector<Expr>> b) {
    if (!a || !b) return a ? a : b;
    std::erase_if(*a, [&](const Expr& need) { return !contains(*b, need); });
    return a;
  }

  std::vector<const For*> inside_;
  std::vector<Expr> asked_;
  std::set<const BufferNode*> own_;
};

class SkipEmptyTiles final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    Analyzer outside = analyzer_;
    analyzer_.bind_range(loop->var, loop->extent);
    loops_.insert(loop->var.get());
    Stmt body = visit(loop->body);
    // Of a loop over an open extent all iterations have something to do.
    if (body && !is_tile(*loop) && as_int(loop->extent)) {
      Needs needs;
      for (const Expr& need : needs.of(loop->body).value_or(std::vector<Expr>()))
        if (needs.is_asked_in_loops(need) && uses_var(need, loop->var.get()) && is_open(need) &&
            !analyzer_.can_prove(need))
          body = if_then(need, body);
    }
    analyzer_ = std::move(outside);
    return with_body(loop, body);
  }

 private:
  /// It depends on more than loops.
  bool is_open(const Expr& condition) const {
    bool found = false;
    post_order(condition, [&](const NodeRef& node) {
      found |= node.as<VarNode>() && !loops_.count(node.as<VarNode>());
    });
    return found;
  }

  std::set<const VarNode*> loops_;  // variables of those met
};

}  // namespace

Stmt skip_empty_tiles(const Stmt& body) { return SkipEmptyTiles().visit(body); }

}  // namespace lathe::tir
