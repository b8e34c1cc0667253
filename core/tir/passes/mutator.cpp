#include "core/tir/passes/mutator.h"

#include "core/support/error.h"

namespace lathe::tir {

Stmt StmtMutator::visit(const Stmt& stmt) {
  if (!stmt) return stmt;
  switch (stmt->kind()) {
    case StmtKind::kFor:
      return visit_for(stmt.cast<For>());
    case StmtKind::kIf:
      return visit_if(stmt.cast<If>());
    case StmtKind::kSeq:
      return visit_seq(stmt.cast<Seq>());
    case StmtKind::kAlloc:
      return visit_alloc(stmt.cast<Alloc>());
    case StmtKind::kBlock:
      return visit_block(stmt.cast<Block>());
    case StmtKind::kStore:
      return visit_store(stmt.cast<Store>());
  }
  return stmt;
}

// The range holds inside the loop only: a copy of a loop may define the same variable elsewhere.
Stmt StmtMutator::visit_for(const Ref<For>& loop) {
  Analyzer outside = analyzer_;
  analyzer_.bind_range(loop->var, loop->extent);
  Stmt body = visit(loop->body);
  analyzer_ = std::move(outside);
  return with_body(loop, std::move(body));
}

Stmt StmtMutator::visit_if(const Ref<If>& branch) {
  Stmt then_case = visit(branch->then_case), else_case = visit(branch->else_case);
  if (then_case == branch->then_case && else_case == branch->else_case) return branch;
  return if_then(branch->condition, then_case, else_case);
}

Stmt StmtMutator::visit_alloc(const Ref<Alloc>& alloc) {
  Stmt body = visit(alloc->body);
  if (body == alloc->body) return alloc;
  return body ? Stmt(make<Alloc>(alloc->buffer, body)) : body;
}

Stmt StmtMutator::visit_block(const Ref<Block>& block) {
  CHECK(false, "block {} at the lowered level", block->name);
}

Stmt StmtMutator::visit_seq(const Ref<Seq>& seq) {
  std::vector<Stmt> stmts;
  bool changed = false;
  for (const Stmt& stmt : seq->stmts) {
    stmts.push_back(visit(stmt));
    changed |= stmts.back() != stmt;
  }
  if (!changed) return seq;
  // Statements that have vanished.
  std::erase_if(stmts, [](const Stmt& s) { return !s; });
  return stmts.empty() ? Stmt() : tir::seq(std::move(stmts));
}

Stmt with_body(const Ref<For>& loop, Stmt body) {
  if (!body || body == loop->body) return body ? Stmt(loop) : body;
  auto copy = mutate(*loop);
  copy->body = std::move(body);
  return seal(std::move(copy));
}

Stmt if_then(const Expr& condition, Stmt then_case, Stmt else_case) {
  if (const int64_t* value = as_int(condition)) return *value ? then_case : else_case;
  if (!then_case && !else_case) return {};
  // An If has a first case always.
  if (!then_case) return make<If>(logical_not(condition), else_case);
  return make<If>(condition, then_case, else_case);
}

/// Variables and buffers are compared by identity: of two copies with the same loops, what a pass learns of
/// one would count for the other.
Stmt fresh_copy(const Stmt& stmt, VarMap vars) {
  BufferMap buffers;
  post_order(stmt, [&](const NodeRef& node) {
    if (const For* loop = node.as<For>()) vars[loop->var.get()] = var(loop->var->name, loop->var->dtype);
    if (const Alloc* alloc = node.as<Alloc>()) {
      const BufferNode& old = *alloc->buffer;
      buffers[&old] = buffer(old.name, old.shape, old.dtype, old.scope);
    }
  });
  return substitute(stmt, vars, buffers);
}

}  // namespace lathe::tir
