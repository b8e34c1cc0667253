// Do the clauses of a match cover every value (Maranget 2007, "Warnings for pattern matching").
#pragma once

#include <string>

#include "core/relay/expr.h"

namespace lathe::relay {

/// A value that no clause covers, as a pattern ("Cons(_, Nil)"), or "". Gives up, and says "", on enormous
/// matches. REQUIRES: patterns have as many items as their constructors have fields.
std::string find_uncovered(const Match& match, const Module& module);

}  // namespace lathe::relay
