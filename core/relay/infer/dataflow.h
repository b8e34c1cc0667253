// Dataflow blocks are straight lines without effects.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Throws TypeError where a dataflow block branches, makes a function, reads or writes a reference, or calls
/// something that may: a function is pure when its body is and all that it calls by name are. Casts are
/// allowed, as Relax allows them: they check shapes.
void check_dataflow(const Module& module);

}  // namespace lathe::relay
