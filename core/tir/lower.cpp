#include "core/tir/lower.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/support/error.h"
#include "core/tir/dims.h"
#include "core/tir/pass.h"

namespace lathe::tir {
namespace {

/// What lives in a thread, but is as large as open dimensions say; null where there is none. A thread's own
/// memory has a size that is known; only the workspace, which the caller gives, may not.
const Alloc* open_stack(const Stmt& stmt, bool in_parallel = false) {
  if (!stmt) return nullptr;
  const Alloc* alloc = stmt.as<Alloc>();
  if (alloc && !has_constant_shape(*alloc->buffer) && (in_parallel || alloc->buffer->scope != Scope::kGlobal))
    return alloc;
  const For* loop = stmt.as<For>();
  const bool inside = in_parallel || (loop && loop->iteration == Iteration::kParallel);
  const Alloc* found = nullptr;
  stmt->for_each_child([&](const NodeRef& child) {
    if (!found && dynamic_cast<const StmtNode*>(child.get()))
      found = open_stack(child.cast<StmtNode>(), inside);
  });
  return found;
}

/// The passes before the one that unrolls, and it with those after it.
std::pair<std::span<const PassId>, std::span<const PassId>> around_unrolling() {
  const std::span<const PassId> all = lowering_pipeline();
  const auto first =
      static_cast<size_t>(std::find(all.begin(), all.end(), PassId::kUnrollLoops) - all.begin());
  return {all.first(first), all.subspan(first)};
}

Func lower_rest(const Func& func, std::span<const PassId> passes, const Target& target) {
  Func lowered = run_passes(func, passes, {.target = target});
  if (dims_of(*lowered).empty()) return lowered;
  if (const Alloc* alloc = open_stack(lowered->body))
    fail("{}: {} lives in a thread, but how large it is depends on a dimension that is open", lowered->name,
         alloc->buffer->name);
  return lowered;
}

}  // namespace

Func lower(const Func& scheduled, const Target& target) {
  return lower_rest(scheduled, lowering_pipeline(), target);
}

bool can_lower(const Func& scheduled, const Target& target) {
  const auto [before, after] = around_unrolling();
  try {
    const Func func = run_passes(scheduled, before, {.target = target});
    // What depends on the variable of an unrolled loop is known once that has a value.
    if (open_stack(func->body)) lower_rest(func, after, target);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace lathe::tir
