// One function for each shape and base type that a generic one is used at.
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Functions that are polymorphic in variables of kind Shape or BaseType are replaced by instances: of a
/// global one a global function for each combination of what its variables stand for, of a local one a copy
/// where it is called. Other type parameters stay. The result has its types, which is the proof that each
/// instance is right: throws TypeError at the place inside the generic function. REQUIRES: types.
Module specialize(const Module& module);

}  // namespace lathe::relay
