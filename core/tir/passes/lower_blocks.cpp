#include "core/tir/passes/lower_blocks.h"

#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
/// Visits what is inside a block before its iterators are replaced: blocks inside compute theirs from them,
/// and get the values together with it.
class LowerBlocks final : public StmtMutator {
 protected:
  Stmt visit_block(const Ref<Block>& block) override {
    VarMap values;
    Expr first = imm(kBool, 1);
    for (const BlockIter& iter : block->iters) {
      Expr value = analyzer_.simplify(iter.value);
      values[iter.var.get()] = value;
      if (iter.kind == IterKind::kReduce) first = logical_and(first, equal(value, Expr(0)));
    }
    std::vector<Stmt> stmts;
    if (block->init)
      stmts.push_back(if_then(analyzer_.simplify(first), substitute(visit(block->init), values)));
    stmts.push_back(substitute(visit(block->body), values));
    Stmt result = if_then(analyzer_.simplify(block->predicate), seq(std::move(stmts)));
    // Around the predicate too: what places buffers later moves them in again.
    for (size_t i = block->allocs.size(); i-- > 0 && result;) result = make<Alloc>(block->allocs[i], result);
    return result;
  }
};
}  // namespace

Stmt lower_blocks(const Stmt& scheduled) { return LowerBlocks().visit(scheduled); }

}  // namespace lathe::tir
