// Blocks -> plain statements.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// A block becomes its body with the iterators' values in place of the iterators, under its predicate, after
/// its init under "all reduction iterators are 0", or, where there may be no terms, in front of their loops;
/// within Allocs of its buffers.
Stmt lower_blocks(const Stmt& scheduled);

}  // namespace lathe::tir
