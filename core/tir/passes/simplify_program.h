// Simplification of whole programs.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Expressions in canonical form under the ranges of the loops around them, conditions decided where the
/// ranges decide them, loops of one or no iteration gone, and conditions that do not depend on a loop outside
/// of it.
Stmt simplify_program(const Stmt& body);

}  // namespace lathe::tir
