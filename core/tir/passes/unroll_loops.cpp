#include "core/tir/passes/unroll_loops.h"

#include "core/support/error.h"
#include "core/tir/passes/mutator.h"

namespace lathe::tir {
namespace {
constexpr int64_t kMostStatements = 16384;

/// Stores, loops and conditions.
int64_t statements_in(const Stmt& stmt) {
  int64_t count = 0;
  if (const Seq* seq = stmt.as<Seq>()) {
    for (const Stmt& s : seq->stmts) count += statements_in(s);
    return count;
  }
  if (const For* loop = stmt.as<For>()) return 1 + statements_in(loop->body);
  if (const If* branch = stmt.as<If>())
    return 1 + statements_in(branch->then_case) + (branch->else_case ? statements_in(branch->else_case) : 0);
  if (const Alloc* alloc = stmt.as<Alloc>()) return statements_in(alloc->body);
  return 1;
}

class UnrollLoops final : public StmtMutator {
 protected:
  Stmt visit_for(const Ref<For>& loop) override {
    if (loop->iteration != Iteration::kUnrolled) return StmtMutator::visit_for(loop);
    const int64_t* extent = as_int(loop->extent);
    if (!extent) fail("unroll: the extent of loop {} is not constant", loop->var->name);
    // Loops inside first, so that the size of the copies is known.
    Stmt body = visit(loop->body);
    if (!body) return body;
    if (statements_in(body) * *extent > kMostStatements)
      return make<For>(loop->var, loop->extent, Iteration::kSerial, body, loop->annotations);
    std::vector<Stmt> copies;
    for (int64_t i = 0; i < *extent; ++i) copies.push_back(fresh_copy(body, {{loop->var.get(), Expr(i)}}));
    return seq(std::move(copies));
  }
};
}  // namespace

Stmt unroll_loops(const Stmt& body) { return UnrollLoops().visit(body); }

}  // namespace lathe::tir
