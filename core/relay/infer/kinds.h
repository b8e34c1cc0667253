// Kinds: the types of types (Roesch et al. 2018, Figure 5).
#pragma once

#include "core/relay/expr.h"

namespace lathe::relay {

/// Throws Error unless values can have `type`: data types are defined and have as many arguments as
/// parameters, of their kinds, and no variable of another kind stands where a type is expected.
void check_kinds(const Type& type, const ModuleNode& module);

/// The same for what stands for a type parameter of kind `wanted`; a message begins with `what`.
void check_argument(const Type& type, Kind wanted, const std::string& what, const ModuleNode& module);

}  // namespace lathe::relay
