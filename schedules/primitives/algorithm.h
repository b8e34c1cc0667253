// What primitives share that compute a block by another algorithm.
#pragma once

#include "schedules/primitive.h"

namespace lathe::schedule {

/// Throws Error unless the block at the end of `path` is outermost and its loops are as they were built: one
/// for each variable, over all its values, around nothing else.
void require_unscheduled(const Application& a, const Path& path);

/// Throws Error unless no variable of that block runs over an open dimension.
void require_constant_extents(const Application& a, const Path& path);

/// for v: to[v] = from[v], for all elements, in a block of that name.
tir::Stmt copy_nest(const std::string& name, const tir::Buffer& from, const tir::Buffer& to);

/// a.func with `stmts` in place of the block and its loops; the root block allocates `buffers`.
tir::Func with_algorithm(const Application& a, const tir::Block& block, const tir::Stmt& stmts,
                         const std::vector<tir::Buffer>& buffers);

}  // namespace lathe::schedule
