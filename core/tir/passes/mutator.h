// Rewriting of statements by kind; what a pass does not override is rebuilt from its rewritten parts.
#pragma once

#include "core/arith/simplify.h"
#include "core/tir/stmt.h"

namespace lathe::tir {

class StmtMutator {
 public:
  virtual ~StmtMutator() = default;
  /// Null for a statement that is to vanish.
  virtual Stmt visit(const Stmt& stmt);

 protected:
  virtual Stmt visit_for(const Ref<For>& loop);
  virtual Stmt visit_if(const Ref<If>& branch);
  virtual Stmt visit_alloc(const Ref<Alloc>& alloc);
  virtual Stmt visit_block(const Ref<Block>& block);
  virtual Stmt visit_store(const Ref<Store>& store) { return store; }
  virtual Stmt visit_seq(const Ref<Seq>& seq);

  /// The ranges of the loops around the statement being visited.
  Analyzer analyzer_;
};

/// The loop with another body; null when the body is null. The same node when the body is.
Stmt with_body(const Ref<For>& loop, Stmt body);
/// The condition's case, or an If; null when nothing is left.
Stmt if_then(const Expr& condition, Stmt then_case, Stmt else_case = {});
/// A copy with `vars` replaced whose own variables and buffers are new, so that it may stand beside the
/// original.
Stmt fresh_copy(const Stmt& stmt, VarMap vars = {});

}  // namespace lathe::tir
