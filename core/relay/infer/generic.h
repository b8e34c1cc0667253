// Operators on tensors whose shape or base type is a variable: Tensor[S, T].
#pragma once

#include "core/relay/op.h"

namespace lathe::relay {

/// Whether a shape or a base type that is not known occurs in `type`.
bool is_generic(const Type& type);

/// The type of a call of `op` on arguments of which some are generic, without holes. `given` holds for the
/// variables (RelationType): one that says it decides. Else the relation is tried on shapes of each rank up
/// to four, of symbolic dimensions, and on base types of each kind: it must hold for all, and its result must
/// be of one of the shapes and base types that occur. Throws Error (lower case, with the operator and the
/// shapes for which it does not hold) that asks for a constraint.
Type generic_result(const Op& op, const std::vector<Expr>& args, const std::vector<Type>& types,
                    const Attrs& attrs, const std::vector<Type>& given);

}  // namespace lathe::relay
