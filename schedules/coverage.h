// Which part of a buffer a block writes as some of its loops run, and whether it writes each element once.
#pragma once

#include "core/tir/regions.h"
#include "schedules/program.h"

namespace lathe::schedule {

/// The loops around the block at the end of `path`, up to its scope, that stand below `loop`; with `loop`
/// itself when `inclusive`.
tir::Domain loops_below(const Path& path, const tir::Stmt& loop, bool inclusive = false);

/// What `region` of the block at the end of `path` is when the loops of `domain` run over all their values.
tir::Region relaxed(const tir::Region& region, const Path& path, const tir::Domain& domain,
                    const Analyzer& context);

/// The block, over all values of the loops of `domain`, writes each element of a box exactly once,
/// repetitions by reduction loops aside. False when that is not known.
bool writes_once(const Path& path, const tir::Domain& domain);

/// What the block at the end of `path` writes over all its loops. REQUIRES: it writes one buffer.
tir::Region written_in_all(const Path& path);

/// Where the block's predicate holds it writes nothing in `box`. False when that is not known: its elements
/// are to be its variables', which loops of their own run through.
bool writes_outside(const tir::Block& block, const tir::Region& box);

/// The loop binds a variable of the block of that kind.
bool carries(const tir::Block& block, const Var& loop, tir::IterKind kind);

}  // namespace lathe::schedule
