#include "core/tir/passes/lower_blocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// Where the initial value of a block stands whose terms may be none.
struct Outside {
  size_t outermost;       // of the loops that count terms; where none does, their number
  std::vector<bool> own;  // of the loops from there on, those that count results
  Expr predicate;
};

/// Visits what is inside a block before its iterators are replaced: blocks inside compute theirs from them,
/// and get the values together with it.
class LowerBlocks final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    loops_.push_back(loop);
    Stmt result = StmtMutator::visit_for(loop);
    loops_.pop_back();
    auto found = before_.find(loop.get());
    if (found == before_.end() || !result) return result;
    std::vector<Stmt> stmts = std::move(found->second);
    before_.erase(found);
    stmts.push_back(result);
    return seq(std::move(stmts));
  }

  Stmt visit_block(const Ref<Block>& block) override {
    VarMap values;
    Expr first = imm(kBool, 1);
    for (const BlockIter& iter : block->iters) {
      Expr value = analyzer_.simplify(iter.value);
      values[iter.var.get()] = value;
      if (iter.kind == IterKind::kReduce) first = logical_and(first, equal(value, Expr(0)));
    }
    const std::vector<Ref<For>> around = std::exchange(loops_, {});
    const Stmt init = block->init ? substitute(visit(block->init), values) : Stmt();
    const Stmt body = substitute(visit(block->body), values);
    loops_ = around;
    std::vector<Stmt> before, stmts;
    if (const auto outside = init ? outside_of_terms(*block) : std::nullopt) {
      const bool has_loops = outside->outermost < loops_.size();
      std::vector<Stmt>& place = has_loops ? before_[loops_[outside->outermost].get()] : before;
      if (const Stmt values_at_first = initial_values(init, *outside)) place.push_back(values_at_first);
    } else if (init) {
      stmts.push_back(if_then(analyzer_.simplify(first), init));
    }
    stmts.push_back(body);
    if (const Stmt update = if_then(analyzer_.simplify(block->predicate), seq(std::move(stmts))))
      before.push_back(update);
    Stmt result = before.empty() ? Stmt() : seq(std::move(before));
    // Around the predicate too: what places buffers later moves them in again.
    for (size_t i = block->allocs.size(); i-- > 0 && result;) result = make<Alloc>(block->allocs[i], result);
    return result;
  }

 private:
  /// Of terms that may be none, which the first one would not set to the initial value. Nothing where there
  /// is one at least, or where loops count both terms and results, or neither.
  std::optional<Outside> outside_of_terms(const Block& block) {
    bool may_be_none = false;
    std::vector<bool> of_terms(loops_.size()), of_results(loops_.size());
    for (const BlockIter& iter : block.iters) {
      const bool reduces = iter.kind == IterKind::kReduce;
      may_be_none |= reduces && analyzer_.bound(analyzer_.simplify(iter.extent)).min < 1;
      for (size_t i = 0; i < loops_.size(); ++i) {
        // Of one term at most the iterator is 0, in a loop as long as it.
        const bool counts = uses_var(iter.value, loops_[i]->var.get()) ||
                            (reduces && is_int(iter.value, 0) && !as_int(iter.extent) &&
                             prove_equal(iter.extent, loops_[i]->extent));
        if (counts) (reduces ? of_terms : of_results)[i] = true;
      }
    }
    const auto first = std::ranges::find(of_terms, true);
    if (!may_be_none) return std::nullopt;
    Outside result{static_cast<size_t>(first - of_terms.begin()), {}, imm(kBool, 1)};
    for (size_t i = result.outermost; i < loops_.size(); ++i) {
      if (of_terms[i] == of_results[i] && !is_int(loops_[i]->extent, 1)) return std::nullopt;
      result.own.push_back(of_results[i]);
    }
    for (const Expr& condition : conjuncts(block.predicate)) {
      bool terms = false, results = false;
      for (size_t i = result.outermost; i < loops_.size(); ++i)
        if (uses_var(condition, loops_[i]->var.get())) (of_terms[i] ? terms : results) = true;
      if (terms && results) return std::nullopt;
      // Which terms there are is nothing to the initial value.
      if (!terms && !is_of_terms(condition, block))
        result.predicate = logical_and(result.predicate, condition);
    }
    return result;
  }

  /// Whether the condition is that there is the one term which an iterator may have.
  static bool is_of_terms(const Expr& condition, const Block& block) {
    return std::ranges::any_of(block.iters, [&](const BlockIter& iter) {
      return iter.kind == IterKind::kReduce &&
             structural_equal(simplify(condition), simplify(less(iter.value, iter.extent)));
    });
  }

  /// `init` for all results that the loops count, whose variables are its own.
  Stmt initial_values(const Stmt& init, const Outside& outside) {
    // Not by what holds around the block, where there is a term.
    Stmt nest = if_then(simplify(outside.predicate), init);
    for (size_t i = loops_.size(); nest && i-- > outside.outermost;) {
      if (!outside.own[i - outside.outermost]) continue;
      const For& loop = *loops_[i];
      nest = for_loop(loop.var, loop.extent, nest,
                      loop.iteration == Iteration::kParallel ? Iteration::kSerial : loop.iteration);
    }
    return fresh_copy(nest);
  }

  std::vector<Ref<For>> loops_;                      // around what is visited, up to a block
  std::map<const Node*, std::vector<Stmt>> before_;  // what stands in front of a loop
};
}  // namespace

Stmt lower_blocks(const Stmt& scheduled) { return LowerBlocks().visit(scheduled); }

}  // namespace lathe::tir
