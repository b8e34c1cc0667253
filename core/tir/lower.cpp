#include "core/tir/lower.h"

#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/pass.h"

namespace lathe::tir {
namespace {

/// A thread's own memory has a size that is known; only the workspace, which the caller gives, may not.
void require_known_stack(const Stmt& stmt, const std::string& name, bool in_parallel = false) {
  if (!stmt) return;
  if (const Alloc* alloc = stmt.as<Alloc>())
    if (!has_constant_shape(*alloc->buffer) && (in_parallel || alloc->buffer->scope != Scope::kGlobal))
      fail("{}: {} lives in a thread, but how large it is depends on a dimension that is open", name,
           alloc->buffer->name);
  const For* loop = stmt.as<For>();
  const bool inside = in_parallel || (loop && loop->iteration == Iteration::kParallel);
  stmt->for_each_child([&](const NodeRef& child) {
    if (dynamic_cast<const StmtNode*>(child.get())) require_known_stack(child.cast<StmtNode>(), name, inside);
  });
}

}  // namespace

Func lower(const Func& scheduled, const Target& target) {
  Func lowered = run_passes(scheduled, lowering_pipeline(), {.target = target});
  if (!dims_of(*lowered).empty()) require_known_stack(lowered->body, lowered->name);
  return lowered;
}

}  // namespace lathe::tir
