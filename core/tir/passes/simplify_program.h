// Simplification of whole programs.
#pragma once

#include "core/tir/stmt.h"

namespace lathe::tir {

/// Expressions in canonical form under the ranges of the loops around them, conditions decided where the
/// ranges or an If around decide them, loops of one or no iteration gone, conditions that do not depend on a
/// loop outside of it (masks of lanes stay inside parallel loops), and neighbours under the same condition
/// under one.
Stmt simplify_program(const Stmt& body);

}  // namespace lathe::tir
